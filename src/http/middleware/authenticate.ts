import type { Context, MiddlewareHandler } from 'hono';
import {
  ANYBODY,
  boardSecretOf,
  type Caller,
  CONSOLE_HEADER,
  type Credentials,
  isForBrowser,
  isOpenPath,
  type LoginProof,
  readCredentials,
  requiredScope,
} from '../../domain/access.ts';
import { toSafeError } from '../../platform/log.ts';
import { shareReads } from '../../platform/share-reads.ts';
import { findCaller, hasApiKeys } from '../../store/around/api-keys.ts';
import { findLogin } from '../../store/around/console-logins.ts';
import type { Db } from '../../store/db/database.ts';
import { ProblemError } from '../bodies/problem.ts';
import type { HttpDeps } from '../http-deps.ts';
import type { HttpEnv } from '../http-env.ts';
import { isToken } from '../session-tokens.ts';
import { refuseOtherHosts } from './host-guard.ts';
import { createKeyWatch } from './key-watch.ts';
import { readLoginCookie } from './login-cookie.ts';
import { askProgram } from './program-caller.ts';
import { findTokenHolder } from './token-caller.ts';
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
  authenticate,
}: Pick<HttpDeps, 'db' | 'log' | 'wrongKeys' | 'authenticate'>): MiddlewareHandler<HttpEnv> {
  let keysExist = false;
  const isOpen = async (c: Context<HttpEnv>): Promise<boolean> => {
    // Rows of keys are never removed, so a positive answer stays true.
    keysExist ||= await hasApiKeys(db);
    return !keysExist && c.env?.openWithoutKeys === true;
  };
  const identify = async (c: Context<HttpEnv>): Promise<Caller> => {
    const bearer = tokenOf(c);
    if (bearer !== null) return identifyHolder(c, bearer, authenticate !== undefined);
    if (authenticate !== undefined) {
      const caller = await askProgram(authenticate, c.req.raw, log);
      if (caller === null) throw unauthenticated(c, 'The program that serves this API does not know the caller');
      return caller;
    }
    const credentials = credentialsOf(c);
    if (credentials === null) throw unauthenticated(c, 'This needs an API key: Authorization: Bearer baton_…');
    return identifyBy(c, credentials);
  };
  /** A credential that is sent is checked here, too: else a token would restrict nothing, and a wrong key work. */
  const identifyWithoutKeys = async (c: Context<HttpEnv>): Promise<Caller> => {
    const bearer = tokenOf(c);
    if (bearer !== null) return identifyHolder(c, bearer, true);
    const credentials = credentialsOf(c);
    const isNone = credentials === null || (credentials.kind === 'key' && credentials.secret === NO_KEY);
    if (!isNone) return identifyBy(c, credentials);
    // Whoever may open the page could otherwise do everything.
    if (c.get('isNamedOrigin') === true) throw unauthenticated(c, 'Pages of other origins need a token, or an API key');
    return ANYBODY;
  };
  const identifyHolder = async (c: Context<HttpEnv>, token: string, withoutKeys: boolean): Promise<Caller> => {
    const holder = await findTokenHolder(c, db, token, withoutKeys);
    if (holder !== null) return holder;
    await slowDown(c, wrongKeys);
    throw unauthenticated(c, 'The token of the session is not valid, or has expired: ask for a new one');
  };
  const identifyBy = async (c: Context<HttpEnv>, credentials: Credentials): Promise<Caller> => {
    if (credentials.kind === 'login') {
      refuseElsewhere(c);
      return findLoginOwner(c, db, wrongKeys, credentials);
    }
    const caller = await findKeyOwner(c, db, wrongKeys, credentials.secret);
    if (credentials.byBrowser) refuseElsewhere(c);
    return caller;
  };
  const watch = createKeyWatch(db, {
    onError: (error) => log('warn', { event: 'database_connection_lost', error: toSafeError(error) }),
  });

  return async (c, next) => {
    if (isOpenPath(c.req.path)) return next();
    const own = c.env?.caller;
    const open = own === undefined && authenticate === undefined && (await isOpen(c));
    if (open && c.env.allowedHosts === null) refuseOtherHosts(c, []);
    const caller = own ?? (await (open ? identifyWithoutKeys(c) : identify(c)));
    if (own === undefined) refuseMissingScope(caller, c.req.method, c.req.path);
    c.set('caller', caller);
    const access = caller.loginId ?? caller.keyId;
    // A caller of the program's own has no key, and loses nothing when one is made.
    if (access === null && !open) {
      c.set('denied', deniedOf(new AbortController().signal, caller));
      return next();
    }
    const hold = watch.hold(access);
    c.set('denied', deniedOf(hold.denied, caller));
    const { closed } = c.env ?? {};
    closed?.addEventListener('abort', () => hold[Symbol.dispose](), { once: true });
    await next();
    if (closed === undefined || closed.aborted) hold[Symbol.dispose]();
  };
}

/** When a response that is held open has to end: with the key, and with the token. */
function deniedOf(denied: AbortSignal, { session }: Caller): AbortSignal {
  if (session === undefined) return denied;
  return AbortSignal.any([denied, AbortSignal.timeout(Math.max(0, session.expiresAtMs - Date.now()))]);
}

/** What clients send that insist on a key, while none is needed. */
const NO_KEY = 'none';

function credentialsOf(c: Context<HttpEnv>): Credentials | null {
  const { path, method } = c.req;
  return readCredentials({
    method,
    path,
    authorization: c.req.header('authorization'),
    apiKey: c.req.header('x-api-key'),
    cookie: readLoginCookie(c),
    pageSecret: c.req.header(CONSOLE_HEADER),
    boardSecret: boardSecretOf(new URL(c.req.url).pathname),
  });
}

/** The token of a session that the request has in place of a key. */
function tokenOf(c: Context<HttpEnv>): string | null {
  const [, bearer = ''] = /^Bearer +(\S+)$/i.exec(c.req.header('authorization') ?? '') ?? [];
  return isToken(bearer) ? bearer : null;
}

/** @throws ProblemError `forbidden` */
function refuseMissingScope({ scopes }: Caller, method: string, path: string): void {
  const scope = requiredScope(method, path);
  if (scope === null || scopes.includes(scope)) return;
  throw new ProblemError('forbidden', `The API key lacks the scope ${scope}`);
}

/**
 * Requests of one key that arrive together share a look-up that begins after they arrived, so a key that was revoked
 * before is refused. However many they are, they take one connection of the pool.
 */
const findSharedCaller = shareReads(findCaller, (secret) => secret);

/**
 * The caller that has the key.
 * @throws ProblemError `unauthenticated`, `rate_limited` (too many invalid keys)
 */
export async function findKeyOwner(c: Context<HttpEnv>, db: Db, wrongKeys: WrongKeys, secret: string): Promise<Caller> {
  const caller = await findSharedCaller(db, secret);
  if (caller !== null) return caller;
  await slowDown(c, wrongKeys);
  throw unauthenticated(
    c,
    'The API key is unknown, was revoked or has expired. A service without keys takes requests that send none',
  );
}

const findSharedLogin = shareReads(findLogin, ({ cookie, proof }) => `${cookie} ${proof.of} ${proof.secret}`);

/** @throws ProblemError `unauthenticated`, `rate_limited` (too many that are over, or were made up) */
async function findLoginOwner(c: Context<HttpEnv>, db: Db, wrongKeys: WrongKeys, login: LoginProof): Promise<Caller> {
  const caller = await findSharedLogin(db, login);
  if (caller !== null) return caller;
  await slowDown(c, wrongKeys);
  throw unauthenticated(c, 'The login of the console is over: log in again');
}

/**
 * Delays the answer to wrong credentials.
 * @throws ProblemError `rate_limited`: many answers are delayed already
 */
export async function slowDown({ env }: Context<HttpEnv>, wrongKeys: WrongKeys): Promise<void> {
  const signals = [env?.closed, env?.shutdown].filter((signal) => signal !== undefined);
  if (await wrongKeys.slowDown(env?.remoteAddress ?? '', AbortSignal.any(signals))) return;
  const detail = 'Too many wrong keys or signatures were sent: send the right one, which is taken at any time';
  throw new ProblemError('rate_limited', detail, { headers: { 'retry-after': '5' } });
}

function unauthenticated({ req }: Context<HttpEnv>, detail: string): ProblemError {
  const challenge = isForBrowser(req.method, req.path)
    ? 'Basic realm="baton", charset="UTF-8"'
    : 'Bearer realm="baton"';
  return new ProblemError('unauthenticated', detail, { headers: { 'www-authenticate': challenge } });
}

/**
 * A browser adds a password or a cookie that it knows to requests of other pages, too.
 * @throws ProblemError `forbidden`
 */
export function refuseElsewhere(c: Context<HttpEnv>): void {
  if (isFromElsewhere(c)) throw new ProblemError('forbidden', 'Requests of pages of another origin are refused');
}

/** @throws ProblemError `forbidden` */
export function refuseWithoutConsole(c: Context<HttpEnv>): void {
  if (c.req.header(CONSOLE_HEADER) !== undefined) return;
  throw new ProblemError('forbidden', `This needs the header ${CONSOLE_HEADER}, which the console adds`);
}

/** Whether a page of another origin made the request. */
function isFromElsewhere(c: Context<HttpEnv>): boolean {
  const origin = c.req.header('origin');
  if (origin !== undefined) return !URL.canParse(origin) || new URL(origin).host !== c.req.header('host');
  const site = c.req.header('sec-fetch-site');
  return site !== undefined && site !== 'same-origin' && site !== 'none';
}
