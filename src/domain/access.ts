/**
 * What a key may do. `read` and `write`: with the data of its tenant. `admin`: read what was done in its tenant.
 * `operator`: the pages and numbers that show the whole service, all tenants together.
 */
export const SCOPES = ['read', 'write', 'admin', 'operator'] as const;
export type Scope = (typeof SCOPES)[number];

/** Who asks: the tenant whose data is meant, and the key that said so; no key where none is required. */
export type Caller = Readonly<{ tenantId: string; keyId: string | null; scopes: readonly Scope[] }>;

/** The tenant of every request as long as there are no keys. */
export const DEFAULT_TENANT_ID = 'default';

/** What everybody is as long as there are no keys. */
export const ANYBODY: Caller = { tenantId: DEFAULT_TENANT_ID, keyId: null, scopes: SCOPES };

const METRICS_PATH = '/metrics';

/** For load balancers and supervisors: nothing else answers without a key where keys are required. */
const OPEN_PATHS: ReadonlySet<string> = new Set(['/livez', '/readyz']);

/** Whether a path answers without a key, even where keys are required. */
export const isOpenPath = (path: string): boolean => OPEN_PATHS.has(path);

/** What watches the service asks for: health and numbers, nobody's data. */
export const isMonitoringPath = (path: string): boolean => isOpenPath(path) || path === METRICS_PATH;

const isAdminPath = (path: string): boolean => path === '/admin' || path.startsWith('/admin/');

/** What else a person opens to read. */
const READ_IN_BROWSER: ReadonlySet<string> = new Set(['/', '/docs', '/openapi.json', METRICS_PATH]);

const isReading = (method: string): boolean => method === 'GET' || method === 'HEAD';

/** Whether a person opens it in a browser, which can be asked for a key but cannot be told to send one. */
export const isForBrowser = (method: string, path: string): boolean =>
  isAdminPath(path) || (isReading(method) && (READ_IN_BROWSER.has(path) || path.startsWith('/docs/')));

/** The scope that a request needs. A path that nobody knows needs one like any other. */
export function requiredScope(method: string, path: string): Scope {
  if (isAdminPath(path) || path === METRICS_PATH) return 'operator';
  if (path === '/v1/audit') return 'admin';
  return isReading(method) ? 'read' : 'write';
}

/** How a key begins, wherever it turns up: scanners for leaked secrets find it by this. */
export const KEY_PREFIX = 'baton_';

const BASIC = /^Basic +([A-Za-z0-9+/=]+)$/i;
const BEARER = /^Bearer +(\S+)$/i;

/** The key that a request carries; `byBrowser`: the browser sends it along by itself, also for pages of others. */
export type Credentials = Readonly<{ secret: string; byBrowser: boolean }>;

/**
 * Reads the key from `Authorization: Bearer`, from `x-api-key` or, on pages for browsers, from the password of
 * `Authorization: Basic`. Null: there is none.
 */
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
