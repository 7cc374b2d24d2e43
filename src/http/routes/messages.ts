import { createRoute, z } from '@hono/zod-openapi';
import { formatId } from '../../domain/ids.ts';
import type { UserPart } from '../../domain/message.ts';
import { RUN_STATUSES } from '../../domain/run.ts';
import { MAX_MESSAGE_CHARS } from '../../domain/tunables.ts';
import { acceptMessage, listWaiting, type WaitingMessage } from '../../store/inbox.ts';
import { listMessages } from '../../store/messages.ts';
import { findSession } from '../../store/sessions.ts';
import { dispatchJob } from '../dispatch.ts';
import { afterField, idField, idParams, limitField, noQuery, textField } from '../fields.ts';
import { type BatonApp, type HttpDeps, TENANT_ID } from '../http-deps.ts';
import { messageBody, toMessageBody } from '../message-body.ts';
import { BODY_REFUSED, CONFLICT, jsonOf, NOT_FOUND, REFUSED, timeBody } from '../responses.ts';

const tags = ['messages'];
const MAX_PARTS = 256;
const MAX_STEPS = 10_000;

/** Providers refuse a text without a visible character. */
const messageText = textField(MAX_MESSAGE_CHARS).refine((text) => text.trim() !== '', { error: 'must not be blank' });

const contentField = z.union([
  messageText,
  z
    .array(z.discriminatedUnion('type', [z.strictObject({ type: z.literal('text'), text: messageText })]))
    .min(1)
    .max(MAX_PARTS)
    .refine((parts) => parts.reduce((sum, part) => sum + part.text.length, 0) <= MAX_MESSAGE_CHARS, {
      error: `at most ${MAX_MESSAGE_CHARS} characters altogether`,
    }),
]);

const send = createRoute({
  method: 'post',
  path: '/v1/sessions/{id}/messages',
  tags,
  summary: 'Send a message to a session',
  description:
    'Starts a run, or joins the active one at its next step boundary. Sending the same `id` again changes nothing.',
  request: {
    params: idParams('session'),
    query: noQuery,
    body: {
      required: true,
      content: {
        'application/json': {
          schema: z
            .strictObject({
              content: contentField,
              id: idField('message').optional(),
              delivery: z.literal('steer').optional(),
              limits: z.strictObject({ maxSteps: z.int().min(1).max(MAX_STEPS).optional() }).optional(),
            })
            .openapi('NewMessage'),
        },
      },
    },
  },
  responses: {
    202: jsonOf(
      z
        .object({
          messageId: z.string(),
          runId: z.string(),
          queued: z.boolean().openapi({ description: 'A run was active: the message waits for its next step.' }),
          position: z.int().openapi({ description: 'Among those that wait, from 1; 0 when it does not wait.' }),
          status: z.enum(RUN_STATUSES).openapi({ description: 'Of the run.' }),
        })
        .openapi('AcceptedMessage'),
      'The message is stored and will be worked on.',
    ),
    ...REFUSED,
    ...BODY_REFUSED,
    ...NOT_FOUND,
    ...CONFLICT,
  },
});

const list = createRoute({
  method: 'get',
  path: '/v1/sessions/{id}/messages',
  tags,
  summary: 'Read the transcript, oldest first',
  request: { params: idParams('session'), query: z.strictObject({ after: afterField, limit: limitField }) },
  responses: {
    200: jsonOf(
      z.object({
        messages: z.array(messageBody),
        next: z.int().nullable().openapi({ description: 'Pass it as `after`; null at the end of the transcript.' }),
      }),
      'A page of the transcript.',
    ),
    ...REFUSED,
    ...NOT_FOUND,
  },
});

const waitingBody = z
  .object({
    id: z.string(),
    position: z.int(),
    delivery: z.string(),
    content: z.array(z.unknown()),
    enqueuedAt: timeBody,
  })
  .openapi('WaitingMessage');

const queue = createRoute({
  method: 'get',
  path: '/v1/sessions/{id}/queue',
  tags,
  summary: 'List the messages that wait to be taken up',
  request: { params: idParams('session'), query: noQuery },
  responses: {
    200: jsonOf(z.object({ messages: z.array(waitingBody) }), 'In the order in which they will be taken up.'),
    ...REFUSED,
    ...NOT_FOUND,
  },
});

/** Sending messages, and reading what was said and what waits. */
export function registerMessageRoutes(app: BatonApp, deps: HttpDeps): void {
  const { db, bus, newId } = deps;

  app.openapi(send, async (c) => {
    const { content, id, limits } = c.req.valid('json');
    const sessionId = c.req.valid('param').id;
    const accepted = await acceptMessage(db, {
      tenantId: TENANT_ID,
      sessionId,
      messageId: id ?? newId(),
      content: toParts(content),
      runId: newId(),
      maxSteps: limits?.maxSteps ?? null,
    });
    bus.announce(sessionId, accepted.eventSeq);
    if (accepted.job !== null) await dispatchJob(deps, accepted.job);
    const { queued, position, status } = accepted;
    const messageId = formatId('message', accepted.messageId);
    return c.json({ messageId, runId: formatId('run', accepted.runId), queued, position, status }, 202);
  });

  app.openapi(list, async (c) => {
    const sessionId = c.req.valid('param').id;
    const { after = 0, limit } = c.req.valid('query');
    await findSession(db, TENANT_ID, sessionId);
    const messages = await listMessages(db, sessionId, after, limit + 1);
    const page = messages.slice(0, limit);
    const next = messages.length > limit ? (page.at(-1)?.seq ?? null) : null;
    return c.json({ messages: page.map(toMessageBody), next }, 200);
  });

  app.openapi(queue, async (c) => {
    const sessionId = c.req.valid('param').id;
    await findSession(db, TENANT_ID, sessionId);
    const waiting = await listWaiting(db, sessionId);
    return c.json({ messages: waiting.map(toWaitingBody) }, 200);
  });
}

function toParts(content: z.infer<typeof contentField>): readonly UserPart[] {
  return typeof content === 'string' ? [{ type: 'text', text: content }] : content;
}

function toWaitingBody(message: WaitingMessage, index: number): z.infer<typeof waitingBody> {
  return {
    id: formatId('message', message.id),
    position: index + 1,
    delivery: message.delivery,
    content: message.content,
    enqueuedAt: message.enqueuedAt.toISOString(),
  };
}
