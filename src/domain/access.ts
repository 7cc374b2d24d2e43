/**
 * The rights of a key. `read`, `write`: the data of its tenant. `admin`: the audit log of its tenant. `operator`: pages
 * and numbers of the whole service, all tenants together.
 */
export const SCOPES = ['read', 'write', 'admin', 'operator'] as const;
export type Scope = (typeof SCOPES)[number];

/** The tenant and key of a request. `keyId`: null if no key is required. */
export type Caller = Readonly<{ tenantId: string; keyId: string | null; scopes: readonly Scope[] }>;

/** The tenant of every request while no keys are required. */
export const DEFAULT_TENANT_ID = 'default';

/** The caller while no keys are required. */
export const ANYBODY: Caller = { tenantId: DEFAULT_TENANT_ID, keyId: null, scopes: SCOPES };

const METRICS_PATH = '/metrics';

/** For load balancers and supervisors. Every other path needs a key where keys are required. */
const OPEN_PATHS: ReadonlySet<string> = new Set(['/livez', '/readyz']);

export const isOpenPath = (path: string): boolean => OPEN_PATHS.has(path);

/** Whether the path is for monitoring: health and metrics, no data of a tenant. */
export const isMonitoringPath = (path: string): boolean => isOpenPath(path) || path === METRICS_PATH;

const isAdminPath = (path: string): boolean => path === '/admin' || path.startsWith('/admin/');

/** Further pages that a person opens in a browser. */
const READ_IN_BROWSER: ReadonlySet<string> = new Set(['/', '/docs', '/openapi.json', METRICS_PATH]);

const isReading = (method: string): boolean => method === 'GET' || method === 'HEAD';

/** Whether a person opens it in a browser, which can prompt for a key but cannot be told to send one. */
export const isForBrowser = (method: string, path: string): boolean =>
  isAdminPath(path) || (isReading(method) && (READ_IN_BROWSER.has(path) || path.startsWith('/docs/')));

/** The scope that a request needs. Unknown paths need one, too. */
export function requiredScope(method: string, path: string): Scope {
  if (isAdminPath(path) || path === METRICS_PATH) return 'operator';
  if (path === '/v1/audit') return 'admin';
  return isReading(method) ? 'read' : 'write';
}

/** Scanners for leaked secrets recognize a key by it. */
export const KEY_PREFIX = 'baton_';

const BASIC = /^Basic +([A-Za-z0-9+/=]+)$/i;
const BEARER = /^Bearer +(\S+)$/i;

/** `byBrowser`: the browser sends the key by itself, even for pages of other sites. */
export type Credentials = Readonly<{ secret: string; byBrowser: boolean }>;

/** From `Authorization: Bearer`, the password of `Authorization: Basic` (pages for browsers only), or `x-api-key`. */
export function readCredentials(
  request: Readonly<{ method: string; path: string; authorization: string | undefined; apiKey: string | undefined }>,
): Credentials | null {
  const { authorization = '', apiKey } = request;
  const bearer = BEARER.exec(authorization)?.[1];
  if (bearer !== undefined) return { secret: bearer, byBrowser: false };
  const basic = isForBrowser(request.method, request.path) ? BASIC.exec(authorization)?.[1] : undefined;
  if (basic !== undefined) {
    const [, secret] = /^[^:]*:(.*)$/s.exec(decodeBase64(basic)) ?? [];
    if (secret !== undefined) return { secret, byBrowser: true };
  }
  return apiKey === undefined ? null : { secret: apiKey, byBrowser: false };
}

function decodeBase64(text: string): string {
  try {
    return atob(text);
  } catch {
    return '';
  }
}
