import type { Context, MiddlewareHandler } from 'hono';
import { ANYBODY, type Caller, isForBrowser, isOpenPath, readCredentials, requiredScope } from '../../domain/access.ts';
import { toSafeError } from '../../platform/log.ts';
import { shareReads } from '../../platform/share-reads.ts';
import { findCaller, hasApiKeys } from '../../store/api-keys.ts';
import { ProblemError } from '../bodies/problem.ts';
import type { HttpDeps } from '../http-deps.ts';
import type { HttpEnv } from '../http-env.ts';
import { refuseOtherHosts } from './host-guard.ts';
import { createKeyWatch } from './key-watch.ts';
import { createWrongKeys, type WrongKeys } from './wrong-keys.ts';

/**
 * Identifies the caller of every request before any route, so a new route is closed by default. While there has never
 * been a key, each caller is the default tenant, if the server allows that and is called by a name of its own.
 * @throws ProblemError `unauthenticated` (no key, or an invalid one), `rate_limited` (too many invalid keys),
 * `forbidden` (missing scope; without keys: another host)
 */
export function createAuthentication({
  db,
  log,
  wrongKeys = createWrongKeys(),
}: Pick<HttpDeps, 'db' | 'log' | 'wrongKeys'>): MiddlewareHandler<HttpEnv> {
  let keysExist = false;
  const isOpen = async (c: Context<HttpEnv>): Promise<boolean> => {
    // Rows of keys are never removed, so a positive answer stays true.
    keysExist ||= await hasApiKeys(db);
    return !keysExist && c.env?.openWithoutKeys === true;
  };
  const identify = async (c: Context<HttpEnv>): Promise<Caller> => {
    const { path, method } = c.req;
    const authorization = c.req.header('authorization');
    const credentials = readCredentials({ method, path, authorization, apiKey: c.req.header('x-api-key') });
    if (credentials === null) throw unauthenticated(c, 'This needs an API key: Authorization: Bearer baton_…');
    const caller = await findSharedCaller(db, credentials.secret);
    if (caller === null) {
      await slowDown(c, wrongKeys);
      throw unauthenticated(c, 'The API key is unknown, was revoked or has expired');
    }
    const scope = requiredScope(method, path);
    if (!caller.scopes.includes(scope)) throw new ProblemError('forbidden', `The API key lacks the scope ${scope}`);
    if (credentials.byBrowser && isFromElsewhere(c)) {
      throw new ProblemError('forbidden', 'Requests of pages of another origin are refused');
    }
    return caller;
  };
  const watch = createKeyWatch(db, {
    onError: (error) => log('warn', { event: 'database_connection_lost', error: toSafeError(error) }),
  });

  return async (c, next) => {
    if (isOpenPath(c.req.path)) return next();
    const open = await isOpen(c);
    if (open && c.env.allowedHosts === null) refuseOtherHosts(c, []);
    const caller = open ? ANYBODY : await identify(c);
    c.set('caller', caller);
    const hold = watch.hold(caller.keyId);
    c.set('denied', hold.denied);
    const { closed } = c.env ?? {};
    closed?.addEventListener('abort', () => hold[Symbol.dispose](), { once: true });
    await next();
    if (closed === undefined || closed.aborted) hold[Symbol.dispose]();
  };
}

/**
 * Requests of one key that arrive together share a look-up that begins after they arrived, so a key that was revoked
 * before is refused. However many they are, they take one connection of the pool.
 */
const findSharedCaller = shareReads(findCaller, (secret) => secret);

/** @throws ProblemError `rate_limited` */
async function slowDown({ env }: Context<HttpEnv>, wrongKeys: WrongKeys): Promise<void> {
  const signals = [env?.closed, env?.shutdown].filter((signal) => signal !== undefined);
  if (await wrongKeys.slowDown(env?.remoteAddress ?? '', AbortSignal.any(signals))) return;
  const detail = 'Too many wrong keys were sent: send the right one, which is taken at any time';
  throw new ProblemError('rate_limited', detail, { headers: { 'retry-after': '5' } });
}

function unauthenticated({ req }: Context<HttpEnv>, detail: string): ProblemError {
  const challenge = isForBrowser(req.method, req.path)
    ? 'Basic realm="baton", charset="UTF-8"'
    : 'Bearer realm="baton"';
  return new ProblemError('unauthenticated', detail, { headers: { 'www-authenticate': challenge } });
}

/** Whether a page of another origin made the request: a browser adds a password that it knows to that, too. */
function isFromElsewhere(c: Context<HttpEnv>): boolean {
  const origin = c.req.header('origin');
  if (origin !== undefined) return !URL.canParse(origin) || new URL(origin).host !== c.req.header('host');
  const site = c.req.header('sec-fetch-site');
  return site !== undefined && site !== 'same-origin' && site !== 'none';
}
