import type { AuditPage, RunPage, SessionPage, SessionToken, ToolCallAnswer } from './api.ts';
import type { CallOptions, KeyedOptions } from './call-options.ts';
import type { Activity, WaitingCallPage } from './console.ts';
import type {
  Agent,
  AgentOverrides,
  AllErrorGroups,
  AnsweredToolCall,
  Caller,
  CancelledSession,
  ContextMeter,
  Delivery,
  ErrorGroups,
  Fleet,
  Maintenance,
  NewSession,
  OperatorRun,
  OutputFormat,
  QueuePage,
  Readiness,
  RejectedAgentFile,
  RepinnedTools,
  ResumedSession,
  RevertedSession,
  Run,
  RunLimits,
  RunStatus,
  SentMessage,
  Session,
  SessionStatus,
  StepPage,
  StepRequest,
  StoredBlob,
  UsageDimension,
  UsageReport,
  ViewPage,
  WaitingMessage,
} from './contract.ts';
import type { EventOptions } from './event-stream.ts';
import type { Json } from './json.ts';
import type { KeyMethods } from './keys.ts';
import type { MessagePage, UserPart } from './messages.ts';
import type { RunResult } from './result.ts';
import type { ScheduleMethods } from './schedules.ts';
import type { EventPage, StreamEvent } from './session-events.ts';
import type { OutputOf, StandardSchema } from './standard-schema.ts';
import type { WebhookMethods } from './webhooks.ts';

type Paged = CallOptions & Readonly<{ limit?: number | undefined }>;
export type SendOptions = KeyedOptions &
  Readonly<{
    /** `msg_` and 32 hex digits. A message with a known id is taken for that message, sent again. */
    id?: string | undefined;
    delivery?: Delivery | undefined;
    limits?: RunLimits | undefined;
    /** Webhook for the run that takes up the message. It is told of the end of the run, and of each of its waits. */
    webhook?: Readonly<{ url: string; secret: string }> | undefined;
    /** The result that is asked of a run which the message starts, in place of the agent's own. */
    output?: OutputFormat | StandardSchema | undefined;
  }>;
/** A message whose run is asked for a result of this schema's type. */
type SchemaOptions<Schema> = Omit<SendOptions, 'output'> & Readonly<{ output: Schema }>;

type SessionFilter = Paged &
  Readonly<{
    cursor?: string | undefined;
    /** Words, each of which begins a word of the title, external key or metadata; or the id of a session or run. */
    q?: string | undefined;
    /** The session with this key. No other filter applies then. */
    key?: string | undefined;
    agent?: string | undefined;
    status?: SessionStatus | undefined;
    /** Only the children of this session. Not with `q`, `failed` or `minCost`. */
    parent?: string | undefined;
    /** ISO time of the earliest creation. */
    since?: string | undefined;
    /** Only those whose newest run has failed. */
    failed?: true | undefined;
    /** Only those that wait for a person or a client. */
    waiting?: true | undefined;
    /** US dollars. */
    minCost?: number | undefined;
    metadata?: Readonly<Record<string, string>> | undefined;
    /** At most 50 sessions, to read them again. No other filter applies then. */
    ids?: readonly string[] | undefined;
  }>;
type RunFilter = Paged &
  Readonly<{
    cursor?: string | undefined;
    status?: RunStatus | undefined;
    sessionId?: string | undefined;
    /** At most 50 runs, to read them again. No other filter applies then. */
    ids?: readonly string[] | undefined;
  }>;
type ErrorFilter = Paged &
  Readonly<{
    since?: string | undefined;
    agent?: string | undefined;
    /** The fingerprint of a group: the answer has only this group, with its newest 100 runs. */
    group?: string | undefined;
  }>;
type UsageFilter<Dimension extends UsageDimension> = CallOptions &
  Readonly<{ by?: readonly Dimension[] | undefined; since?: string | undefined; until?: string | undefined }>;
type WaitOptions = CallOptions & Readonly<{ timeoutMs?: number | undefined }>;
type Content = string | readonly UserPart[];

/**
 * The `/v1` API. Every method rejects with BatonError, or with the reason of its signal. Repeatable requests are
 * retried while the service is unavailable.
 */
export type BatonClient<AgentName extends string = string> = Readonly<{
  /** Sends a message. It starts a run, or waits for the active one. */
  send: (sessionId: string, content: Content, options?: SendOptions) => Promise<SentMessage>;
  /**
   * Sends a message and resolves when its run has ended. It has no timeout: abort the signal. With a schema as `output`,
   * the result has passed it, with its defaults and transforms.
   *
   * Rejects if the run fails; with `requires_action` if it waits for answers: `run` of the error has the open calls.
   */
  ask: {
    <Schema extends StandardSchema>(
      sessionId: string,
      content: Content,
      options: SchemaOptions<Schema>,
    ): Promise<RunResult<OutputOf<Schema>>>;
    <Output = Json>(sessionId: string, content: Content, options?: SendOptions): Promise<RunResult<Output>>;
  };
  /** Follows a session without end: see `streamEvents`. */
  events: (sessionId: string, options?: EventOptions) => AsyncGenerator<StreamEvent, void, undefined>;
  /** A page of the durable events after a number. */
  eventPage: (sessionId: string, options?: Paged & Readonly<{ after?: number | undefined }>) => Promise<EventPage>;
  /** A page of the transcript after a number, or the page that ends before one. With `desc` from the newest back. */
  messages: (
    sessionId: string,
    options?: Paged &
      Readonly<{
        after?: number | undefined;
        before?: number | undefined;
        order?: 'asc' | 'desc' | undefined;
        /** Only the messages of this run. */
        runId?: string | undefined;
      }>,
  ) => Promise<MessagePage>;
  sessions: Readonly<{
    // As a method, so that the client of known agents is one of any agents, too.
    create(session: NewSession & Readonly<{ agent: AgentName }>, options?: KeyedOptions): Promise<Session>;
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
    /**
     * Changes the session from its next step on: to another agent without earlier overrides, or its own agent to
     * another model.
     */
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
    /** A token that opens this session alone, for a browser. */
    createToken: (
      sessionId: string,
      options?: CallOptions &
        Readonly<{
          access?: 'read' | 'write' | undefined;
          expiresInSeconds?: number | undefined;
          /** Of the runs that its holder starts, in place of the agent's. Whoever holds it may only lower them. */
          limits?: RunLimits | undefined;
          /** Fields that its holder may name in a message. */
          allow?: readonly ('output' | 'webhook')[] | undefined;
        }>,
    ) => Promise<SessionToken>;
    /** Removes the messages after this one from the transcript. Refused while a run is active. */
    revert: (sessionId: string, toMessage: string, options?: KeyedOptions) => Promise<RevertedSession>;
    /** Undoes the last revert, as long as no message has come since. */
    unrevert: (sessionId: string, options?: KeyedOptions) => Promise<RevertedSession>;
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
    /** Reads the request that the model was shown in a step. Needs the scope `admin`. */
    request: (
      runId: string,
      step: number,
      options?: Paged & Readonly<{ attempt?: number | undefined; after?: number | undefined }>,
    ) => Promise<StepRequest>;
    /** Reads the work of its steps, and the duration of each phase. `after` and `limit` count steps. */
    steps: (runId: string, options?: Paged & Readonly<{ after?: number | undefined }>) => Promise<StepPage>;
    /**
     * Resolves when the run has ended or needs an answer (`requires_action`), or after `timeoutMs`, by default never:
     * look at its status. While the service is unavailable it goes on asking.
     */
    wait: (runId: string, options?: WaitOptions) => Promise<Run>;
    /** As `wait`, without a timeout, then its answer. Rejects if the run fails. */
    result: <Output = Json>(runId: string, options?: CallOptions) => Promise<RunResult<Output>>;
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
  /** The calls of all sessions that wait for a person or a client, oldest first. */
  inbox: (options?: Paged & Readonly<{ cursor?: string | undefined }>) => Promise<WaitingCallPage>;
  /** Failed runs by cause; of the last day by default. */
  errors: (filter?: ErrorFilter) => Promise<ErrorGroups>;
  /** Tokens and cost by day, agent and model; of 30 days by default. */
  usage: (filter?: UsageFilter<Exclude<UsageDimension, 'tenant'>>) => Promise<UsageReport>;
  /** Follows the changes of sessions and runs, without end: see `streamActivity`. */
  activity: (options?: CallOptions) => AsyncGenerator<Activity, void, undefined>;
  /** The workers with the runs that they have in hand, and the queues. Needs the scope `operator`. */
  workers: (options?: CallOptions) => Promise<Fleet>;
  /** All tenants, without content. Needs the scope `operator`. */
  operator: Readonly<{
    /** Newest first. */
    runs: (
      filter?: Paged &
        Readonly<{ cursor?: string | undefined; status?: RunStatus | undefined; tenant?: string | undefined }>,
    ) => Promise<Readonly<{ runs: readonly OperatorRun[]; nextCursor: string | null }>>;
    errors: (filter?: ErrorFilter) => Promise<AllErrorGroups>;
    usage: (filter?: UsageFilter<UsageDimension>) => Promise<UsageReport>;
  }>;
  agents: (
    options?: CallOptions,
  ) => Promise<Readonly<{ agents: readonly Agent[]; rejected: readonly RejectedAgentFile[] }>>;
  /** Whether the service takes requests, and which kinds of jobs lack a worker now. Rejects if it is not ready. */
  readiness: (options?: CallOptions) => Promise<Readiness>;
  /** The owner and the rights of this client's key. */
  whoami: (options?: CallOptions) => Promise<Caller>;
  /** Messages to agents by the clock. */
  schedules: ScheduleMethods<AgentName>;
  /** URLs that are told of runs which end or wait. */
  webhooks: WebhookMethods;
  /** Cancels, removals, answers and deletions with the keys that made them, newest first. Needs the scope `admin`. */
  audit: (options?: Paged & Readonly<{ before?: number | undefined }>) => Promise<AuditPage>;
  keys: KeyMethods;
}>;
