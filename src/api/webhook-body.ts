import { z } from '@hono/zod-openapi';
import {
  DELIVERY_STATES,
  DISABLED_REASONS,
  MAX_SECRET_BYTES,
  MAX_WEBHOOK_URL_CHARS,
  MIN_SECRET_BYTES,
  secretProblem,
  WEBHOOK_EVENTS,
} from '../domain/webhooks/webhook.ts';
import { timeBody } from './responses.ts';

/** The longest secret as text: `whsec_` and Base64. */
const MAX_SECRET_CHARS = 6 + Math.ceil(MAX_SECRET_BYTES / 3) * 4;

export const webhookUrlField = z
  .url({ protocol: /^https?$/, error: 'a URL with http:// or https://' })
  .max(MAX_WEBHOOK_URL_CHARS)
  .refine((url) => !URL.canParse(url) || new URL(url).username === '', { error: 'must hold no credentials' })
  .openapi({ example: 'https://hooks.example.com/baton' });

export const secretField = z
  .string()
  .max(MAX_SECRET_CHARS)
  .regex(/^[\x21-\x7e]*$/, { error: 'visible ASCII characters' })
  .superRefine((secret, ctx) => {
    const problem = secretProblem(secret);
    if (problem !== null) ctx.addIssue({ code: 'custom', message: problem });
  })
  .openapi({
    description: `Signs what is sent, by Standard Webhooks: \`whsec_\` and Base64, or visible ASCII, of ${MIN_SECRET_BYTES} to ${MAX_SECRET_BYTES} bytes. It is never shown.`,
    example: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
  });

export const eventsField = z
  .array(z.enum(WEBHOOK_EVENTS))
  .min(1)
  .max(WEBHOOK_EVENTS.length)
  .transform((events) => [...new Set(events)]);

export const webhookBody = z
  .object({
    id: z.string(),
    key: z
      .string()
      .nullable()
      .openapi({ description: 'Your own name for the webhook. In a path, `key:` and the key stand for the id.' }),
    declaredBy: z
      .string()
      .nullable()
      .openapi({ description: 'Declarer of the webhook: `files`, or the name of a program. null: nothing does.' }),
    url: z.string(),
    events: z.array(z.enum(WEBHOOK_EVENTS)),
    agent: z.string().nullable().openapi({ description: 'Agent whose runs are reported. null: runs of all agents.' }),
    enabled: z.boolean(),
    disabledFor: z.enum(DISABLED_REASONS).nullable().openapi({
      description:
        '`gone`: the receiver answered 410. `failing`: every attempt of three days failed. `undeclared`: the declaration has gone.',
    }),
    failingSince: timeBody.nullable().openapi({ description: 'The first failure since the last success.' }),
    createdAt: timeBody,
    updatedAt: timeBody,
  })
  .openapi('Webhook');

export const deliveryBody = z
  .object({
    id: z.string().openapi({ description: 'Id that every attempt sends as `webhook-id`.' }),
    webhookId: z.string().nullable().openapi({ description: 'Id of the webhook. null: the webhook of a message.' }),
    url: z.string().nullable().openapi({ description: 'URL of the webhook of a message.' }),
    type: z.string(),
    sessionId: z.string().nullable(),
    runId: z.string().nullable(),
    state: z.enum(DELIVERY_STATES),
    attempts: z.int(),
    nextAttemptAt: timeBody.nullable(),
    status: z
      .int()
      .nullable()
      .openapi({ description: 'HTTP status of the response to the last attempt. null: there was none.' }),
    error: z.string().nullable(),
    tookMs: z.int().nullable(),
    createdAt: timeBody,
    finishedAt: timeBody.nullable(),
  })
  .openapi('WebhookDelivery');

export const messageWebhookField = z
  .strictObject({ url: webhookUrlField, secret: secretField })
  .openapi('MessageWebhook', {
    description: 'Receiver that is told when the run that handles this message ends, and each time that it waits.',
  });
