import { z } from '@hono/zod-openapi';
import { listOf } from '../domain/bounded-list.ts';
import { REQUESTED_DELIVERIES } from '../domain/run/delivery.ts';
import { MAX_CONVERSATION_MESSAGES } from '../domain/tunables.ts';
import { textField } from './fields.ts';
import { limitsBody } from './limits-body.ts';

const MAX_ID_CHARS = 256;

/** A message of the assistant has the parts of all steps of its run. */
const MAX_UI_PARTS = 10_000;

/** Clients add fields of their own to a part, so each reader validates the fields that it needs. */
const uiPartSchema = z.looseObject({ type: z.string() });

const uiMessageSchema = z.looseObject({
  id: z.string().max(MAX_ID_CHARS).optional(),
  role: z.enum(['system', 'user', 'assistant']),
  parts: listOf(uiPartSchema, MAX_UI_PARTS),
});

export type IncomingMessage = Readonly<z.infer<typeof uiMessageSchema>>;

/**
 * The body of `DefaultChatTransport`, or only its newest `message`. Applications may add fields of their own.
 * (https://ai-sdk.dev/docs/ai-sdk-ui/transport)
 */
export const chatRequestShape = {
  messages: listOf(uiMessageSchema, MAX_CONVERSATION_MESSAGES).optional(),
  message: uiMessageSchema.optional(),
  trigger: z.enum(['submit-message', 'regenerate-message']).default('submit-message'),
  messageId: z.string().max(MAX_ID_CHARS).nullish(),
};

export const chatName = textField(256).min(1).openapi({
  description: 'Name of the chat as its client gives it; or a session, by its id or `key:` and its key.',
});

export const agentField = textField(64).min(1).optional().openapi({
  description: 'Agent of a new chat. An existing chat keeps its agent.',
});

/** The header by which a page names the version of the AI SDK that it was built with. */
export const SDK_HEADER = 'x-ai-sdk-version';

const SDK_VERSION_NAMES = ['5', '6', '7'] as const;
export type SdkVersionName = (typeof SDK_VERSION_NAMES)[number];

export const sdkVersionField = z.enum(SDK_VERSION_NAMES).optional().openapi({
  description:
    'Major version of the AI SDK of the page, which is sent nothing that this version cannot read. Without it the page is sent what versions 6 and 7 both read.',
});

const DELIVERY =
  'Delivery of a message while a run is at work: `followup` (default) gets an answer of its own afterwards, `steer` joins the ' +
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
