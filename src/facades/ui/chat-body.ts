import { z } from '@hono/zod-openapi';
import { REQUESTED_DELIVERIES } from '../../domain/run/delivery.ts';
import { textField } from '../../http/bodies/fields.ts';
import { limitsBody } from '../../http/bodies/limits-body.ts';
import { chatRequestShape } from './chat-request.ts';

export const chatName = textField(256).min(1);

export const agentField = textField(64).min(1).optional().openapi({
  description: 'Of a new chat. One that exists goes on with the agent that it has.',
});

const DELIVERY =
  'What becomes of a message while a run is at work: `followup` (default) gets an answer of its own afterwards, `steer` joins the ' +
  'run at its next step, `interrupt` cancels it first, `reject` is refused with 409.';

export const chatBody = z
  .looseObject({
    ...chatRequestShape,
    id: chatName,
    agent: agentField,
    delivery: z.enum(REQUESTED_DELIVERIES).optional().openapi({ description: DELIVERY }),
    limits: limitsBody.optional(),
  })
  .openapi('ChatRequest', {
    example: {
      id: 'my-chat',
      message: { role: 'user', parts: [{ type: 'text', text: 'Which files here mention shipping?' }] },
    },
  });
