import { streamActivity } from './activity.ts';
import { askBy, toOutputFormat } from './ask.ts';
import { BatonError } from './baton-error.ts';
import type { Run } from './contract.ts';
import { streamEvents } from './event-stream.ts';
import { untilRunEnds } from './follow-run.ts';
import { keyMethods } from './keys.ts';
import type { BatonClient } from './methods.ts';
import { newKey } from './new-key.ts';
import { toResult } from './result.ts';
import { scheduleMethods } from './schedules.ts';
import { createTransport, type Fetch, pathOf, type Query, type Request, type Transport } from './transport.ts';
import { hasEnded, untilAtRest } from './wait-for-run.ts';
import { webhookMethods } from './webhooks.ts';
import { refuseWrongOptions } from './wrong-options.ts';

export type * from './api.ts';
// biome-ignore lint/performance/noBarrelFile: the package has one door, and callers that catch errors need the class.
export { BatonError, type ClientErrorCode, type FieldError } from './baton-error.ts';
export type { CallOptions, KeyedOptions } from './call-options.ts';
export type * from './console.ts';
export type * from './contract.ts';
export type * from './json.ts';
export type * from './keys.ts';
export type * from './messages.ts';
export type { BatonClient, SendOptions } from './methods.ts';
export type * from './parts.ts';
export type { RunResult } from './result.ts';
export type * from './schedules.ts';
export type * from './session-events.ts';
export type { OutputOf, StandardSchema } from './standard-schema.ts';
export type * from './webhooks.ts';

export type ClientOptions = Readonly<{
  /** URL of the service: `http://127.0.0.1:4400`. */
  baseUrl: string;
  /** Sent as `Authorization: Bearer`; required once the service has any key. Not for browsers: use a backend. */
  apiKey?: string | undefined;
  /** Used instead of the global `fetch`. */
  fetch?: Fetch | undefined;
  /** Retries of a repeatable request while the service is unavailable. Default 5: some 8 s. */
  retries?: number | undefined;
  /** Time limit for an answer, in milliseconds, besides any wait asked of the service. Default 30 000. */
  timeoutMs?: number | undefined;
  /**
   * Reads the JSON of answers and events, by default `JSON.parse`, which rounds numbers of more than 15 digits. Models and
   * tools may write such numbers in arguments and results.
   */
  parseJson?: ((text: string) => unknown) | undefined;
}>;

const DEFAULT_RETRIES = 5;
const DEFAULT_TIMEOUT_MS = 30_000;

/**
 * A client of the service at `baseUrl`. It holds nothing open between calls.
 * @throws BatonError `config_invalid` for an unusable base URL
 */
export function createClient(options: ClientOptions): BatonClient {
  // Without options, the program reads that the address is missing.
  const { baseUrl, apiKey, fetch, retries, timeoutMs, parseJson } = { ...options };
  const attempts = retries ?? DEFAULT_RETRIES;
  const answerWithinMs = timeoutMs ?? DEFAULT_TIMEOUT_MS;
  const transport = createTransport({
    baseUrl,
    apiKey,
    fetch,
    retries: attempts,
    timeoutMs: answerWithinMs,
    parseJson,
  });
  const eventPage: BatonClient['eventPage'] = (id, { after, limit, signal } = {}) =>
    get(transport, pathOf`/v1/sessions/${id}/events`, { after, limit }, signal);
  const events: BatonClient['events'] = (id, options = {}) => streamEvents(transport, id, options, attempts);
  const send: BatonClient['send'] = async (id, content, { signal, idempotencyKey, output, ...fields } = {}) => {
    const body = { content, ...fields, ...(output !== undefined && { output: toOutputFormat(output) }) };
    return keyed(transport, pathOf`/v1/sessions/${id}/messages`, body, { signal, idempotencyKey });
  };
  const runs = runMethods(transport, answerWithinMs, { events, eventPage });
  const methods: BatonClient = {
    send,
    ask: askBy({ send, runs }),
    events,
    eventPage,
    messages: (id, { signal, ...query } = {}) => get(transport, pathOf`/v1/sessions/${id}/messages`, query, signal),
    sessions: sessionMethods(transport),
    queue: queueMethods(transport),
    runs,
    blobs: {
      upload(file, { mediaType = file instanceof Blob ? file.type : '', signal } = {}) {
        const headers = { 'content-type': mediaType === '' ? 'application/octet-stream' : mediaType };
        return transport.call({ method: 'POST', path: '/v1/blobs', bytes: file, headers, signal, isRepeatable: true });
      },
      download: (id, { signal } = {}) =>
        transport.download({
          method: 'GET',
          path: pathOf`/v1/blobs/${id}`,
          headers: { accept: '*/*' },
          signal,
          isRepeatable: true,
        }),
    },
    inbox: ({ cursor, limit, signal } = {}) => get(transport, '/v1/inbox', { cursor, limit }, signal),
    errors: ({ signal, ...filter } = {}) => get(transport, '/v1/errors', filter, signal),
    usage: ({ by, signal, ...window } = {}) => get(transport, '/v1/usage', { by: by?.join(','), ...window }, signal),
    activity: ({ signal } = {}) => streamActivity(transport, signal, attempts),
    workers: ({ signal } = {}) => get(transport, '/v1/workers', {}, signal),
    operator: {
      runs: ({ signal, ...filter } = {}) => get(transport, '/v1/operator/runs', filter, signal),
      errors: ({ signal, ...filter } = {}) => get(transport, '/v1/operator/errors', filter, signal),
      usage: ({ by, signal, ...window } = {}) =>
        get(transport, '/v1/operator/usage', { by: by?.join(','), ...window }, signal),
    },
    agents: ({ signal } = {}) => get(transport, '/v1/agents', {}, signal),
    readiness: ({ signal } = {}) => transport.call({ method: 'GET', path: '/readyz', signal, isRepeatable: false }),
    whoami: ({ signal } = {}) => get(transport, '/v1/whoami', {}, signal),
    schedules: scheduleMethods(transport),
    webhooks: webhookMethods(transport),
    audit: ({ before, limit, signal } = {}) => get(transport, '/v1/audit', { before, limit }, signal),
    keys: keyMethods(transport),
  };
  return refuseWrongOptions(methods, (problem) => new BatonError('invalid_request', problem, { status: null }));
}

function get<Body>(transport: Transport, path: string, query: Query, signal: AbortSignal | undefined): Promise<Body> {
  return transport.call({ method: 'GET', path, query, signal, isRepeatable: true });
}

/** A request that creates something, with a key by which the service recognizes a repetition. */
function keyed<Body>(
  transport: Transport,
  path: string,
  body: object,
  {
    signal,
    idempotencyKey = newKey(),
  }: Readonly<{ signal: AbortSignal | undefined; idempotencyKey: string | undefined }>,
): Promise<Body> {
  const headers = { 'idempotency-key': idempotencyKey };
  return transport.call({ method: 'POST', path, body, headers, signal, isRepeatable: true });
}

function sessionMethods(transport: Transport): BatonClient['sessions'] {
  const change = <Body>(request: Omit<Request, 'isRepeatable'>, isRepeatable: boolean): Promise<Body> =>
    transport.call({ ...request, isRepeatable });
  return {
    create: (session, { signal, idempotencyKey } = {}) =>
      keyed(transport, '/v1/sessions', session, { signal, idempotencyKey }),
    list({ metadata = {}, failed, waiting, ids, signal, ...filter } = {}) {
      const labels = Object.entries(metadata).map(([key, value]) => [`metadata.${key}`, value]);
      const filterText = { ...filter, failed: failed && 'true', waiting: waiting && 'true', ids: ids?.join(',') };
      return get(transport, '/v1/sessions', { ...filterText, ...Object.fromEntries(labels) }, signal);
    },
    get: (id, { signal } = {}) => get(transport, pathOf`/v1/sessions/${id}`, {}, signal),
    update: (id, body, { signal } = {}) =>
      change({ method: 'PATCH', path: pathOf`/v1/sessions/${id}`, body, signal }, true),
    // A repeated delete would be answered with `not_found`.
    delete: (id, { signal } = {}) => change({ method: 'DELETE', path: pathOf`/v1/sessions/${id}`, signal }, false),
    // A repeated cancel could hit the next run.
    cancel: (id, { queue, signal } = {}) =>
      change({ method: 'POST', path: pathOf`/v1/sessions/${id}/cancel`, body: { queue }, signal }, false),
    resume: (id, { limits, signal, idempotencyKey } = {}) =>
      keyed(transport, pathOf`/v1/sessions/${id}/resume`, { limits }, { signal, idempotencyKey }),
    switchAgent: (id, to, { signal, idempotencyKey } = {}) =>
      keyed(transport, pathOf`/v1/sessions/${id}/agent`, to, { signal, idempotencyKey }),
    repin: (id, { signal, idempotencyKey } = {}) =>
      keyed(transport, pathOf`/v1/sessions/${id}/repin`, {}, { signal, idempotencyKey }),
    fork: (id, { signal, idempotencyKey, ...fields } = {}) =>
      keyed(transport, pathOf`/v1/sessions/${id}/fork`, fields, { signal, idempotencyKey }),
    createToken: (id, { signal, ...fields } = {}) =>
      change({ method: 'POST', path: pathOf`/v1/sessions/${id}/tokens`, body: fields, signal }, false),
    revert: (id, toMessage, { signal, idempotencyKey } = {}) =>
      keyed(transport, pathOf`/v1/sessions/${id}/revert`, { toMessage }, { signal, idempotencyKey }),
    unrevert: (id, { signal, idempotencyKey } = {}) =>
      keyed(transport, pathOf`/v1/sessions/${id}/unrevert`, {}, { signal, idempotencyKey }),
    context: (id, { signal } = {}) => get(transport, pathOf`/v1/sessions/${id}/context`, {}, signal),
    view: (id, { signal, ...query } = {}) => get(transport, pathOf`/v1/sessions/${id}/view`, query, signal),
    compact: (id, { signal } = {}) =>
      change({ method: 'POST', path: pathOf`/v1/sessions/${id}/compact`, body: {}, signal }, false),
    prune: (id, { signal } = {}) =>
      change({ method: 'POST', path: pathOf`/v1/sessions/${id}/prune`, body: {}, signal }, false),
  };
}

function queueMethods(transport: Transport): BatonClient['queue'] {
  const path = (id: string): string => pathOf`/v1/sessions/${id}/queue`;
  const itemPath = (id: string, messageId: string): string => pathOf`/v1/sessions/${id}/queue/${messageId}`;
  return {
    list: (id, { cursor, limit, signal } = {}) => get(transport, path(id), { cursor, limit }, signal),
    get: (id, messageId, { signal } = {}) => get(transport, itemPath(id, messageId), {}, signal),
    change: (id, messageId, body, { signal } = {}) =>
      transport.call({ method: 'PATCH', path: itemPath(id, messageId), body, signal, isRepeatable: true }),
    remove: (id, messageId, { signal } = {}) =>
      transport.call({ method: 'DELETE', path: itemPath(id, messageId), signal, isRepeatable: false }),
    clear: (id, { signal } = {}) => transport.call({ method: 'DELETE', path: path(id), signal, isRepeatable: false }),
  };
}

/** Proxies may end a connection that is silent for a minute. */
const LONGEST_POLL_MS = 30_000;

function runMethods(
  transport: Transport,
  answerWithinMs: number,
  { events, eventPage }: Pick<BatonClient, 'events' | 'eventPage'>,
): BatonClient['runs'] {
  const poll = (id: string, timeoutMs: number, signal: AbortSignal | undefined): Promise<Run> =>
    transport.call({
      method: 'GET',
      path: pathOf`/v1/runs/${id}/wait`,
      query: { timeoutMs },
      timeoutMs: timeoutMs + answerWithinMs,
      signal,
      isRepeatable: true,
    });
  const read = (id: string, signal: AbortSignal | undefined): Promise<Run> =>
    get(transport, pathOf`/v1/runs/${id}`, {}, signal);
  const wait: BatonClient['runs']['wait'] = async (id, { timeoutMs = Number.POSITIVE_INFINITY, signal } = {}) => {
    const endMs = performance.now() + timeoutMs;
    // The first request gives up if the service cannot be reached. Later ones go on asking.
    const first = await poll(id, 0, signal);
    return untilAtRest(first, (leftMs) => poll(id, Math.min(leftMs, LONGEST_POLL_MS), signal), endMs, signal);
  };
  return {
    list: ({ ids, signal, ...filter } = {}) => get(transport, '/v1/runs', { ...filter, ids: ids?.join(',') }, signal),
    get: (id, { signal } = {}) => read(id, signal),
    request: (id, step, { attempt, after, limit, signal } = {}) =>
      get(transport, pathOf`/v1/runs/${id}/steps/${String(step)}/request`, { attempt, after, limit }, signal),
    steps: (id, { after, limit, signal } = {}) =>
      get(transport, pathOf`/v1/runs/${id}/steps`, { after, limit }, signal),
    wait,
    result: async (id, options = {}) => toResult(await wait(id, options)),
    async *follow(id, options = {}) {
      const { signal } = options;
      const { sessionId } = await read(id, signal);
      const isOver = async (): Promise<boolean> => hasEnded(await read(id, signal));
      const readPage = ({ after }: { after: number }) => eventPage(sessionId, { after, signal });
      yield* untilRunEnds(id, events(sessionId, options), { readPage, hasEnded: isOver, after: options.after });
    },
    cancel: (id, { waitMs = 0, signal } = {}) =>
      transport.call({
        method: 'POST',
        path: pathOf`/v1/runs/${id}/cancel`,
        query: { wait: waitMs },
        body: {},
        timeoutMs: waitMs + answerWithinMs,
        signal,
        isRepeatable: true,
      }),
    answer: (id, toolCallId, answer, { signal, idempotencyKey } = {}) =>
      keyed(transport, pathOf`/v1/runs/${id}/tool-calls/${toolCallId}`, answer, { signal, idempotencyKey }),
  };
}
