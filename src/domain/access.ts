import { MAX_TENANT_ID_CHARS } from './tunables.ts';

/**
 * The rights of a key. `read`, `write`: the data of its tenant. `admin`: the keys, the audit log and the prompts of its
 * tenant. `operator`: pages and numbers of the whole service, and states, counts and causes of all tenants, without
 * content.
 */
export const SCOPES = ['read', 'write', 'admin', 'operator'] as const;
export type Scope = (typeof SCOPES)[number];

/** The most valid keys of a tenant, and the most revoked or expired ones that the service keeps of it. */
export const MAX_KEYS_PER_TENANT = 1_000;

type KeyPower = Readonly<{ scopes: readonly Scope[]; expiresAt: Date | null }>;

/** Why a caller may not make such a key: nobody gives more than he has, nor for longer. Null: he may. */
export function keyProblem(
  own: KeyPower,
  wanted: KeyPower,
): Readonly<{ field: 'scopes' | 'expiresInSeconds'; message: string }> | null {
  const lacking = wanted.scopes.find((scope) => !own.scopes.includes(scope));
  if (lacking !== undefined) {
    const message = `A key may do no more than the caller that makes it, which lacks the scope ${lacking}`;
    return { field: 'scopes', message };
  }
  if (own.expiresAt === null || (wanted.expiresAt !== null && wanted.expiresAt <= own.expiresAt)) return null;
  const message = `A key may last no longer than the key that makes it, which expires at ${own.expiresAt.toISOString()}`;
  return { field: 'expiresInSeconds', message };
}

/** Fields of a message that a token may name only if it was made for that: they cost more, or reach another host. */
export const TOKEN_ALLOWANCES = ['output', 'webhook'] as const;

/**
 * What the holder of a token may ask of its runs beyond what the agent says. `limits` (RunLimits) hold in place of the
 * agent's.
 */
export type TokenGrant = Readonly<{
  limits: Readonly<{
    maxSteps?: number | undefined;
    maxTokens?: number | undefined;
    maxCostUsd?: number | undefined;
    deadlineMs?: number | undefined;
  }>;
  allow: readonly (typeof TOKEN_ALLOWANCES)[number][];
}>;

/** The tenant and key of a request. `keyId`: null if no key is required. */
export type Caller = Readonly<{
  tenantId: string;
  keyId: string | null;
  scopes: readonly Scope[];
  /** The login of the console that the request came with. */
  loginId?: string;
  /** The only session that the caller may ask for: its request came with a token. */
  session?: Readonly<{ id: string; expiresAtMs: number; grant: TokenGrant }>;
}>;

/** The tenant of every request while no keys are required. */
export const DEFAULT_TENANT_ID = 'default';

/** The caller while no keys are required. */
export const ANYBODY: Caller = { tenantId: DEFAULT_TENANT_ID, keyId: null, scopes: SCOPES };

/** Whether a program may name a tenant so: by printable text that Postgres can store. */
export const isTenantId = (value: unknown): value is string =>
  typeof value === 'string' &&
  value.length > 0 &&
  value.length <= MAX_TENANT_ID_CHARS &&
  /^[^\p{Cc}\p{Cs}]*$/u.test(value);

const METRICS_PATH = '/metrics';

export const CONSOLE_PATH = '/console';

/** Paths for load balancers and supervisors. */
const HEALTH_PATHS: ReadonlySet<string> = new Set(['/livez', '/readyz']);

const isConsolePath = (path: string): boolean => path === CONSOLE_PATH || path.startsWith(`${CONSOLE_PATH}/`);

/** Requests of other services, which sign them: their signatures are checked in place of a key. */
const HOOKS_PATH = '/v1/hooks/';

/** Health, the way to the console, its files, and hooks. Every other path needs a key where keys are required. */
export const isOpenPath = (path: string): boolean =>
  HEALTH_PATHS.has(path) || path === '/' || isConsolePath(path) || path.startsWith(HOOKS_PATH);

/** Whether the path is for monitoring: health and metrics, no data of a tenant. */
export const isMonitoringPath = (path: string): boolean => HEALTH_PATHS.has(path) || path === METRICS_PATH;

const isAdminPath = (path: string): boolean => path === '/admin' || path.startsWith('/admin/');

/** Further pages that a person opens in a browser. */
const READ_IN_BROWSER: ReadonlySet<string> = new Set(['/docs', '/openapi.json', METRICS_PATH]);

export const isReading = (method: string): boolean => method === 'GET' || method === 'HEAD';

/** Whether a person opens the path in a browser, which can prompt for a key but cannot be told to send one. */
export const isForBrowser = (method: string, path: string): boolean =>
  isAdminPath(path) || (isReading(method) && (READ_IN_BROWSER.has(path) || path.startsWith('/docs/')));

/** Path at which a caller reads its own identity. */
export const WHOAMI_PATH = '/v1/whoami';

/** Path of the request that a model was shown, with its instructions. */
const PROMPT_PATH = /^\/v1\/runs\/[^/]+\/steps\/[^/]+\/request$/;

const KEYS_PATH = /^\/v1\/keys(\/|$)/;

/** The scope that a request needs. Unknown paths need one, too. Null: any key will do. */
export function requiredScope(method: string, path: string): Scope | null {
  if (path === WHOAMI_PATH) return null;
  if (isAdminPath(path) || path === METRICS_PATH) return 'operator';
  if (path === '/v1/workers' || path.startsWith('/v1/operator/')) return 'operator';
  if (path === '/v1/audit' || KEYS_PATH.test(path) || PROMPT_PATH.test(path)) return 'admin';
  return isReading(method) ? 'read' : 'write';
}

/** Scanners for leaked secrets recognize a key by it. */
export const KEY_PREFIX = 'baton_';

const BASIC = /^Basic +([A-Za-z0-9+/=]+)$/i;
const BEARER = /^Bearer +(\S+)$/i;

/** The cookie of a login of the console. Over TLS its name begins with `__Host-`. */
export const LOGIN_COOKIE = 'baton_login';

/**
 * A header of the console's requests. Its value is the second secret of the login, which the page keeps: browsers send a
 * cookie to every port of its host, and so to other services, but what a page stores belongs to its port alone.
 */
export const CONSOLE_HEADER = 'x-baton-console';

/** Path of the page of the queues. */
export const BOARD_PATH = '/admin/queues';

/**
 * The board's pages cannot send the header, so their address has a secret of the login:
 * `/admin/queues~<secret>/…`, which is as deep as the path itself.
 */
const LOGGED_IN_BOARD = /^\/admin\/queues~([\w-]{1,128})(?=\/|$)/;

/** The secret in the address of the board. Null: there is none. */
export const boardSecretOf = (pathname: string): string | null => LOGGED_IN_BOARD.exec(pathname)?.[1] ?? null;

/** The path to which a request belongs, without a secret in it. */
export const pathWithoutSecret = (pathname: string): string => pathname.replace(LOGGED_IN_BOARD, BOARD_PATH);

/** What a browser sends of a login. Neither of the two secrets counts alone. */
export type LoginProof = Readonly<{ cookie: string; proof: Readonly<{ of: 'page' | 'board'; secret: string }> }>;

/** `byBrowser`: the browser sends the key by itself, even for pages of other sites. */
export type Credentials = Readonly<
  { kind: 'key'; secret: string; byBrowser: boolean } | ({ kind: 'login' } & LoginProof)
>;

type CredentialRequest = Readonly<{
  method: string;
  path: string;
  authorization: string | undefined;
  apiKey: string | undefined;
  cookie: string | undefined;
  /** Of the header of the console. */
  pageSecret: string | undefined;
  /** In the address of the board. */
  boardSecret: string | null;
}>;

/**
 * Reads the key from `Authorization: Bearer`, the password of `Authorization: Basic` (pages for browsers only) or
 * `x-api-key`; else the login from the cookie and the second secret. A cookie alone is no credential.
 */
export function readCredentials(request: CredentialRequest): Credentials | null {
  const { method, path, authorization = '', apiKey, cookie, pageSecret, boardSecret } = request;
  const bearer = BEARER.exec(authorization)?.[1];
  if (bearer !== undefined) return { kind: 'key', secret: bearer, byBrowser: false };
  const basic = isForBrowser(method, path) ? BASIC.exec(authorization)?.[1] : undefined;
  if (basic !== undefined) {
    const [, secret] = /^[^:]*:(.*)$/s.exec(decodeBase64(basic)) ?? [];
    if (secret !== undefined) return { kind: 'key', secret, byBrowser: true };
  }
  if (apiKey !== undefined) return { kind: 'key', secret: apiKey, byBrowser: false };
  if (boardSecret !== null) return { kind: 'login', cookie: cookie ?? '', proof: { of: 'board', secret: boardSecret } };
  if (pageSecret === undefined || pageSecret === NO_LOGIN) return null;
  return { kind: 'login', cookie: cookie ?? '', proof: { of: 'page', secret: pageSecret } };
}

/** What the console sends in its header while nobody is logged in. */
const NO_LOGIN = '1';

function decodeBase64(text: string): string {
  try {
    return atob(text);
  } catch {
    return '';
  }
}
