import type {
  Agent,
  AgentOverrides,
  AnsweredToolCall,
  AuditPage,
  CancelledSession,
  ContextMeter,
  Maintenance,
  NewSession,
  Readiness,
  RepinnedTools,
  ResumedSession,
  Run,
  RunLimits,
  RunPage,
  RunStatus,
  Session,
  SessionPage,
  SessionStatus,
  StoredBlob,
  ToolCallAnswer,
  ViewPage,
} from './api.ts';
import { type EventOptions, streamEvents } from './event-stream.ts';
import { untilRunEnds } from './follow-run.ts';
import type { Delivery, MessagePage, QueuePage, SentMessage, UserPart, WaitingMessage } from './messages.ts';
import type { EventPage, StreamEvent } from './session-events.ts';
import { createTransport, type Fetch, pathOf, type Query, type Request, type Transport } from './transport.ts';
import { hasEnded, untilAtRest } from './wait-for-run.ts';

export type * from './api.ts';
// biome-ignore lint/performance/noBarrelFile: the package has one door, and whoever catches needs the class.
export { BatonError, type ClientErrorCode, type ErrorCode, type FieldError } from './baton-error.ts';
export type * from './messages.ts';
export type * from './session-events.ts';

export type ClientOptions = Readonly<{
  /** Where the service answers: `http://127.0.0.1:4400`. */
  baseUrl: string;
  /** Sent as `Authorization: Bearer`; needed as soon as the service has any key. Not for browsers: use a backend. */
  apiKey?: string | undefined;
  /** In place of the global `fetch`. */
  fetch?: Fetch | undefined;
  /** Further attempts of a request that is safe to repeat, while the service is away. Default 5: some 8 s. */
  retries?: number | undefined;
  /**
   * How long an answer may take, in milliseconds, besides the time that the service is asked to wait. Default 30 000.
   */
  timeoutMs?: number | undefined;
}>;

/** What every method takes. An abort rejects with the reason of the signal. */
export type CallOptions = Readonly<{ signal?: AbortSignal | undefined }>;

/**
 * A request that is repeated with the same key within a day gets the first answer. Default: a new one for each call.
 */
export type KeyedOptions = CallOptions & Readonly<{ idempotencyKey?: string | undefined }>;

type Paged = CallOptions & Readonly<{ limit?: number | undefined }>;
export type SendOptions = KeyedOptions &
  Readonly<{
    /** `msg_` and 32 hex digits. A message with the id of an earlier one is that message again. */
    id?: string | undefined;
    delivery?: Delivery | undefined;
    limits?: RunLimits | undefined;
  }>;

type SessionFilter = Paged &
  Readonly<{
    cursor?: string | undefined;
    status?: SessionStatus | undefined;
    metadata?: Readonly<Record<string, string>> | undefined;
  }>;
type RunFilter = Paged &
  Readonly<{ cursor?: string | undefined; status?: RunStatus | undefined; sessionId?: string | undefined }>;
type WaitOptions = CallOptions & Readonly<{ timeoutMs?: number | undefined }>;
type Content = string | readonly UserPart[];

/**
 * The `/v1` API. Every method rejects with BatonError, or with the reason of its signal. What is safe to repeat is
 * tried again while the service is away.
 */
export type BatonClient = Readonly<{
  /** Sends a message: it starts a run, or waits for the one at work. */
  send: (sessionId: string, content: Content, options?: SendOptions) => Promise<SentMessage>;
  /** Follows a session for as long as it lives: see `streamEvents`. */
  events: (sessionId: string, options?: EventOptions) => AsyncGenerator<StreamEvent, void, undefined>;
  /** A page of the durable events after a number. */
  eventPage: (sessionId: string, options?: Paged & Readonly<{ after?: number | undefined }>) => Promise<EventPage>;
  /** A page of the transcript after a number. */
  messages: (sessionId: string, options?: Paged & Readonly<{ after?: number | undefined }>) => Promise<MessagePage>;
  sessions: Readonly<{
    create: (session: NewSession, options?: KeyedOptions) => Promise<Session>;
    /** Newest first. */
    list: (filter?: SessionFilter) => Promise<SessionPage>;
    get: (sessionId: string, options?: CallOptions) => Promise<Session>;
    /** What is left out stays as it is; metadata is replaced as a whole. */
    update: (
      sessionId: string,
      change: Readonly<{
        title?: string | null | undefined;
        metadata?: Readonly<Record<string, string>> | undefined;
        expiresAt?: string | null | undefined;
      }>,
      options?: CallOptions,
    ) => Promise<Session>;
    /** With everything in it. Refused while a run is active. */
    delete: (sessionId: string, options?: CallOptions) => Promise<void>;
    /** Cancels the active run, if there is one. */
    cancel: (
      sessionId: string,
      options?: CallOptions & Readonly<{ queue?: 'keep' | 'clear' | undefined }>,
    ) => Promise<CancelledSession>;
    /** Goes on after a failure, a cancel or a limit. */
    resume: (
      sessionId: string,
      options?: KeyedOptions & Readonly<{ limits?: RunLimits | undefined }>,
    ) => Promise<ResumedSession>;
    /**
     * Gives it another agent, without the overrides of the one before, or its own with another
     * model, from its next step on.
     */
    switchAgent: (
      sessionId: string,
      to: Readonly<
        | { agent: string; model?: string | undefined; overrides?: AgentOverrides | undefined }
        | { agent?: string | undefined; model: string }
      >,
      options?: KeyedOptions,
    ) => Promise<Session>;
    /** Takes the definitions that its MCP servers offer now; until then it keeps those that it began with. */
    repin: (sessionId: string, options?: KeyedOptions) => Promise<RepinnedTools>;
    /** A new session with its transcript up to a message. */
    fork: (
      sessionId: string,
      options?: KeyedOptions &
        Readonly<{
          atMessage?: string | undefined;
          title?: string | null | undefined;
          metadata?: Readonly<Record<string, string>> | undefined;
        }>,
    ) => Promise<Session>;
    /** How full its context is. */
    context: (sessionId: string, options?: CallOptions) => Promise<ContextMeter>;
    /** What its next request would show the model, page by page. */
    view: (
      sessionId: string,
      options?: CallOptions & Readonly<{ after?: number; limit?: number }>,
    ) => Promise<ViewPage>;
    /** Replaces the older part of the context by a summary. */
    compact: (sessionId: string, options?: CallOptions) => Promise<Maintenance>;
    /** Clears old tool outputs from the context. */
    prune: (sessionId: string, options?: CallOptions) => Promise<Maintenance>;
  }>;
  /** The messages that wait to be taken up. */
  queue: Readonly<{
    /** A page of them, in their order. */
    list: (sessionId: string, options?: Paged & Readonly<{ cursor?: string | undefined }>) => Promise<QueuePage>;
    get: (sessionId: string, messageId: string, options?: CallOptions) => Promise<WaitingMessage>;
    change: (
      sessionId: string,
      messageId: string,
      change: Readonly<{ content?: Content | undefined; delivery?: 'steer' | 'followup' | undefined }>,
      options?: CallOptions,
    ) => Promise<WaitingMessage>;
    remove: (sessionId: string, messageId: string, options?: CallOptions) => Promise<void>;
    /** Resolves with the ids of what was removed. */
    clear: (sessionId: string, options?: CallOptions) => Promise<Readonly<{ removed: readonly string[] }>>;
  }>;
  runs: Readonly<{
    /** Newest first. */
    list: (filter?: RunFilter) => Promise<RunPage>;
    get: (runId: string, options?: CallOptions) => Promise<Run>;
    /**
     * Resolves when the run has ended or needs an answer (`requires_action`), at the latest after `timeoutMs`, by
     * default never: look at its status. While the service is away it goes on asking until then.
     */
    wait: (runId: string, options?: WaitOptions) => Promise<Run>;
    /** The events of its session until the run has ended. Ends at once where it has. */
    follow: (runId: string, options?: EventOptions) => AsyncGenerator<StreamEvent, void, undefined>;
    /** Resolves when the run has ended, or after `waitMs` with the run as it is. Default: at once. */
    cancel: (runId: string, options?: CallOptions & Readonly<{ waitMs?: number | undefined }>) => Promise<Run>;
    /** Answers a call that the run waits for. */
    answer: (
      runId: string,
      toolCallId: string,
      answer: ToolCallAnswer,
      options?: KeyedOptions,
    ) => Promise<AnsweredToolCall>;
  }>;
  blobs: Readonly<{
    /** The same bytes are the same blob. One that no session refers to is removed after a day. */
    upload: (
      file: Blob | Uint8Array,
      options?: CallOptions & Readonly<{ mediaType?: string | undefined }>,
    ) => Promise<StoredBlob>;
    download: (blobId: string, options?: CallOptions) => Promise<Blob>;
  }>;
  agents: (options?: CallOptions) => Promise<Readonly<{ agents: readonly Agent[] }>>;
  /**
   * Whether the service can take requests, and which kinds of jobs no worker takes at the moment. Rejects where it says
   * that it cannot.
   */
  readiness: (options?: CallOptions) => Promise<Readiness>;
  /** Which key cancelled, removed, answered and deleted what, newest first. Needs the scope `admin`. */
  audit: (options?: Paged & Readonly<{ before?: number | undefined }>) => Promise<AuditPage>;
}>;

const DEFAULT_RETRIES = 5;
const DEFAULT_TIMEOUT_MS = 30_000;

/** A client of the service at `baseUrl`. It holds nothing open between two calls. */
export function createClient({ baseUrl, apiKey, fetch, retries, timeoutMs }: ClientOptions): BatonClient {
  const attempts = retries ?? DEFAULT_RETRIES;
  const answerWithinMs = timeoutMs ?? DEFAULT_TIMEOUT_MS;
  const transport = createTransport({ baseUrl, apiKey, fetch, retries: attempts, timeoutMs: answerWithinMs });
  const eventPage: BatonClient['eventPage'] = (id, { after, limit, signal } = {}) =>
    get(transport, pathOf`/v1/sessions/${id}/events`, { after, limit }, signal);
  const events: BatonClient['events'] = (id, options = {}) => streamEvents(transport, id, options, attempts);
  return {
    send: (id, content, { signal, idempotencyKey, ...fields } = {}) =>
      keyed(transport, pathOf`/v1/sessions/${id}/messages`, { content, ...fields }, { signal, idempotencyKey }),
    events,
    eventPage,
    messages: (id, { after, limit, signal } = {}) =>
      get(transport, pathOf`/v1/sessions/${id}/messages`, { after, limit }, signal),
    sessions: sessionMethods(transport),
    queue: queueMethods(transport),
    runs: runMethods(transport, answerWithinMs, { events, eventPage }),
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
    agents: ({ signal } = {}) => get(transport, '/v1/agents', {}, signal),
    readiness: ({ signal } = {}) => transport.call({ method: 'GET', path: '/readyz', signal, isRepeatable: false }),
    audit: ({ before, limit, signal } = {}) => get(transport, '/v1/audit', { before, limit }, signal),
  };
}

function get<Body>(transport: Transport, path: string, query: Query, signal: AbortSignal | undefined): Promise<Body> {
  return transport.call({ method: 'GET', path, query, signal, isRepeatable: true });
}

/** A request that makes something, with a key by which the service knows it again. */
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

/** Pages that were not served over TLS have no `crypto.randomUUID`. */
function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

function sessionMethods(transport: Transport): BatonClient['sessions'] {
  const change = <Body>(request: Omit<Request, 'isRepeatable'>, isRepeatable: boolean): Promise<Body> =>
    transport.call({ ...request, isRepeatable });
  return {
    create: (session, { signal, idempotencyKey } = {}) =>
      keyed(transport, '/v1/sessions', session, { signal, idempotencyKey }),
    list({ cursor, limit, status, metadata = {}, signal } = {}) {
      const labels = Object.entries(metadata).map(([key, value]) => [`metadata.${key}`, value]);
      return get(transport, '/v1/sessions', { cursor, limit, status, ...Object.fromEntries(labels) }, signal);
    },
    get: (id, { signal } = {}) => get(transport, pathOf`/v1/sessions/${id}`, {}, signal),
    update: (id, body, { signal } = {}) =>
      change({ method: 'PATCH', path: pathOf`/v1/sessions/${id}`, body, signal }, true),
    // A repetition would say that it does not exist.
    delete: (id, { signal } = {}) => change({ method: 'DELETE', path: pathOf`/v1/sessions/${id}`, signal }, false),
    // A repetition could hit the run that comes next.
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

/** Proxies between here and the service end what is silent for a minute. */
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
  return {
    list: ({ cursor, limit, status, sessionId, signal } = {}) =>
      get(transport, '/v1/runs', { cursor, limit, status, sessionId }, signal),
    get: (id, { signal } = {}) => read(id, signal),
    async wait(id, { timeoutMs = Number.POSITIVE_INFINITY, signal } = {}) {
      const endMs = performance.now() + timeoutMs;
      // One that is not reached at all is given up; from here on it is known to be there.
      const first = await poll(id, 0, signal);
      return untilAtRest(first, (leftMs) => poll(id, Math.min(leftMs, LONGEST_POLL_MS), signal), endMs, signal);
    },
    async *follow(id, options = {}) {
      const { signal } = options;
      const { sessionId } = await read(id, signal);
      const isOver = async (): Promise<boolean> => hasEnded(await read(id, signal));
      const readPage = ({ after }: { after: number }) => eventPage(sessionId, { after, signal });
      yield* untilRunEnds(id, events(sessionId, options), readPage, isOver);
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
