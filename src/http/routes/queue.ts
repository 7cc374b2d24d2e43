import type { z } from '@hono/zod-openapi';
import { toParts } from '../../api/content-field.ts';
import { toCursor } from '../../api/cursor.ts';
import {
  changeQueuedMessageRoute,
  clearQueueRoute,
  getQueuedMessageRoute,
  listQueueRoute,
  removeQueuedMessageRoute,
  type waitingBody,
} from '../../api/queue.ts';
import { changeQueued, removeQueued } from '../../commands/change-queue.ts';
import { formatId } from '../../domain/ids.ts';
import { findSession } from '../../store/session/sessions.ts';
import { countWaiting, listWaiting, readWaiting, type WaitingMessage } from '../../store/session/waiting-messages.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, tenantOf } from '../http-env.ts';

export function registerQueueRoutes(app: BatonApp, deps: HttpDeps): void {
  const { db } = deps;

  app.openapi(listQueueRoute, async (c) => {
    const { id } = c.req.valid('param');
    const { cursor, limit } = c.req.valid('query');
    await findSession(db, tenantOf(c), id);
    const messages = await listWaiting(db, tenantOf(c), id, { afterSeq: cursor?.seq ?? 0, limit });
    const last = messages.at(-1);
    const isAll = last === undefined || last.position >= (await countWaiting(db, tenantOf(c), id));
    const nextCursor = isAll ? null : toCursor({ list: 'queue', seq: last.seq });
    return c.json({ messages: messages.map(toWaitingBody), nextCursor }, 200);
  });

  app.openapi(getQueuedMessageRoute, async (c) => {
    const { id, messageId } = c.req.valid('param');
    return c.json(toWaitingBody(await readWaiting(db, { tenantId: tenantOf(c), sessionId: id, messageId })), 200);
  });

  app.openapi(changeQueuedMessageRoute, async (c) => {
    const { id, messageId } = c.req.valid('param');
    const { content, delivery } = c.req.valid('json');
    const place = { actor: c.get('caller'), sessionId: id, messageId };
    const parts = content === undefined ? undefined : toParts(content);
    const message = await changeQueued(deps, place, { content: parts, delivery });
    return c.json(toWaitingBody(message), 200);
  });

  app.openapi(removeQueuedMessageRoute, async (c) => {
    const { id, messageId } = c.req.valid('param');
    await removeQueued(deps, { actor: c.get('caller'), sessionId: id, messageId });
    return c.body(null, 204);
  });

  app.openapi(clearQueueRoute, async (c) => {
    const { id } = c.req.valid('param');
    const ids = await removeQueued(deps, { actor: c.get('caller'), sessionId: id, messageId: null });
    return c.json({ removed: ids.map((removed) => formatId('message', removed)) }, 200);
  });
}

function toWaitingBody(message: WaitingMessage): z.infer<typeof waitingBody> {
  return {
    id: formatId('message', message.id),
    position: message.position,
    delivery: message.delivery,
    content: message.content,
    enqueuedAt: message.enqueuedAt.toISOString(),
  };
}
