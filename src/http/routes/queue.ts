import type { z } from '@hono/zod-openapi';
import type { Context } from 'hono';
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
import { afterCancelled, afterChanged } from '../../commands/after-commit.ts';
import { formatId } from '../../domain/ids.ts';
import { changeWaiting, type Removal, removeWaiting } from '../../store/changes/waiting.ts';
import { inTransaction } from '../../store/db/database.ts';
import { findSession } from '../../store/session/sessions.ts';
import { countWaiting, listWaiting, readWaiting, type WaitingMessage } from '../../store/session/waiting-messages.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, type HttpEnv, tenantOf } from '../http-env.ts';
import { auditRequest } from '../middleware/audit-trail.ts';

export function registerQueueRoutes(app: BatonApp, deps: HttpDeps): void {
  const { db, bus, newId } = deps;
  const removeAndTell = async (c: Context<HttpEnv>, sessionId: string, messageId: string | null): Promise<Removal> => {
    const removal = await inTransaction(db, async (tx) => {
      const removed = await removeWaiting(tx, { tenantId: tenantOf(c), sessionId, messageId });
      await auditRequest(tx, c, messageId === null ? 'queue:clear' : 'message:remove');
      return removed;
    });
    if (removal.cancelled !== null) await afterCancelled(deps, removal.cancelled);
    await afterChanged(deps, sessionId, removal);
    return removal;
  };

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
    const { inboxLimits } = deps;
    const changed = { content: content === undefined ? undefined : toParts(content), delivery, inboxLimits };
    const ref = { tenantId: tenantOf(c), sessionId: id, messageId };
    const { message, eventSeq } = await inTransaction(db, async (tx) => {
      const done = await changeWaiting(tx, ref, changed, newId());
      await auditRequest(tx, c, 'message:change');
      return done;
    });
    bus.announce(id, eventSeq);
    return c.json(toWaitingBody(message), 200);
  });

  app.openapi(removeQueuedMessageRoute, async (c) => {
    const { id, messageId } = c.req.valid('param');
    await removeAndTell(c, id, messageId);
    return c.body(null, 204);
  });

  app.openapi(clearQueueRoute, async (c) => {
    const { id } = c.req.valid('param');
    const { ids } = await removeAndTell(c, id, null);
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
