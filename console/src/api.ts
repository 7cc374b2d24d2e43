import { QueryClient } from '@tanstack/react-query';
import { BatonError, createClient } from 'baton/client';
import { noteConnection } from './connection.ts';
import { SERVICE_URL } from './place.ts';

/** Says to the service that the request is of the console: its cookie alone changes nothing. */
const CONSOLE_HEADERS = { 'x-baton-console': '1' };

async function send(url: string, init: RequestInit): Promise<Response> {
  const headers = { ...CONSOLE_HEADERS, ...headersOf(init) };
  try {
    const response = await fetch(url, { ...init, credentials: 'same-origin', headers });
    noteConnection(true);
    // The answer to who the caller is says so itself, and that to a login is no word about the key of the page.
    if (response.status === 401 && /\/v1\/(?!whoami$)/.test(url))
      void queries.invalidateQueries({ queryKey: ['caller'] });
    return response;
  } catch (error) {
    if (init.signal?.aborted !== true) noteConnection(false);
    throw error;
  }
}

const headersOf = ({ headers }: RequestInit): Record<string, string> => Object.fromEntries(new Headers(headers));

/** The public API. The page has no other way to the service, besides its login. */
export const client = createClient({ baseUrl: SERVICE_URL, fetch: send, retries: 2 });

/** @throws BatonError the refusal of the service, or `unreachable` */
export async function logIn(key: string): Promise<void> {
  await postToConsole('login', { key });
}

/** @throws BatonError */
export async function logOut(): Promise<void> {
  await postToConsole('logout', {});
}

async function postToConsole(name: string, body: object): Promise<void> {
  const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
  const response = await send(`${SERVICE_URL}/console/${name}`, init).catch((cause: unknown) => {
    throw new BatonError('unreachable', 'The service does not answer', { status: null, cause });
  });
  if (response.ok) return;
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
