import { forkSessionRoute } from '../../api/fork.ts';
import { sessionBody } from '../../api/session-body.ts';
import { forkSessionIn } from '../../commands/fork-session.ts';
import { toSessionBody } from '../bodies/session-body.ts';
import type { HttpDeps } from '../http-deps.ts';
import type { BatonApp } from '../http-env.ts';
import { workOnce } from '../middleware/idempotency.ts';

export function registerForkRoute(app: BatonApp, deps: HttpDeps): void {
  app.openapi(forkSessionRoute, async (c) => {
    const { id: sessionId } = c.req.valid('param');
    const { atMessage, title, metadata } = c.req.valid('json') ?? {};
    const submission = {
      route: forkSessionRoute,
      request: { sessionId, atMessage, title, metadata },
      answer: sessionBody,
    };
    const { body, headers } = await workOnce(c, deps.db, submission, async (tx) => {
      const at = { actor: c.get('caller'), sessionId, atMessageId: atMessage ?? null };
      return toSessionBody(await forkSessionIn(tx, deps, { ...at, title, metadata }));
    });
    return c.json(body, 201, { location: `/v1/sessions/${body.id}`, ...headers });
  });
}
