import { BatonError, toBatonError } from './baton-error.ts';
import { isWorthRetrying, pause, retryDelayMs } from './retry.ts';

/** The part of `fetch` that the client uses. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

export type Query = Readonly<Record<string, string | number | undefined>>;

export type Request = Readonly<{
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** From `/v1` on, with escaped ids: see `pathOf`. */
  path: string;
  query?: Query;
  /** Sent as JSON. */
  body?: object;
  /** Sent unchanged, in place of a body. */
  bytes?: Blob | Uint8Array | undefined;
  headers?: Readonly<Record<string, string>>;
  /** Sending it twice has the same effect as sending it once. */
  isRepeatable: boolean;
  /** Time limit for the answer, in milliseconds, if the service is asked to wait. */
  timeoutMs?: number;
  signal?: AbortSignal | undefined;
}>;

export type TransportOptions = Readonly<{
  baseUrl: string;
  apiKey?: string | undefined;
  fetch?: Fetch | undefined;
  retries: number;
  timeoutMs: number;
  /** Reads JSON in place of `JSON.parse`. */
  parseJson?: ((text: string) => unknown) | undefined;
}>;

export type Transport = Readonly<{
  /** The decoded JSON of the answer, not validated. @throws BatonError, or the reason of the signal */
  call: <Body>(request: Request) => Promise<Body>;
  /** The body of the answer. @throws BatonError, or the reason of the signal */
  download: (request: Request) => Promise<Blob>;
  /** One attempt, with the body not read yet. @throws BatonError, or the reason of the signal */
  open: (path: string, init: RequestInit) => Promise<Response>;
  /** Decodes JSON without validation. @throws BatonError `unexpected_response` for what is none */
  decode: <Value>(text: string) => Value;
}>;

/**
 * Sends requests to one server, and retries repeatable ones while it is unavailable for a moment.
 * @throws BatonError `config_invalid` for an unusable base URL
 */
export function createTransport(options: TransportOptions): Transport {
  const root = readBaseUrl(options.baseUrl);
  const send: Fetch = options.fetch ?? ((url, init) => fetch(url, init));
  const authorization = options.apiKey === undefined ? {} : { authorization: `Bearer ${options.apiKey}` };

  const parseJson = options.parseJson ?? JSON.parse;
  const decode = <Value>(text: string): Value => {
    try {
      return parseJson(text) as Value;
    } catch (cause) {
      throw new BatonError('unexpected_response', 'the answer is no JSON', { status: 200, cause });
    }
  };

  const open: Transport['open'] = async (path, init) => {
    refuseMissingId(path);
    const response = await reach(send, root + path, { ...init, headers: { ...authorization, ...init.headers } });
    if (!response.ok) throw await toBatonError(response);
    return response;
  };

  const repeat = async <Whole>(request: Request, read: (response: Response) => Promise<Whole>): Promise<Whole> => {
    for (let repetition = 1; ; repetition++) {
      try {
        return await attempt(open, request, read, options.timeoutMs);
      } catch (error) {
        const isOver = repetition > options.retries || !(error instanceof BatonError);
        if (isOver || !isWorthRetrying(error, request.isRepeatable)) throw error;
        await pause(retryDelayMs(repetition, Math.random(), error.retryAfterMs), request.signal);
      }
    }
  };

  return {
    open,
    download: (request) => repeat(request, (response) => response.blob()),
    decode,
    call: async <Body>(request: Request) => {
      const text = await repeat(request, (response) => response.text());
      // An answer without a body has no type either.
      return text === '' ? (undefined as Body) : decode<Body>(text);
    },
  };
}

async function attempt<Whole>(
  open: Transport['open'],
  request: Request,
  read: (response: Response) => Promise<Whole>,
  timeoutMs: number,
): Promise<Whole> {
  const { method, path, query = {}, body, bytes, headers = {} } = request;
  const overdue = AbortSignal.timeout(request.timeoutMs ?? timeoutMs);
  const signal = request.signal === undefined ? overdue : AbortSignal.any([request.signal, overdue]);
  // `fetch` takes bytes of any buffer, although its newer types do not say so.
  const sent = body === undefined ? (bytes as Blob | undefined) : JSON.stringify(body);
  const init: RequestInit = {
    method,
    signal,
    headers: { accept: 'application/json', ...(body !== undefined && JSON_BODY), ...headers },
    ...(sent !== undefined && { body: sent }),
  };
  try {
    return await readWhole(await open(path + formatQuery(query), init), read);
  } catch (error) {
    request.signal?.throwIfAborted();
    if (overdue.aborted) throw unreachable('the server did not answer in time', error);
    throw error;
  }
}

/** The base URL without trailing slashes. @throws BatonError `config_invalid` */
function readBaseUrl(text: string): string {
  const quoted = typeof text === 'string' ? JSON.stringify(text) : String(text);
  const refuse = (what: string): never => {
    const message = `baseUrl: ${quoted} ${what}; give the address of the service, such as "http://127.0.0.1:4400"`;
    throw new BatonError('config_invalid', message, { status: null });
  };
  if (typeof text !== 'string' || !/^https?:\/\//i.test(text) || !URL.canParse(text)) {
    return refuse('is no URL that begins with http:// or https://');
  }
  const { username, password, search, hash } = new URL(text);
  if (username + password !== '') return refuse('has a user or a password in it, which `fetch` refuses');
  if (search + hash !== '') return refuse('has a query or a fragment');
  return text.replace(/\/+$/, '');
}

/**
 * An empty id, or one that is missing in plain JavaScript, would lead to another path.
 * @throws BatonError `invalid_request`
 */
function refuseMissingId(path: string): void {
  const [place = ''] = path.split('?');
  const segments = place.split('/').slice(1);
  if (segments.every((segment) => !/^\.{0,2}$/.test(segment))) return;
  throw new BatonError('invalid_request', `an id is missing in ${place}`, { status: null });
}

const JSON_BODY = { 'content-type': 'application/json' } as const;

export const unreachable = (message: string, cause?: unknown): BatonError =>
  new BatonError('unreachable', message, { status: null, cause });

async function reach(send: Fetch, url: string, init: RequestInit): Promise<Response> {
  try {
    return await send(url, init);
  } catch (error) {
    init.signal?.throwIfAborted();
    throw unreachable(`no answer from ${new URL(url).host}`, error);
  }
}

/** Reads the whole body as part of the attempt, because it may break off, too. */
async function readWhole<Whole>(response: Response, read: (response: Response) => Promise<Whole>): Promise<Whole> {
  try {
    return await read(response);
  } catch (error) {
    throw unreachable('the answer broke off', error);
  }
}

/** A path with escaped values. */
export function pathOf(parts: TemplateStringsArray, ...values: readonly string[]): string {
  return parts.reduce((path, part, index) => `${path}${encodeURIComponent(values[index - 1] ?? '')}${part}`);
}

/** The query with its question mark, or an empty text. */
function formatQuery(query: Query): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined) parameters.append(name, String(value));
  return parameters.size === 0 ? '' : `?${parameters}`;
}
