import { createRoute, z } from '@hono/zod-openapi';
import { REQUESTED_DELIVERIES } from '../domain/run/delivery.ts';
import { RUN_STATUSES } from '../domain/run/run.ts';
import { MAX_CONTENT_BODY_BYTES } from '../domain/tunables.ts';
import { limitBody } from './body-limit.ts';
import { contentField } from './content-field.ts';
import { afterField, beforeField, idField, idParams, limitField, noQuery } from './fields.ts';
import { idempotencyHeader } from './idempotency-key.ts';
import { jsonBody } from './json-body.ts';
import { limitsBody } from './limits-body.ts';
import { messageBody } from './message-body.ts';
import { outputFormatBody } from './output-format.ts';
import { BODY_REFUSED, CONFLICT, jsonOf, NOT_FOUND, REFUSED } from './responses.ts';
import { messageWebhookField } from './webhook-body.ts';

const tags = ['messages'];

export const acceptedBody = z
  .object({
    messageId: z.string(),
    runId: z
      .string()
      .openapi({ description: 'The run that handles the message. You can wait for it before it starts.' }),
    queued: z.boolean().openapi({
      description: 'True: another run is active, so the message waits. Compaction and prune runs count.',
    }),
    position: z
      .int()
      .openapi({ description: 'Position among the waiting messages, from 1. 0: the message does not wait.' }),
    status: z.enum(RUN_STATUSES).openapi({ description: 'Status of the run.' }),
  })
  .openapi('AcceptedMessage');

const SENT_ID =
  'Chosen by the sender: sent again, it is the same message. Another session of the tenant refuses it with 409.';

const DELIVERY =
  'While a run is at work: `steer` (default) joins it at its next step, `followup` gets a run of its own afterwards, ' +
  '`interrupt` cancels it first, `reject` is refused with 409.';

export const newMessageBody = z
  .strictObject({
    content: contentField,
    id: idField('message').optional().openapi({ description: SENT_ID }),
    delivery: z.enum(REQUESTED_DELIVERIES).optional().openapi({ description: DELIVERY }),
    limits: limitsBody.optional(),
    webhook: messageWebhookField.optional(),
    output: outputFormatBody.optional().openapi({
      description: 'Output schema of the run that this message starts. Overrides the agent’s.',
    }),
  })
  .openapi('NewMessage', { example: { content: 'Which files here mention shipping?' } });

export const sendMessageRoute = createRoute({
  method: 'post',
  path: '/v1/sessions/{id}/messages',
  middleware: limitBody(MAX_CONTENT_BODY_BYTES),
  operationId: 'sendMessage',
  tags,
  summary: 'Send a message to a session',
  description:
    'Starts a run, or joins the active one at its next step boundary. Sending the same `id` again changes nothing; with the same `Idempotency-Key` the answer is the first one.',
  request: {
    params: idParams('session'),
    query: noQuery,
    headers: idempotencyHeader,
    body: jsonBody(newMessageBody),
  },
  responses: {
    202: jsonOf(acceptedBody, 'The message is stored and will be worked on.'),
    ...REFUSED,
    ...BODY_REFUSED,
    ...NOT_FOUND,
    ...CONFLICT,
  },
});

export const listMessagesRoute = createRoute({
  method: 'get',
  path: '/v1/sessions/{id}/messages',
  operationId: 'listMessages',
  tags,
  summary: 'Read the transcript',
  description:
    'A page has fewer messages than its limit where they are large. With `before` it is the page that ends there, also oldest first. With `order=desc` it begins with the newest message and goes back: pass `previous` as `before` for the page in front of it.',
  request: {
    params: idParams('session'),
    query: z
      .strictObject({
        after: afterField,
        before: beforeField.optional(),
        order: z
          .enum(['asc', 'desc'])
          .optional()
          .openapi({ description: 'Order of the page. Default: `asc`, oldest first.' }),
        runId: idField('run').optional().openapi({ description: 'Only the messages of this run.' }),
        limit: limitField,
      })
      .refine(({ after, before }) => after === undefined || before === undefined, {
        path: ['before'],
        error: 'either after or before',
      })
      .refine(({ after, order }) => after === undefined || order !== 'desc', {
        path: ['after'],
        error: 'not with order=desc: pass before',
      }),
  },
  responses: {
    200: jsonOf(
      z.object({
        messages: z.array(messageBody),
        next: z
          .int()
          .nullable()
          .openapi({ description: 'Value to pass as `after` for the next page. null at the end of the transcript.' }),
        previous: z.int().nullable().openapi({
          description: 'Value to pass as `before` for the previous page. null at the beginning of the transcript.',
        }),
      }),
      'A page of the transcript.',
    ),
    ...REFUSED,
    ...NOT_FOUND,
  },
});
