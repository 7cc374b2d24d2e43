import { BatonError, createClient } from '@baton-run/server/client';
import { QueryClient } from '@tanstack/react-query';
import { noteConnection } from './connection.ts';
import { parseJson } from './exact-json.ts';
import { forgetLogin, keepLogin, readLogin } from './login-secrets.ts';
import { SERVICE_URL } from './place.ts';

/** With it the service takes the cookie of the login; `1` stands for no login. */
const CONSOLE_HEADER = 'x-baton-console';

async function send(url: string, init: RequestInit): Promise<Response> {
  const login = readLogin();
  const headers = { [CONSOLE_HEADER]: login?.page ?? '1', ...headersOf(init) };
  try {
    const response = await fetch(url, { ...init, credentials: 'same-origin', headers });
    noteConnection(true);
    // An answer to a login is no word about the login of the page.
    if (response.status === 401 && url.includes('/v1/')) noteRefusal(url, login?.page);
    return response;
  } catch (error) {
    if (init.signal?.aborted !== true) noteConnection(false);
    throw error;
  }
}

/** The login is over. Who the caller is without one, is asked again: the service may need none. */
function noteRefusal(url: string, page: string | undefined): void {
  if (page !== undefined) forgetLogin(page);
  if (page !== undefined || !url.endsWith('/v1/whoami')) void queries.invalidateQueries({ queryKey: ['caller'] });
}

const headersOf = ({ headers }: RequestInit): Record<string, string> => Object.fromEntries(new Headers(headers));

/** The public API. The page has no other way to the service, besides its login. */
export const client = createClient({ baseUrl: SERVICE_URL, fetch: send, retries: 2, parseJson });

/** @throws BatonError the refusal of the service, or `unreachable`; an error of a browser that stores nothing */
export async function logIn(key: string): Promise<void> {
  keepLogin((await postToConsole('login', { key })) as Parameters<typeof keepLogin>[0]);
}

/** @throws BatonError */
export async function logOut(): Promise<void> {
  await postToConsole('logout', {});
  const login = readLogin();
  if (login !== null) forgetLogin(login.page);
}

async function postToConsole(name: string, body: object): Promise<unknown> {
  const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
  const response = await send(`${SERVICE_URL}/console/${name}`, init).catch((cause: unknown) => {
    throw new BatonError('unreachable', 'The service does not answer', { status: null, cause });
  });
  if (response.ok) return response.status === 204 ? null : response.json();
  const problem: unknown = await response.json().catch(() => null);
  const { code = 'unexpected_response', detail = `The service answered ${response.status}` } = (problem ?? {}) as {
    code?: string;
    detail?: string;
  };
  throw new BatonError(code, detail, { status: response.status });
}

/** An answer of the API as it was sent. @throws BatonError */
export async function readText(path: string, signal: AbortSignal): Promise<string> {
  const response = await send(SERVICE_URL + path, { signal });
  if (response.ok) return response.text();
  throw new BatonError('unexpected_response', `The service answered ${response.status}`, { status: response.status });
}

/** Whether the key of the page is missing, or has been revoked. */
export const isLoggedOut = (error: unknown): boolean => error instanceof BatonError && error.code === 'unauthenticated';

export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      // The client retries by itself.
      retry: false,
      // The service may be on this machine, which a browser without a network reaches, too.
      networkMode: 'always',
      staleTime: 2_000,
      refetchOnWindowFocus: true,
    },
    mutations: { networkMode: 'always' },
  },
});
