import type { Context } from 'hono';
import {
  ANYBODY,
  boardSecretOf,
  type Caller,
  CONSOLE_HEADER,
  type Credentials,
  isForBrowser,
  KEY_PREFIX,
  type LoginProof,
  readCredentials,
} from '../../domain/access.ts';
import { shareReads } from '../../platform/share-reads.ts';
import { findCaller, type KeyRefusal } from '../../store/around/api-keys.ts';
import { findLogin } from '../../store/around/console-logins.ts';
import { isToken } from '../../store/around/session-tokens.ts';
import type { Db } from '../../store/db/database.ts';
import { ProblemError } from '../bodies/problem.ts';
import type { HttpDeps } from '../http-deps.ts';
import type { HttpEnv } from '../http-env.ts';
import { readLoginCookie } from './login-cookie.ts';
import { askProgram } from './program-caller.ts';
import { refuseElsewhere, refuseForged } from './same-origin.ts';
import { findTokenHolder } from './token-caller.ts';
import { createWrongKeys, type WrongKeys } from './wrong-keys.ts';

export type IdentificationDeps = Pick<
  HttpDeps,
  'db' | 'log' | 'wrongKeys' | 'authenticate' | 'consoleAccess' | 'isMounted'
>;

type Identify = (c: Context<HttpEnv>) => Promise<Caller>;

/**
 * Tells who a caller is, in this order: the token of a session, the program that mounts the API, its session for the
 * console, an API key or the console's own login. Whoever knows nobody leaves it to the next; whoever refuses ends it.
 */
export function createIdentification({
  db,
  log,
  wrongKeys = createWrongKeys(),
  authenticate,
  consoleAccess,
  isMounted = false,
}: IdentificationDeps): Readonly<{ identify: Identify; identifyWithoutKeys: Identify }> {
  const identifyHolder = async (c: Context<HttpEnv>, token: string, withoutKeys: boolean): Promise<Caller> => {
    const holder = await findTokenHolder(c, db, token, withoutKeys);
    if (holder !== null) return holder;
    await slowDown(c, wrongKeys);
    throw unauthenticated(c, 'The token of the session is not valid, or has expired: ask for a new one', WRONG);
  };
  const identifyBy = async (c: Context<HttpEnv>, credentials: Credentials): Promise<Caller> => {
    if (credentials.kind === 'login') {
      refuseElsewhere(c);
      return findLoginOwner(c, db, wrongKeys, credentials);
    }
    // What is the program's own is no wrong key.
    if (authenticate !== undefined && !credentials.secret.startsWith(KEY_PREFIX)) throw unauthenticated(c, NOT_KNOWN);
    const caller = await findKeyOwner(c, db, wrongKeys, credentials.secret);
    if (credentials.byBrowser) refuseElsewhere(c);
    return caller;
  };
  const askForSession = async (c: Context<HttpEnv>): Promise<Caller | null> => {
    if (consoleAccess?.authenticate === undefined || !isOfConsole(c)) return null;
    refuseElsewhere(c);
    return askProgram(consoleAccess.authenticate, requestOf(c), log);
  };
  return {
    async identify(c) {
      const bearer = tokenOf(c);
      if (bearer !== null) return identifyHolder(c, bearer, isMounted || authenticate !== undefined);
      const caller = authenticate === undefined ? null : await askProgram(authenticate, requestOf(c), log);
      if (caller !== null) {
        refuseForged(c);
        return caller;
      }
      const credentials = credentialsOf(c);
      if (credentials !== null) return identifyBy(c, credentials);
      const person = await askForSession(c);
      if (person !== null) return person;
      throw unauthenticated(c, authenticate === undefined ? NO_KEY_SENT : NOT_KNOWN);
    },
    /** A credential that is sent is checked here, too: else a token would restrict nothing, and a wrong key work. */
    async identifyWithoutKeys(c) {
      const bearer = tokenOf(c);
      if (bearer !== null) return identifyHolder(c, bearer, true);
      const credentials = credentialsOf(c);
      const isNone = credentials === null || (credentials.kind === 'key' && credentials.secret === NO_KEY);
      if (!isNone) return identifyBy(c, credentials);
      // Whoever may open the page could otherwise do everything.
      if (c.get('isNamedOrigin') === true) {
        throw unauthenticated(c, 'Pages of other origins need a token, or an API key');
      }
      return ANYBODY;
    },
  };
}

const requestOf = (c: Context<HttpEnv>) => ({ request: c.req.raw, incoming: c.env?.incoming });

const NO_KEY_SENT = 'This needs an API key: Authorization: Bearer baton_…';
const NOT_KNOWN =
  'The program that serves this API does not know the caller, and the request has no API key (Authorization: Bearer baton_…)';

/** Whether the console makes the request, or a person opens its path in a browser. */
const isOfConsole = (c: Context<HttpEnv>): boolean =>
  c.req.header(CONSOLE_HEADER) !== undefined || isForBrowser(c.req.method, c.req.path);

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
  const found = await findSharedCaller(db, secret);
  if (found.kind === 'caller') return found.caller;
  await slowDown(c, wrongKeys);
  throw unauthenticated(c, REFUSALS[found.why], WRONG);
}

const REFUSALS: Readonly<Record<KeyRefusal, string>> = {
  unknown:
    'There is no such API key: send the whole of it, as it was shown when it was made. A service without keys takes requests that send none',
  revoked: 'The API key was revoked: send another one',
  expired: 'The API key has expired: send another one',
};

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

/** Said of a key or token that was sent, so that a client asks for another one (RFC 6750 §3.1). */
const WRONG = ', error="invalid_token"';

function unauthenticated({ req }: Context<HttpEnv>, detail: string, error: '' | typeof WRONG = ''): ProblemError {
  const challenge = isForBrowser(req.method, req.path)
    ? 'Basic realm="baton", charset="UTF-8"'
    : `Bearer realm="baton"${error}`;
  return new ProblemError('unauthenticated', detail, { headers: { 'www-authenticate': challenge } });
}
