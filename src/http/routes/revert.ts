import type { z } from '@hono/zod-openapi';
import { revertedBody, revertSessionRoute, unrevertSessionRoute } from '../../api/revert.ts';
import { afterEvent } from '../../commands/after-commit.ts';
import { type RevertedSession, revertSessionIn, unrevertSessionIn } from '../../commands/revert-session.ts';
import { formatId } from '../../domain/ids.ts';
import type { HttpDeps } from '../http-deps.ts';
import type { BatonApp } from '../http-env.ts';
import { workOnce } from '../middleware/idempotency.ts';

/** Takes the end of a session's transcript away, and brings it back. */
export function registerRevertRoutes(app: BatonApp, deps: HttpDeps): void {
  app.openapi(revertSessionRoute, async (c) => {
    const { id: sessionId } = c.req.valid('param');
    const { toMessage } = c.req.valid('json');
    const submission = { route: revertSessionRoute, request: { sessionId, toMessage }, answer: revertedBody };
    let done: RevertedSession | undefined;
    const { body, headers } = await workOnce(c, deps.db, submission, async (tx) => {
      done = await revertSessionIn(tx, { actor: c.get('caller'), sessionId, messageId: toMessage });
      return toBody(sessionId, done);
    });
    if (done !== undefined) afterEvent(deps, sessionId, done);
    return c.json(body, 200, headers);
  });

  app.openapi(unrevertSessionRoute, async (c) => {
    const { id: sessionId } = c.req.valid('param');
    const submission = { route: unrevertSessionRoute, request: { sessionId }, answer: revertedBody };
    let done: RevertedSession | undefined;
    const { body, headers } = await workOnce(c, deps.db, submission, async (tx) => {
      done = await unrevertSessionIn(tx, { actor: c.get('caller'), sessionId });
      return toBody(sessionId, done);
    });
    if (done !== undefined) afterEvent(deps, sessionId, done);
    return c.json(body, 200, headers);
  });
}

const toBody = (sessionId: string, { messageId, messages }: RevertedSession): z.infer<typeof revertedBody> => ({
  sessionId: formatId('session', sessionId),
  messageId: formatId('message', messageId),
  messages,
});
