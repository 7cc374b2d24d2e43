import type { MiddlewareHandler } from 'hono';
import { BatonError } from '../../domain/errors.ts';
import { formatId } from '../../domain/ids.ts';
import { findSessionByKey } from '../../store/session/sessions.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type HttpEnv, tenantOf } from '../http-env.ts';

const PREFIX = 'key:';

/**
 * Lets `key:` and a session's key stand for its id in a path. The routes read the id.
 * @throws BatonError `not_found`
 */
export function sessionKeys({ db }: Pick<HttpDeps, 'db'>): MiddlewareHandler<HttpEnv> {
  return async (c, next) => {
    const idOrKey = c.req.param('id') ?? '';
    if (idOrKey.startsWith(PREFIX)) {
      const key = idOrKey.slice(PREFIX.length);
      const session = await findSessionByKey(db, tenantOf(c), key);
      if (session === null) throw new BatonError('not_found', `no session has the key ${JSON.stringify(key)}`);
      const id = formatId('session', session.id);
      const read = c.req.param.bind(c.req);
      const named = (name?: string) => (name === undefined ? { ...read(), id } : name === 'id' ? id : read(name));
      Object.defineProperty(c.req, 'param', { value: named });
    }
    return next();
  };
}
