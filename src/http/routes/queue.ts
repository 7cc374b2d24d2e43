import { createRoute, z } from '@hono/zod-openapi';
import type { Context } from 'hono';
import { formatId } from '../../domain/ids.ts';
import { DELIVERIES } from '../../domain/session.ts';
import { findSession } from '../../store/sessions.ts';
import { changeWaiting, listWaiting, type Removal, removeWaiting, type WaitingMessage } from '../../store/waiting.ts';
import { auditRequest } from '../audit-trail.ts';
import { contentField, toParts } from '../content-field.ts';
import { idField, idParams, noQuery } from '../fields.ts';
import { type BatonApp, type HttpDeps, type HttpEnv, tenantOf } from '../http-deps.ts';
import { BODY_REFUSED, CONFLICT, jsonOf, NOT_FOUND, REFUSED, timeBody } from '../responses.ts';
import { tellCancelled } from '../tell-cancelled.ts';
import { tellChanged } from '../tell-changed.ts';

const tags = ['queue'];

const itemParams = z.strictObject({
  id: idField('session').openapi({ param: { name: 'id', in: 'path', required: true } }),
  messageId: idField('message').openapi({ param: { name: 'messageId', in: 'path', required: true } }),
});

export const waitingBody = z
  .object({
    id: z.string(),
    position: z.int(),
    delivery: z.enum(DELIVERIES),
    content: z.array(z.unknown()),
    enqueuedAt: timeBody,
  })
  .openapi('WaitingMessage');
const queueBody = z.object({ messages: z.array(waitingBody) }).openapi('Queue');

const list = createRoute({
  method: 'get',
  path: '/v1/sessions/{id}/queue',
  tags,
  summary: 'List the messages that wait to be taken up',
  description: 'Also those that a failed or cancelled run left behind: the next message or `resume` takes them along.',
  request: { params: idParams('session'), query: noQuery },
  responses: { 200: jsonOf(queueBody, 'In the order in which they will be taken up.'), ...REFUSED, ...NOT_FOUND },
});

const change = createRoute({
  method: 'patch',
  path: '/v1/sessions/{id}/queue/{messageId}',
  tags,
  summary: 'Change a message that waits',
  description: 'What it says, or whether it joins the active run (`steer`) or waits for its end (`followup`).',
  request: {
    params: itemParams,
    query: noQuery,
    body: {
      required: true,
      content: {
        'application/json': {
          schema: z
            .strictObject({ content: contentField.optional(), delivery: z.enum(['steer', 'followup']).optional() })
            .openapi('WaitingMessageChange'),
        },
      },
    },
  },
  responses: {
    200: jsonOf(queueBody, 'What waits now.'),
    ...REFUSED,
    ...BODY_REFUSED,
    ...NOT_FOUND,
    ...CONFLICT,
  },
});

const remove = createRoute({
  method: 'delete',
  path: '/v1/sessions/{id}/queue/{messageId}',
  tags,
  summary: 'Remove a message that waits',
  request: { params: itemParams, query: noQuery },
  responses: { 204: { description: 'It will not be taken up.' }, ...REFUSED, ...NOT_FOUND, ...CONFLICT },
});

const clear = createRoute({
  method: 'delete',
  path: '/v1/sessions/{id}/queue',
  tags,
  summary: 'Remove all messages that wait',
  request: { params: idParams('session'), query: noQuery },
  responses: {
    200: jsonOf(z.object({ removed: z.array(z.string()) }), 'Their ids, in their order.'),
    ...REFUSED,
    ...NOT_FOUND,
  },
});

/** What waits in front of a session's transcript. */
export function registerQueueRoutes(app: BatonApp, deps: HttpDeps): void {
  const { db, bus, newId } = deps;
  const removeAndTell = async (c: Context<HttpEnv>, sessionId: string, messageId: string | null): Promise<Removal> => {
    const removal = await db.transaction().execute(async (tx) => {
      const removed = await removeWaiting(tx, { tenantId: tenantOf(c), sessionId, messageId });
      await auditRequest(tx, c, messageId === null ? 'queue:clear' : 'message:remove');
      return removed;
    });
    if (removal.cancelled !== null) await tellCancelled(deps, removal.cancelled);
    await tellChanged(deps, sessionId, removal);
    return removal;
  };
  const readQueue = async (tenantId: string, sessionId: string): Promise<z.infer<typeof queueBody>> => ({
    messages: (await listWaiting(db, tenantId, sessionId)).map(toWaitingBody),
  });

  app.openapi(list, async (c) => {
    const { id } = c.req.valid('param');
    await findSession(db, tenantOf(c), id);
    return c.json(await readQueue(tenantOf(c), id), 200);
  });

  app.openapi(change, async (c) => {
    const { id, messageId } = c.req.valid('param');
    const { content, delivery } = c.req.valid('json');
    const changed = { content: content === undefined ? undefined : toParts(content), delivery };
    const ref = { tenantId: tenantOf(c), sessionId: id, messageId };
    bus.announce(id, await changeWaiting(db, ref, changed, newId()));
    return c.json(await readQueue(tenantOf(c), id), 200);
  });

  app.openapi(remove, async (c) => {
    const { id, messageId } = c.req.valid('param');
    await removeAndTell(c, id, messageId);
    return c.body(null, 204);
  });

  app.openapi(clear, async (c) => {
    const { id } = c.req.valid('param');
    const { ids } = await removeAndTell(c, id, null);
    return c.json({ removed: ids.map((removed) => formatId('message', removed)) }, 200);
  });
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
