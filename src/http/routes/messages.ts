import { createRoute, z } from '@hono/zod-openapi';
import { formatId } from '../../domain/ids.ts';
import { REQUESTED_DELIVERIES } from '../../domain/run/delivery.ts';
import { RUN_STATUSES } from '../../domain/run/run.ts';
import { type AcceptedMessage, acceptMessage } from '../../store/inbox.ts';
import { hasMessagesAfter, listMessages } from '../../store/messages.ts';
import { findSession } from '../../store/sessions.ts';
import { afterAccepted } from '../after-commit.ts';
import { contentField, toParts } from '../bodies/content-field.ts';
import { afterField, idField, idParams, limitField, noQuery } from '../bodies/fields.ts';
import { limitsBody } from '../bodies/limits-body.ts';
import { messageBody, toMessageBody } from '../bodies/message-body.ts';
import { BODY_REFUSED, CONFLICT, jsonOf, NOT_FOUND, REFUSED } from '../bodies/responses.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, tenantOf } from '../http-env.ts';
import { auditInterrupt } from '../middleware/audit-trail.ts';
import { idempotencyHeader, workOnce } from '../middleware/idempotency.ts';

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

const DELIVERY =
  'While a run is at work: `steer` (default) joins it at its next step, `followup` gets a run of its own afterwards, ' +
  '`interrupt` cancels it first, `reject` is refused with 409.';

const send = createRoute({
  method: 'post',
  path: '/v1/sessions/{id}/messages',
  operationId: 'sendMessage',
  tags,
  summary: 'Send a message to a session',
  description:
    'Starts a run, or joins the active one at its next step boundary. Sending the same `id` again changes nothing; with the same `Idempotency-Key` the answer is the first one.',
  request: {
    params: idParams('session'),
    query: noQuery,
    headers: idempotencyHeader,
    body: {
      required: true,
      content: {
        'application/json': {
          schema: z
            .strictObject({
              content: contentField,
              id: idField('message').optional(),
              delivery: z.enum(REQUESTED_DELIVERIES).optional().openapi({ description: DELIVERY }),
              limits: limitsBody.optional(),
            })
            .openapi('NewMessage', { example: { content: 'Which files here mention shipping?' } }),
        },
      },
    },
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
  summary: 'Read the transcript, oldest first',
  description: 'A page has fewer messages than its limit where they are large.',
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

export function registerMessageRoutes(app: BatonApp, deps: HttpDeps): void {
  const { db, newId } = deps;

  app.openapi(send, async (c) => {
    const { content, id, delivery = 'steer', limits = {} } = c.req.valid('json');
    const sessionId = c.req.valid('param').id;
    const asked = { route: send, request: { sessionId, content, id, delivery, limits }, answer: acceptedBody };
    let accepted: AcceptedMessage | undefined;
    const { body, headers } = await workOnce(c, db, asked, async (tx) => {
      const ids = { tenantId: tenantOf(c), sessionId, messageId: id ?? newId(), runId: newId() };
      accepted = await acceptMessage(tx, {
        ...ids,
        content: toParts(content),
        delivery,
        limits,
        quota: deps.quota,
        inboxLimits: deps.inboxLimits,
      });
      await auditInterrupt(tx, c.get('caller'), accepted);
      return toAcceptedBody(accepted);
    });
    if (accepted !== undefined) await afterAccepted(deps, sessionId, accepted);
    return c.json(body, 202, headers);
  });

  app.openapi(list, async (c) => {
    const sessionId = c.req.valid('param').id;
    const { after = 0, limit } = c.req.valid('query');
    await findSession(db, tenantOf(c), sessionId);
    const page = await listMessages(db, tenantOf(c), sessionId, after, limit);
    const last = page.at(-1)?.seq ?? null;
    const next = last !== null && (await hasMessagesAfter(db, tenantOf(c), sessionId, last)) ? last : null;
    return c.json({ messages: page.map(toMessageBody), next }, 200);
  });
}

function toAcceptedBody({ messageId, runId, queued, position, status }: AcceptedMessage): z.infer<typeof acceptedBody> {
  return { messageId: formatId('message', messageId), runId: formatId('run', runId), queued, position, status };
}
