import type { MiddlewareHandler } from 'hono';
import { BatonError } from '../../domain/errors.ts';
import { formatId, type IdKind } from '../../domain/ids.ts';
import { findScheduleByKey } from '../../store/around/schedules.ts';
import { findWebhookByKey } from '../../store/around/webhooks.ts';
import type { Db } from '../../store/db/database.ts';
import { findSessionByKey } from '../../store/session/sessions.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type HttpEnv, tenantOf } from '../http-env.ts';
import { refuseOtherSession } from './token-caller.ts';

const PREFIX = 'key:';

const FINDERS = { session: findSessionByKey, webhook: findWebhookByKey, schedule: findScheduleByKey } satisfies Partial<
  Record<IdKind, (db: Db, tenantId: string, key: string) => Promise<Readonly<{ id: string }> | null>>
>;

/**
 * Lets `key:` and the key of a session, a webhook or a schedule stand for its id in a path. The routes read the id; a put
 * reads the key.
 * @throws BatonError `not_found`; ProblemError `forbidden` (the caller's token opens another session)
 */
export function keysInPaths({ db }: Pick<HttpDeps, 'db'>, kind: keyof typeof FINDERS): MiddlewareHandler<HttpEnv> {
  return async (c, next) => {
    const idOrKey = c.req.param('id') ?? '';
    if (idOrKey.startsWith(PREFIX) && c.req.method !== 'PUT') {
      const key = idOrKey.slice(PREFIX.length);
      const found = await FINDERS[kind](db, tenantOf(c), key);
      if (found === null) throw new BatonError('not_found', `no ${kind} has the key ${JSON.stringify(key)}`);
      // Between the check of the token and now, the key may have gone to another session.
      if (kind === 'session') refuseOtherSession(c.get('caller'), found.id);
      const id = formatId(kind, found.id);
      const read = c.req.param.bind(c.req);
      const named = (name?: string) => (name === undefined ? { ...read(), id } : name === 'id' ? id : read(name));
      Object.defineProperty(c.req, 'param', { value: named });
    }
    return next();
  };
}
