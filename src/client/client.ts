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
// biome-ignore lint/performance/noBarrelFile: the package has one door, and callers that catch errors need the class.
export { BatonError, type ClientErrorCode, type ErrorCode, type FieldError } from './baton-error.ts';
export type * from './messages.ts';
export type * from './session-events.ts';

export type ClientOptions = Readonly<{
  /** URL of the service: `http://127.0.0.1:4400`. */
  baseUrl: string;
  /** Sent as `Authorization: Bearer`; required once the service has any key. Not for browsers: use a backend. */
  apiKey?: string | undefined;
  /** Used instead of the global `fetch`. */
  fetch?: Fetch | undefined;
  /** Retries of a repeatable request while the service is unavailable. Default 5: some 8 s. */
  retries?: number | undefined;
  /** How long an answer may take, in milliseconds, besides any wait asked of the service. Default 30 000. */
  timeoutMs?: number | undefined;
}>;

/** Options of every method. An abort rejects with the reason of the signal. */
export type CallOptions = Readonly<{ signal?: AbortSignal | undefined }>;

/** A request with the same key within a day gets the first answer again. Default: a new key for each call. */
export type KeyedOptions = CallOptions & Readonly<{ idempotencyKey?: string | undefined }>;

type Paged = CallOptions & Readonly<{ limit?: number | undefined }>;
export type SendOptions = KeyedOptions &
  Readonly<{
    /** `msg_` and 32 hex digits. A message with a known id is taken for that message, sent again. */
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
 * The `/v1` API. Every method rejects with BatonError, or with the reason of its signal. Repeatable requests are
 * retried while the service is unavailable.
 */
export type BatonClient = Readonly<{
  /** Sends a message. It starts a run, or waits for the active one. */
  send: (sessionId: string, content: Content, options?: SendOptions) => Promise<SentMessage>;
  /** Follows a session without end: see `streamEvents`. */
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
    /** Fields that are left out stay as they are. Metadata is replaced as a whole. */
    update: (
      sessionId: string,
      change: Readonly<{
        title?: string | null | undefined;
        metadata?: Readonly<Record<string, string>> | undefined;
        expiresAt?: string | null | undefined;
      }>,
      options?: CallOptions,
    ) => Promise<Session>;
    /** Deletes the session and all its data. Refused while a run is active. */
    delete: (sessionId: string, options?: CallOptions) => Promise<void>;
    /** Cancels the active run, if there is one. */
    cancel: (
      sessionId: string,
      options?: CallOptions & Readonly<{ queue?: 'keep' | 'clear' | undefined }>,
    ) => Promise<CancelledSession>;
    /** Resumes after a failure, a cancel or a limit. */
    resume: (
      sessionId: string,
      options?: KeyedOptions & Readonly<{ limits?: RunLimits | undefined }>,
    ) => Promise<ResumedSession>;
    /** From its next step on: another agent without earlier overrides, or the session's own with another model. */
    switchAgent: (
      sessionId: string,
      to: Readonly<
        | { agent: string; model?: string | undefined; overrides?: AgentOverrides | undefined }
        | { agent?: string | undefined; model: string }
      >,
      options?: KeyedOptions,
    ) => Promise<Session>;
    /** Takes the tool definitions that its MCP servers offer now, in place of those that it was created with. */
    repin: (sessionId: string, options?: KeyedOptions) => Promise<RepinnedTools>;
    /** A new session with the transcript up to a message. */
    fork: (
      sessionId: string,
      options?: KeyedOptions &
        Readonly<{
          atMessage?: string | undefined;
          title?: string | null | undefined;
          metadata?: Readonly<Record<string, string>> | undefined;
        }>,
    ) => Promise<Session>;
    /** The fill of its context. */
    context: (sessionId: string, options?: CallOptions) => Promise<ContextMeter>;
    /** A page of its next request as the model would see it. */
    view: (
      sessionId: string,
      options?: CallOptions & Readonly<{ after?: number; limit?: number }>,
    ) => Promise<ViewPage>;
    /** Replaces the older part of the context by a summary. */
    compact: (sessionId: string, options?: CallOptions) => Promise<Maintenance>;
    /** Clears old tool outputs from the context. */
    prune: (sessionId: string, options?: CallOptions) => Promise<Maintenance>;
  }>;
  /** The queued messages. */
  queue: Readonly<{
    list: (sessionId: string, options?: Paged & Readonly<{ cursor?: string | undefined }>) => Promise<QueuePage>;
    get: (sessionId: string, messageId: string, options?: CallOptions) => Promise<WaitingMessage>;
    change: (
      sessionId: string,
      messageId: string,
      change: Readonly<{ content?: Content | undefined; delivery?: 'steer' | 'followup' | undefined }>,
      options?: CallOptions,
    ) => Promise<WaitingMessage>;
    remove: (sessionId: string, messageId: string, options?: CallOptions) => Promise<void>;
    /** Resolves with the ids of the removed messages. */
    clear: (sessionId: string, options?: CallOptions) => Promise<Readonly<{ removed: readonly string[] }>>;
  }>;
  runs: Readonly<{
    /** Newest first. */
    list: (filter?: RunFilter) => Promise<RunPage>;
    get: (runId: string, options?: CallOptions) => Promise<Run>;
    /**
     * Resolves when the run has ended or needs an answer (`requires_action`), or after `timeoutMs`, by default never:
     * look at its status. While the service is unavailable it goes on asking.
     */
    wait: (runId: string, options?: WaitOptions) => Promise<Run>;
    /** The events of its session until the run has ended. Ends at once if it has ended already. */
    follow: (runId: string, options?: EventOptions) => AsyncGenerator<StreamEvent, void, undefined>;
    /** Resolves when the run has ended, or with its state after `waitMs`. Default: at once. */
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
    /** Equal bytes are the same blob. A blob without a reference is removed after a day. */
    upload: (
      file: Blob | Uint8Array,
      options?: CallOptions & Readonly<{ mediaType?: string | undefined }>,
    ) => Promise<StoredBlob>;
    download: (blobId: string, options?: CallOptions) => Promise<Blob>;
  }>;
  agents: (options?: CallOptions) => Promise<Readonly<{ agents: readonly Agent[] }>>;
  /** Whether the service takes requests, and which kinds of jobs lack a worker now. Rejects if it is not ready. */
  readiness: (options?: CallOptions) => Promise<Readiness>;
  /** Cancels, removals, answers and deletions with the keys that made them, newest first. Needs the scope `admin`. */
  audit: (options?: Paged & Readonly<{ before?: number | undefined }>) => Promise<AuditPage>;
}>;

const DEFAULT_RETRIES = 5;
const DEFAULT_TIMEOUT_MS = 30_000;

/** A client of the service at `baseUrl`. It holds nothing open between calls. */
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

/** `crypto.randomUUID` is missing in pages without TLS. */
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
  return {
    list: ({ cursor, limit, status, sessionId, signal } = {}) =>
      get(transport, '/v1/runs', { cursor, limit, status, sessionId }, signal),
    get: (id, { signal } = {}) => read(id, signal),
    async wait(id, { timeoutMs = Number.POSITIVE_INFINITY, signal } = {}) {
      const endMs = performance.now() + timeoutMs;
      // The first request gives up if the service cannot be reached. Later ones go on asking.
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
