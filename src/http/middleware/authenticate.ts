import type { MiddlewareHandler } from 'hono';
import { type Caller, isOpenPath, requiredScope } from '../../domain/access.ts';
import { toSafeError } from '../../platform/log.ts';
import { hasApiKeys } from '../../store/around/api-keys.ts';
import { forTenant } from '../../store/db/lend-in-turns.ts';
import { ProblemError } from '../bodies/problem.ts';
import type { HttpEnv } from '../http-env.ts';
import { refuseOtherHosts } from './host-guard.ts';
import { createIdentification, type IdentificationDeps } from './identify.ts';
import { createKeyWatch } from './key-watch.ts';

/**
 * Identifies the caller of every request before any route, so a new route is closed by default. While there has never
 * been a key, each caller is the default tenant, if the server allows that and is called by a name of its own.
 * @throws ProblemError `unauthenticated` (no key, or an invalid one), `rate_limited` (too many invalid keys),
 * `forbidden` (missing scope; without keys: another host)
 */
export function createAuthentication(deps: IdentificationDeps): MiddlewareHandler<HttpEnv> {
  const { db, log } = deps;
  const mayBeOpen = deps.authenticate === undefined && deps.consoleAccess?.authenticate === undefined;
  const { identify, identifyWithoutKeys } = createIdentification(deps);
  let keysExist = false;
  const isOpen = async (openWithoutKeys: boolean | undefined): Promise<boolean> => {
    // The newest of a tenant's ended keys are kept, so a positive answer stays true.
    keysExist ||= await hasApiKeys(db);
    return !keysExist && openWithoutKeys === true;
  };
  const watch = createKeyWatch(db, {
    onError: (error) => log('warn', { event: 'database_connection_lost', error: toSafeError(error) }),
  });

  return async (c, next) => {
    if (isOpenPath(c.req.path)) return next();
    const own = c.env?.caller;
    const open = own === undefined && mayBeOpen && (await isOpen(c.env?.openWithoutKeys));
    if (open && c.env.allowedHosts === null) refuseOtherHosts(c, []);
    const caller = own ?? (await (open ? identifyWithoutKeys(c) : identify(c)));
    if (own === undefined) refuseMissingScope(caller, c.req.method, c.req.path);
    c.set('caller', caller);
    const access = caller.loginId ?? caller.keyId;
    // A caller of the program's own has no key, and loses nothing when one is made.
    if (access === null && !open) {
      c.set('denied', deniedOf(new AbortController().signal, caller));
      return forTenant(caller.tenantId, next);
    }
    const hold = watch.hold(access);
    c.set('denied', deniedOf(hold.denied, caller));
    const { closed } = c.env ?? {};
    closed?.addEventListener('abort', () => hold[Symbol.dispose](), { once: true });
    await forTenant(caller.tenantId, next);
    if (closed === undefined || closed.aborted) hold[Symbol.dispose]();
  };
}

/** When a response that is held open has to end: with the key, and with the token. */
function deniedOf(denied: AbortSignal, { session }: Caller): AbortSignal {
  if (session === undefined) return denied;
  return AbortSignal.any([denied, AbortSignal.timeout(Math.max(0, session.expiresAtMs - Date.now()))]);
}

/** @throws ProblemError `forbidden` */
function refuseMissingScope({ scopes, keyId }: Caller, method: string, path: string): void {
  const scope = requiredScope(method, path);
  if (scope === null || scopes.includes(scope)) return;
  throw new ProblemError('forbidden', `${keyId === null ? 'The caller' : 'The API key'} lacks the scope ${scope}`, {
    headers: { 'www-authenticate': `Bearer realm="baton", error="insufficient_scope", scope="${scope}"` },
  });
}
