import { createRoute, z } from '@hono/zod-openapi';
import { afterAccepted } from '../../commands/after-commit.ts';
import { formatId } from '../../domain/ids.ts';
import { REQUESTED_DELIVERIES } from '../../domain/run/delivery.ts';
import { RUN_STATUSES } from '../../domain/run/run.ts';
import { limitsFor } from '../../domain/run/session-token.ts';
import { MAX_CONTENT_BODY_BYTES } from '../../domain/tunables.ts';
import { type AcceptedMessage, acceptMessage } from '../../store/changes/inbox.ts';
import { findSession } from '../../store/session/sessions.ts';
import {
  hasMessagesAfter,
  hasMessagesBefore,
  listMessages,
  listNewestMessages,
} from '../../store/transcript/messages.ts';
import { contentField, toParts } from '../bodies/content-field.ts';
import { afterField, beforeField, idField, idParams, limitField, noQuery } from '../bodies/fields.ts';
import { jsonBody } from '../bodies/json-body.ts';
import { limitsBody } from '../bodies/limits-body.ts';
import { messageBody, toMessageBody } from '../bodies/message-body.ts';
import { outputFormatBody } from '../bodies/output-format.ts';
import { BODY_REFUSED, CONFLICT, jsonOf, NOT_FOUND, REFUSED } from '../bodies/responses.ts';
import { messageWebhookField, toMessageWebhook } from '../bodies/webhook-body.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, tenantOf } from '../http-env.ts';
import { auditInterrupt, auditRequest } from '../middleware/audit-trail.ts';
import { limitBody } from '../middleware/body-limit.ts';
import { idempotencyHeader, workOnce } from '../middleware/idempotency.ts';
import { refuseBeyondToken } from '../middleware/token-caller.ts';

const tags = ['messages'];
export const acceptedBody = z
  .object({
    messageId: z.string(),
    runId: z.string().openapi({ description: 'Takes it up; one that waits for its turn can be waited for already.' }),
    queued: z.boolean().openapi({
      description: 'A run is at work that the message waits for: one that only tidies the session up, too.',
    }),
    position: z.int().openapi({ description: 'Among those that wait, from 1; 0 when it does not wait.' }),
    status: z.enum(RUN_STATUSES).openapi({ description: 'Of the run.' }),
  })
  .openapi('AcceptedMessage');

const SENT_ID =
  'Chosen by the sender: sent again, it is the same message. Another session of the tenant refuses it with 409.';
const DELIVERY =
  'While a run is at work: `steer` (default) joins it at its next step, `followup` gets a run of its own afterwards, ' +
  '`interrupt` cancels it first, `reject` is refused with 409.';

const send = createRoute({
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
    body: jsonBody(
      z
        .strictObject({
          content: contentField,
          id: idField('message').optional().openapi({ description: SENT_ID }),
          delivery: z.enum(REQUESTED_DELIVERIES).optional().openapi({ description: DELIVERY }),
          limits: limitsBody.optional(),
          webhook: messageWebhookField.optional(),
          output: outputFormatBody.optional().openapi({
            description: 'The result that the run which it starts is asked for, in place of the agent’s own.',
          }),
        })
        .openapi('NewMessage', { example: { content: 'Which files here mention shipping?' } }),
    ),
  },
  responses: {
    202: jsonOf(acceptedBody, 'The message is stored and will be worked on.'),
    ...REFUSED,
    ...BODY_REFUSED,
    ...NOT_FOUND,
    ...CONFLICT,
  },
});

const list = createRoute({
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
        order: z.enum(['asc', 'desc']).optional().openapi({ description: '`asc`, oldest first, by default.' }),
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
        next: z.int().nullable().openapi({ description: 'Pass it as `after`; null at the end of the transcript.' }),
        previous: z.int().nullable().openapi({ description: 'Pass it as `before`; null at its beginning.' }),
      }),
      'A page of the transcript.',
    ),
    ...REFUSED,
    ...NOT_FOUND,
  },
});

export function registerMessageRoutes(app: BatonApp, deps: HttpDeps): void {
  const { db, newId } = deps;

  app.openapi(send, async (c) => {
    const { content, id, delivery = 'steer', limits = {}, output, webhook: hook } = c.req.valid('json');
    const caller = c.get('caller');
    refuseBeyondToken(caller, { output, webhook: hook });
    const webhook = hook === undefined ? undefined : toMessageWebhook(hook, deps.webhookPolicy);
    const sessionId = c.req.valid('param').id;
    const sent = { sessionId, content, id, delivery, limits, output, webhook };
    const asked = { route: send, request: sent, answer: acceptedBody };
    let accepted: AcceptedMessage | undefined;
    const { body, headers } = await workOnce(c, db, asked, async (tx) => {
      const ids = { tenantId: tenantOf(c), sessionId, messageId: id ?? newId(), runId: newId() };
      accepted = await acceptMessage(tx, {
        ...ids,
        content: toParts(content),
        delivery,
        ...limitsFor(caller.session?.grant, limits),
        webhook,
        output,
        quota: deps.quota,
        inboxLimits: deps.inboxLimits,
      });
      await auditInterrupt(tx, caller, accepted);
      if (Object.keys(limits).length > 0) await auditRequest(tx, c, 'message:limits');
      if (webhook !== undefined) await auditRequest(tx, c, 'message:webhook');
      return toAcceptedBody(accepted);
    });
    if (accepted !== undefined) await afterAccepted(deps, sessionId, accepted);
    return c.json(body, 202, headers);
  });

  app.openapi(list, async (c) => {
    const sessionId = c.req.valid('param').id;
    const { after = 0, before = null, order = 'asc', runId, limit } = c.req.valid('query');
    const tenantId = tenantOf(c);
    await findSession(db, tenantId, sessionId);
    const page =
      before === null && order === 'asc'
        ? await listMessages(db, tenantId, sessionId, after, limit, runId)
        : await listNewestMessages(db, tenantId, sessionId, limit, before, runId);
    const [first, last] = [page.at(0)?.seq ?? null, page.at(-1)?.seq ?? null];
    const place = { tenantId, sessionId, runId };
    const next = last !== null && (await hasMessagesAfter(db, { ...place, seq: last })) ? last : null;
    const previous = first !== null && (await hasMessagesBefore(db, { ...place, seq: first })) ? first : null;
    const messages = (order === 'asc' ? page : page.toReversed()).map(toMessageBody);
    return c.json({ messages, next, previous }, 200);
  });
}

export function toAcceptedBody({
  messageId,
  runId,
  queued,
  position,
  status,
}: AcceptedMessage): z.infer<typeof acceptedBody> {
  return { messageId: formatId('message', messageId), runId: formatId('run', runId), queued, position, status };
}
