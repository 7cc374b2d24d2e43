// The shapes of the API. Written by "npm run generate" from src/api; never change it here.
import type { Json } from './json.ts';
import type { Part } from './parts.ts';

export type Delivery = 'steer' | 'followup' | 'interrupt' | 'reject';

export type ErrorCode =
  | 'agent_not_found'
  | 'already_answered'
  | 'auth'
  | 'blocked_transition'
  | 'byte_overflow'
  | 'config_invalid'
  | 'conflict'
  | 'content_policy'
  | 'context_exhausted'
  | 'fenced'
  | 'forbidden'
  | 'idempotency_conflict'
  | 'inbox_full'
  | 'input_overflow'
  | 'intake_full'
  | 'internal'
  | 'invalid_request'
  | 'limit_exceeded'
  | 'malformed_history'
  | 'method_not_allowed'
  | 'model_not_allowed'
  | 'model_unavailable'
  | 'not_acceptable'
  | 'not_found'
  | 'output_invalid'
  | 'output_reserve_overflow'
  | 'overloaded'
  | 'payload_too_large'
  | 'price_unknown'
  | 'quota'
  | 'quota_exceeded'
  | 'rate_limited'
  | 'resume_limit'
  | 'session_busy'
  | 'silent_truncation'
  | 'storage_exceeded'
  | 'store_unavailable'
  | 'timeout'
  | 'tools_unavailable'
  | 'tools_unsupported'
  | 'transport'
  | 'unauthenticated'
  | 'unsupported_media_type';

export type FinishReason = 'stop' | 'length' | 'content-filter' | 'tool-calls' | 'error' | 'other' | 'aborted';

export type IncompleteReason =
  | 'max_steps'
  | 'budget'
  | 'deadline'
  | 'doom_loop'
  | 'context_exhausted'
  | 'output_invalid';

export type LimitReason = 'max_steps' | 'budget' | 'deadline' | 'doom_loop';

export type RunErrorCode =
  | 'agent_not_found'
  | 'already_answered'
  | 'auth'
  | 'blocked_transition'
  | 'byte_overflow'
  | 'config_invalid'
  | 'conflict'
  | 'content_policy'
  | 'context_exhausted'
  | 'fenced'
  | 'idempotency_conflict'
  | 'inbox_full'
  | 'input_overflow'
  | 'intake_full'
  | 'internal'
  | 'invalid_request'
  | 'limit_exceeded'
  | 'malformed_history'
  | 'model_not_allowed'
  | 'model_unavailable'
  | 'not_found'
  | 'output_invalid'
  | 'output_reserve_overflow'
  | 'overloaded'
  | 'payload_too_large'
  | 'price_unknown'
  | 'quota'
  | 'quota_exceeded'
  | 'rate_limited'
  | 'resume_limit'
  | 'session_busy'
  | 'silent_truncation'
  | 'storage_exceeded'
  | 'store_unavailable'
  | 'timeout'
  | 'tools_unavailable'
  | 'tools_unsupported'
  | 'transport';

export type RunStatus =
  | 'queued'
  | 'running'
  | 'requires_action'
  | 'cancelling'
  | 'completed'
  | 'failed'
  | 'cancelled'
  | 'incomplete';

export type SessionStatus = 'idle' | 'busy' | 'requires_action';

export type SwitchReason = 'timeout' | 'overloaded' | 'transport' | 'rate_limited' | 'quota' | 'empty_answer';

export type UsageDimension = 'day' | 'agent' | 'model' | 'tenant';

export type WebhookEvent = 'run:completed' | 'run:failed' | 'run:cancelled' | 'run:incomplete' | 'run:requires-action';

export type Agent = Readonly<{
  name: string;
  version: string;
  description: string | null;
  /** A chat or a task that names no agent gets this one. */
  isDefault: boolean;
  model: string;
  /** Asked one after another while it cannot answer. */
  fallbacks: readonly string[];
  /** Others that its sessions may take; one that ends with `*` stands for all that begin so. */
  models: readonly string[];
  /** As its model calls them; `SERVER__*` stands for what an MCP server offers. Empty where they cannot be had. */
  tools: readonly string[];
  /** Tools of its MCP servers that it is not offered, as this process saw them last. */
  leftOutTools: readonly Readonly<{ server: string; tool: string; reason: string }>[];
  /** Why no session can be created of it now; empty: one can. */
  problems: readonly string[];
}>;

export type AgentLimits = Readonly<{
  maxSteps?: number | undefined;
  maxTokens?: number | undefined;
  maxCostUsd?: number | undefined;
  deadlineMs?: number | undefined;
  finalAnswer?: boolean | undefined;
}>;

/**
 * What is different from the agent in this session: another model, instructions after its own, the result that
 * its runs are asked for, and those of its settings and limits that are named. Tools and approvals are the
 * agent’s.
 */
export type AgentOverrides = Readonly<{
  model?: string | undefined;
  instructions?: string | undefined;
  settings?: ModelSettings | undefined;
  output?: OutputFormat | undefined;
  limits?: AgentLimits | undefined;
}>;

export type AllErrorGroups = Readonly<{
  since: string;
  complete: boolean;
  groups: readonly Readonly<{
    /** The same for the same cause at any time. */
    fingerprint: string;
    code: RunErrorCode;
    provider: string | null;
    /** Of the last answer of the run; null: it had none. */
    model: string | null;
    agent: string;
    count: number;
    firstAt: string;
    lastAt: string;
    /** In UTC; those with failures. */
    hours: readonly Readonly<{ hour: string; count: number }>[];
    tenants: number;
    newest: readonly Readonly<{ runId: string; sessionId: string; at: string; tenant: string }>[];
  }>[];
}>;

export type AnsweredToolCall = Readonly<{
  runId: string;
  toolCallId: string;
  kind: 'approval' | 'output' | 'unknown_outcome';
  /** Of the run after this answer. */
  status: 'requires_action' | 'running';
  /** Calls that the run still waited for after this answer. */
  open: number;
}>;

export type ApiKey = Readonly<{
  id: string;
  name: string;
  /** The first characters of the key. */
  shown: string;
  scopes: readonly ('read' | 'write' | 'admin' | 'operator')[];
  createdAt: string;
  /** Exact to the minute. */
  lastUsedAt: string | null;
  /** Null: never. */
  expiresAt: string | null;
  revokedAt: string | null;
}>;

export type AuditEntry = Readonly<{
  seq: number;
  action:
    | 'admin:request'
    | 'console:login'
    | 'key:create'
    | 'key:revoke'
    | 'message:change'
    | 'message:limits'
    | 'message:remove'
    | 'message:webhook'
    | 'queue:clear'
    | 'run:cancel'
    | 'schedule:create'
    | 'schedule:delete'
    | 'schedule:pause'
    | 'schedule:resume'
    | 'schedule:run'
    | 'schedule:update'
    | 'session:agent'
    | 'session:cancel'
    | 'session:compact'
    | 'session:delete'
    | 'session:fork'
    | 'session:prune'
    | 'session:repin'
    | 'session:resume'
    | 'session:revert'
    | 'session:token'
    | 'session:unrevert'
    | 'session:update'
    | 'tool-call:answer'
    | 'webhook:create'
    | 'webhook:delete'
    | 'webhook:disable'
    | 'webhook:redeliver'
    | 'webhook:test'
    | 'webhook:update';
  /** The path of the request, or the id of what was changed. */
  target: string;
  /** Null: on the command line, or before there were keys. */
  keyId: string | null;
  createdAt: string;
}>;

export type Caller = Readonly<{
  tenant: string;
  /** Null: the service needs no key yet. */
  keyId: string | null;
  scopes: readonly ('read' | 'write' | 'admin' | 'operator')[];
  /** There is a page of the queues at /admin/queues. */
  board: boolean;
  /** Of the page of a trace, with `{traceId}` in it; null: none is configured. */
  traceUrl: string | null;
}>;

export type CancelledSession = Readonly<{
  sessionId: string;
  runId: string | null;
  /** Of the run; `idle` when none was active. */
  status:
    | 'queued'
    | 'running'
    | 'requires_action'
    | 'cancelling'
    | 'completed'
    | 'failed'
    | 'cancelled'
    | 'incomplete'
    | 'idle';
}>;

export type CompactionRow = Readonly<{
  kind: 'compaction';
  round: number;
  strategy: string;
  reason: string;
  state: string;
  tokensBefore: number;
  tokensAfter: number | null;
  /** US dollars; null where the price of a call in it is not known. */
  costUsd: number | null;
  error: RunError | null;
  startedAt: string;
  finishedAt: string | null;
}>;

export type ContextMeter = Readonly<{
  model: string;
  /** Tokens of input and output together. */
  window: number;
  /** No source names the window of this model, and no call has shown it yet. */
  guessed: boolean;
  /** Tokens that a request may hold. */
  usable: number;
  /** Tokens of the next request, as everything that acts on the context sees it. */
  used: number;
  /** `used / usable`. */
  share: number;
  /**
   * False: the session has so many messages that only the newest 2000 were measured. Without an `anchor` more
   * tokens are used then.
   */
  complete: boolean;
  byKind: Readonly<{
    instructions: number;
    tools: number;
    user: number;
    assistant: number;
    reasoning: number;
    toolCalls: number;
    toolResults: number;
    files: number;
    summary: number;
  }>;
  thresholds: Readonly<Record<string, number>>;
  /** The call whose bill `used` rests on; null where it is an estimate only. */
  anchor: Readonly<{ messageSeq: number; inputTokens: number; outputTokens: number }> | null;
  strategy: string;
  compactingSince: string | null;
  compactions: readonly Readonly<{
    round: number;
    strategy: string;
    reason: string;
    state: string;
    tokensBefore: number;
    tokensAfter: number | null;
    /** The first message that it was about. */
    fromSeq: number;
    /** The last one. */
    uptoSeq: number;
    /** Of the message that stands for them. */
    summaryMessageId: string | null;
    usage: Usage | null;
    attempts: number;
    /** US dollars; null where the price of a call in it is not known. */
    costUsd: number | null;
    error: RunError | null;
    startedAt: string;
    finishedAt: string | null;
  }>[];
}>;

export type ErrorGroups = Readonly<{
  since: string;
  complete: boolean;
  groups: readonly Readonly<{
    /** The same for the same cause at any time. */
    fingerprint: string;
    code: RunErrorCode;
    provider: string | null;
    /** Of the last answer of the run; null: it had none. */
    model: string | null;
    agent: string;
    count: number;
    firstAt: string;
    lastAt: string;
    /** In UTC; those with failures. */
    hours: readonly Readonly<{ hour: string; count: number }>[];
    /** The message without numbers, ids, addresses and quoted texts. */
    text: string;
    newest: readonly Readonly<{ runId: string; sessionId: string; at: string; message: string }>[];
  }>[];
}>;

export type Fleet = Readonly<{
  workers: readonly Readonly<{
    /** Its host, its process and what makes it unique. */
    id: string;
    kinds: readonly ('step' | 'compaction' | 'prune' | 'delivery')[];
    /** Its version of the job protocol. */
    engine: number;
    /** It holds its lock. One that does not is about to be retired. */
    isAlive: boolean;
    /** It holds its lock since then. */
    since: string;
    /** Its last sign of life. */
    seenAt: string;
    /** Runs that it has claimed. */
    inHand: number;
    runs: readonly Readonly<{
      runId: string;
      sessionId: string;
      tenant: string;
      kind: 'step' | 'compaction' | 'prune' | null;
      step: number;
      status: RunStatus;
      leaseExpiresAt: string | null;
    }>[];
  }>[];
  queues: readonly Readonly<{
    kind: 'step' | 'compaction' | 'prune' | 'delivery';
    /** Jobs in the queue by their state; null: it cannot be reached. */
    waiting: number | null;
    delayed: number | null;
    active: number | null;
    failed: number | null;
    /** Work that no worker has claimed, as Postgres knows it. */
    due: number;
    oldestDueAt: string | null;
  }>[];
}>;

export type ListedSession = Session &
  Readonly<{
    /** The name that a client of a chat protocol gave it. */
    externalKey: string | null;
    overview: Readonly<{
      /** At most 200 characters; an empty text was too large for a list. */
      lastWords: Readonly<{ role: 'user' | 'assistant'; text: string; at: string }> | null;
      lastRun: Readonly<{
        id: string;
        kind: 'task' | 'maintenance';
        status: RunStatus;
        reason: string | null;
        errorCode: RunErrorCode | null;
        steps: number;
        maxSteps: number | null;
        createdAt: string;
        startedAt: string | null;
        finishedAt: string | null;
      }> | null;
      waitsFor: Wait | null;
      /** After the last step, prune or compaction. */
      context: Readonly<{ usedTokens: number; usableTokens: number; share: number }> | null;
      /** Queued messages, of which at most 1000 are counted. */
      queued: number;
    }>;
  }>;

export type Maintenance = Readonly<{
  sessionId: string;
  runId: string;
  /** A run is at work: it is done before its next step. */
  queued: boolean;
}>;

export type Message = Readonly<{
  id: string;
  /** Its place in the transcript. */
  seq: number;
  role: 'user' | 'assistant';
  runId: string | null;
  step: number | null;
  model: string | null;
  /** Null while the message is written. */
  finishReason: string | null;
  usage: Usage | null;
  /** Why it is not whole. */
  error: RunError | null;
  isSummary: boolean;
  /** The messages that a summary stands for, and the round of compaction that wrote it. */
  summaryOf: Readonly<{ round: number; fromSeq: number; uptoSeq: number }> | null;
  parts: readonly Part[];
  createdAt: string;
}>;

export type ModelSettings = Readonly<{
  temperature?: number | undefined;
  topP?: number | undefined;
  topK?: number | undefined;
  seed?: number | undefined;
  stopSequences?: readonly string[] | undefined;
  maxOutputTokens?: number | undefined;
  reasoning?: 'none' | 'minimal' | 'low' | 'medium' | 'high' | 'xhigh' | 'max' | undefined;
}>;

export type NewSchedule = Readonly<{
  agent: string;
  /** Five fields: minute, hour, day, month, weekday. */
  cron: string;
  /** By IANA; UTC by default. */
  timezone?: string | undefined;
  content: string;
  /** Of the sessions that it begins. */
  title?: string | null | undefined;
  /** A `new` one for each fire (default), or the `same`. */
  session?: 'new' | 'same' | undefined;
  /**
   * A fire that is due while the last run is active: `skip` leaves it out, `queue` has it wait, `replace` cancels
   * that run. Default: `skip`.
   */
  overlap?: 'skip' | 'queue' | 'replace' | undefined;
  /** Fires that were due while no worker ran: `none` is made up for, or the `last` one. Default: `none`. */
  catchup?: 'none' | 'last' | undefined;
  /** Each fire is later by up to this; 0 by default. */
  jitterMs?: number | undefined;
}>;

export type NewSession = Readonly<{
  agent: string;
  /** Your own name for the session. If there is one with it, that is the answer, as it is. */
  key?: string | undefined;
  title?: string | null | undefined;
  /** At most 16 keys of at most 64 characters. */
  metadata?: Readonly<Record<string, string>> | undefined;
  expiresAt?: string | null | undefined;
  overrides?: AgentOverrides | undefined;
}>;

export type NewWebhook = Readonly<{
  url: string;
  /**
   * Signs what is sent, by Standard Webhooks: `whsec_` and Base64, or visible ASCII, of 24 to 64 bytes. It is
   * never shown.
   */
  secret: string;
  /** All by default. */
  events?: readonly WebhookEvent[] | undefined;
  /** Only runs of its sessions. */
  agent?: string | null | undefined;
}>;

export type OperatorRun = Readonly<{
  id: string;
  sessionId: string;
  tenant: string;
  agent: string;
  kind: 'task' | 'maintenance';
  status: RunStatus;
  reason: string | null;
  errorCode: RunErrorCode | null;
  steps: number;
  usage: Usage;
  /** US dollars; null where the price of a call in it is not known. */
  costUsd: number | null;
  createdAt: string;
  startedAt: string | null;
  finishedAt: string | null;
  /** Null also while calls wait for a person: those are content. */
  waitsFor: Wait | null;
}>;

export type OutputFormat = Readonly<{
  /** A JSON Schema of an object, whose root may refer to a definition: at most 32768 bytes and 32 levels. */
  schema: Readonly<Record<string, unknown>>;
  /**
   * `native`: the provider makes every answer fit. `tool`: the model calls a tool with the result. `last`: a step
   * more without tools. `auto` (default): the first of them that the provider can do.
   */
  mode?: 'auto' | 'native' | 'tool' | 'last' | undefined;
  /** The name of the schema, as the provider is told it. */
  name?: string | undefined;
}>;

export type PruneRow = Readonly<{
  kind: 'prune';
  prunedCount: number;
  savedTokens: number;
  prunedTools: readonly string[];
  at: string;
}>;

export type QueuePage = Readonly<{ messages: readonly WaitingMessage[]; nextCursor: string | null }>;

export type Readiness = Readonly<{
  ready: boolean;
  checks: Readonly<Record<string, Readonly<{ ok: boolean; message?: string }>>>;
  /** Kinds of jobs that no worker takes at the moment: what is accepted waits. Told by the API alone. */
  unattended?: readonly ('step' | 'compaction' | 'prune' | 'delivery')[];
}>;

/** A file that cannot be used. While there is one, all agents stay as they were before. */
export type RejectedAgentFile = Readonly<{
  file: string;
  keys: readonly string[];
  /** May quote the file: null for a key without the scopes `admin` and `operator`. */
  problem: string | null;
}>;

export type RepinnedTools = Readonly<{
  sessionId: string;
  /** Of each server that offers other tools than the session knew, by their own names. */
  changes: readonly Readonly<{
    server: string;
    added: readonly string[];
    changed: readonly string[];
    removed: readonly string[];
  }>[];
}>;

/**
 * `approval`: approve or deny. `output`: run it and give the output. `unknown_outcome`: it is not known whether
 * the call took effect; approve runs it again, deny tells the model, an output is taken as its result.
 */
export type RequiredAction = Readonly<{
  id: string;
  kind: 'approval' | 'output' | 'unknown_outcome';
  messageId: string;
  toolName: string;
  args: Json;
  child?: Readonly<{ sessionId: string; runId: string; agent: string }>;
}>;

export type ResumedSession = Readonly<{ runId: string; status: RunStatus }>;

export type RevertedSession = Readonly<{
  sessionId: string;
  /** The last message that stayed. */
  messageId: string;
  /** How many left the transcript, or came back, after it. */
  messages: number;
}>;

export type Run = Readonly<{
  id: string;
  sessionId: string;
  kind: 'task' | 'maintenance';
  status: RunStatus;
  /** Why the run ended `incomplete`. */
  reason: string | null;
  /** Model steps that were completed. */
  steps: number;
  maxSteps: number | null;
  maxTokens: number | null;
  maxCostUsd: number | null;
  deadlineAt: string | null;
  /** What the run waits for: it goes on when each of these calls is answered. */
  requiredActions: readonly RequiredAction[];
  /** Until then they can be answered; null: for ever. */
  approvalExpiresAt: string | null;
  error: RunError | null;
  /** Null until the run has ended, and where it has no whole answer. Lists leave it out. */
  output?: RunOutput | null;
  /** The result that it is asked for; null: none. Lists leave it out. */
  outputFormat?: OutputFormat | null;
  parent: RunParent | null;
  /** Calls of it that gave a task to another agent. */
  childCount: number;
  /** The last 100 of these, in their order. Lists leave it out. */
  children?: readonly RunChild[];
  usage: Usage;
  /** US dollars; null where the price of a call in it is not known. */
  costUsd: number | null;
  createdAt: string;
  startedAt: string | null;
  finishedAt: string | null;
  cancelRequestedAt: string | null;
  /** Of the trace that has its spans; null: spans are off. */
  traceId: string | null;
}>;

export type RunChild = Readonly<{
  /** The call of this run that began it, or went on with it. */
  callId: string;
  agent: string;
  mode: 'wait' | 'background';
  /**
   * `waiting`: not begun yet. `requires_action`: a call of it waits for a person or a client. `refused`: it was
   * not begun, and its call says why.
   */
  status: 'waiting' | 'running' | 'requires_action' | 'completed' | 'incomplete' | 'failed' | 'cancelled' | 'refused';
  /** Null: it is not begun, or is deleted. */
  sessionId: string | null;
  runId: string | null;
  /** With those of its own children. Null: it has not ended. */
  steps: number | null;
  tokens: number | null;
  /** US dollars; null where the price of a call in it is not known. */
  costUsd: number | null;
  createdAt: string;
  endedAt: string | null;
}>;

export type RunError = Readonly<{
  code: RunErrorCode;
  message: string;
  /** What the model provider said, without the prompt and credentials. */
  provider?: Readonly<{
    status?: number;
    code?: string;
    message?: string;
    requestId?: string;
    host?: string;
    errno?: string;
  }>;
}>;

export type RunLimits = Readonly<{
  maxSteps?: number | undefined;
  maxTokens?: number | undefined;
  maxCostUsd?: number | undefined;
  deadlineMs?: number | undefined;
}>;

/**
 * The text of its last whole answer, and the files that the model made in it. `value`: the result, if it was
 * asked for one that fits a schema.
 */
export type RunOutput = Readonly<{
  messageId: string;
  text: string;
  files: readonly Readonly<{ mediaType: string; filename?: string; url: string; sizeBytes?: number }>[];
  value?: Json;
}>;

/** The call of another session that began the run, and the step of that call. */
export type RunParent = Readonly<{ sessionId: string; runId: string; step: number; callId: string }>;

export type Schedule = Readonly<{
  id: string;
  agent: string;
  cron: string;
  timezone: string;
  content: string;
  title: string | null;
  session: 'new' | 'same';
  overlap: 'skip' | 'queue' | 'replace';
  catchup: 'none' | 'last';
  jitterMs: number;
  paused: boolean;
  pausedReason: string | null;
  /** Without jitter; null: it is paused, or never fires again. */
  nextFireAt: string | null;
  /** With `session: same`, after the first fire. */
  sessionId: string | null;
  lastRunId: string | null;
  createdAt: string;
  updatedAt: string;
}>;

export type ScheduleFire = Readonly<{
  fireAt: string;
  result: 'fired' | 'skipped' | 'missed' | 'failed';
  sessionId: string | null;
  runId: string | null;
  /** Why it failed. */
  error: RunError | null;
  /** When it was done. */
  createdAt: string;
}>;

export type SentMessage = Readonly<{
  messageId: string;
  /** Takes it up; one that waits for its turn can be waited for already. */
  runId: string;
  /** A run is at work that the message waits for: one that only tidies the session up, too. */
  queued: boolean;
  /** Among those that wait, from 1; 0 when it does not wait. */
  position: number;
  /** Of the run. */
  status: RunStatus;
}>;

export type Session = Readonly<{
  id: string;
  /** In a path, `key:` and the key stand for the id. Chats have the keys `ui:` and `openai:` with their own names. */
  key: string | null;
  /** The session of which a call began this one. */
  parentSessionId: string | null;
  /** The session at the top of its tree; null: itself. */
  rootSessionId: string | null;
  /** Levels below that session. */
  depth: number;
  /**
   * Of a fork: the session that it was made of, and the last message that was copied, by its id there. The other
   * session may be deleted.
   */
  forkedFrom: Readonly<{ sessionId: string; messageId: string | null }> | null;
  agent: string;
  /** Of the definition that the session has, its overrides included. */
  agentVersion: string;
  overrides: AgentOverrides;
  title: string | null;
  metadata: Readonly<Record<string, string>>;
  status: SessionStatus;
  activeRunId: string | null;
  /** Messages are accepted as always meanwhile. */
  compactingSince: string | null;
  /** Compactions that were completed. */
  compactionCount: number;
  lastCompactionAt: string | null;
  usage: Usage;
  /** US dollars; null where the price of a call in it is not known. */
  costUsd: number | null;
  /** From then on it is deleted, within about an hour, however young it is. */
  expiresAt: string | null;
  createdAt: string;
  updatedAt: string;
}>;

/** The data of `session:snapshot`, the first event of a stream. */
export type SessionSnapshot = Readonly<{
  sessionId: string;
  status: SessionStatus;
  activeRunId: string | null;
  seq: number;
  queueLength: number;
  queue: readonly Readonly<{
    id: string;
    position: number;
    delivery: 'steer' | 'followup' | 'interrupt';
    content?: readonly Json[];
    contentRef?: Readonly<{ sizeBytes: number; href: string }>;
    enqueuedAt: string;
  }>[];
  inFlight: Readonly<{
    messageId: string;
    runId: string;
    step: number;
    epoch: number;
    chunks: readonly Readonly<{ chunkType: 'text' | 'reasoning'; content: string; offset: number }>[];
  }> | null;
  reset: boolean;
  usage: Readonly<{
    inputTokens: number;
    outputTokens: number;
    reasoningTokens: number;
    cacheReadTokens: number;
    cacheWriteTokens: number;
    totalTokens: number;
  }>;
  compactingSince: string | null;
  context: Readonly<{ used: number; usable: number }> | null;
}>;

export type StepPage = Readonly<{
  runId: string;
  sessionId: string;
  rows: readonly (StepRow | CompactionRow | PruneRow)[];
  /** Pass it as `after`; null at the end. */
  next: number | null;
}>;

export type StepRequest = Readonly<{
  runId: string;
  sessionId: string;
  step: number;
  attempt: number;
  /** Of the answer. */
  messageId: string;
  agent: string;
  model: string;
  /**
   * Whether these are, to the byte, the instructions and messages of which the worker kept the hash. False: the
   * configuration of the model has changed since. Null: it kept none, because no answer came.
   */
  verified: boolean | null;
  /** The same of the tools. */
  toolsVerified: boolean | null;
  sha256: string | null;
  /** Of the whole request. Estimated. */
  tokens: number;
  byKind: Readonly<{
    instructions: number;
    tools: number;
    user: number;
    assistant: number;
    reasoning: number;
    toolCalls: number;
    toolResults: number;
    files: number;
    summary: number;
  }>;
  tools: readonly Readonly<{ name: string; description: string; inputSchema: Json }>[];
  messages: readonly Readonly<{
    /** Its place in the request, from 1. */
    no: number;
    role: 'system' | 'user' | 'assistant' | 'tool';
    /** The messages of the transcript that it is made of. */
    seqs: readonly number[];
    /** Estimated. */
    tokens: number;
    /** Of `content` as JSON. */
    bytes: number;
    content: readonly Readonly<{ type: string; [field: string]: unknown }>[];
    hidden: readonly Readonly<{
      /** A prune cleared it, its middle was left out, or its images and files were. */
      kind: 'pruned' | 'cut' | 'media';
      /** Null: a file of the user. */
      callId: string | null;
      toolName: string | null;
      messageId: string;
      seq: number;
      /** Before that. */
      tokens: number | null;
      /** Where it is read as it was. */
      href: string;
    }>[];
  }>[];
  /** Pass it as `after`; null at the end. */
  next: number | null;
}>;

export type StepRow = Readonly<{
  kind: 'step';
  step: number;
  attempt: number;
  messageId: string;
  /** Of its message. */
  seq: number;
  /** `waiting`: for answers to calls. `retried`, `superseded`: another row has the next attempt. */
  state: 'running' | 'waiting' | 'completed' | 'retried' | 'superseded' | 'cancelled' | 'failed';
  queuedAt: string | null;
  /** When a worker had claimed it. */
  startedAt: string;
  finishedAt: string | null;
  waitedMs: number | null;
  claimMs: number | null;
  /** Until the request was ready. */
  viewMs: number | null;
  /** From the request to the first sign of an answer. */
  firstTokenMs: number | null;
  /** From there to its end. */
  streamMs: number | null;
  /** From the last outcome to the end of the step. */
  commitMs: number | null;
  /** The one that began it, and one that recovered it. */
  workers: readonly string[];
  model: string | null;
  finishReason: FinishReason | null;
  usage: Usage | null;
  /** US dollars; null where the price of a call in it is not known. */
  costUsd: number | null;
  /** The request as it was measured before it was sent. */
  context: Readonly<{ usedTokens: number; usableTokens: number }> | null;
  /** Of the input tokens. */
  cachedShare: number | null;
  /** Why the provider read less than half from its cache of what that had of the step before. */
  cacheBreak: 'compaction' | 'prune' | 'agent' | 'tools' | 'unexplained' | null;
  tools: readonly Readonly<{
    id: string;
    toolName: string;
    state:
      | 'pending'
      | 'awaiting_approval'
      | 'awaiting_output'
      | 'running'
      | 'completed'
      | 'error'
      | 'denied'
      | 'unknown';
    startedAt: string | null;
    finishedAt: string | null;
    truncated: boolean;
  }>[];
  error: RunError | null;
  nextAttemptAt: string | null;
}>;

export type StoredBlob = Readonly<{
  id: string;
  /** As its first bytes say, or as it was named. */
  mediaType: string;
  sizeBytes: number;
  createdAt: string;
}>;

/** Tokens as the provider billed them. */
export type Usage = Readonly<{
  inputTokens: number;
  outputTokens: number;
  reasoningTokens: number;
  cacheReadTokens: number;
  cacheWriteTokens: number;
  totalTokens: number;
}>;

export type UsageReport = Readonly<{
  /** Later than asked for, where the window has too many runs. */
  since: string;
  until: string;
  by: readonly UsageDimension[];
  complete: boolean;
  rows: readonly Readonly<{
    /** In UTC, of the creation of the runs. */
    day?: string;
    agent?: string;
    /** Null: these runs had no answer. */
    model?: string | null;
    tenant?: string;
    runs: number;
    failedRuns: number;
    steps: number;
    usage: Usage;
    /** US dollars; null where the price of a call in it is not known. */
    costUsd: number | null;
  }>[];
}>;

export type ViewPage = Readonly<{
  model: string;
  /** Changes with a compaction or a prune: pages of two versions are not of one view. */
  version: number;
  /** Of the whole request, as in `/context`. */
  tokens: number;
  byKind: Readonly<{
    instructions: number;
    tools: number;
    user: number;
    assistant: number;
    reasoning: number;
    toolCalls: number;
    toolResults: number;
    files: number;
    summary: number;
  }>;
  /** That the request offers. */
  tools: readonly string[];
  messages: readonly Readonly<{
    /** Its place in the request, from 1. */
    no: number;
    role: 'system' | 'user' | 'assistant' | 'tool';
    /** The messages of the transcript that it is made of. */
    seqs: readonly number[];
    /** Estimated. Files of results count with the results. */
    tokens: number;
    /** Of `content` as JSON. */
    bytes: number;
    /** Its parts as the model reads them; a file by its `url`, in place of its bytes. */
    content: readonly Readonly<{ type: string; [field: string]: unknown }>[];
  }>[];
  /** Pass it as `after`; null at the end. */
  next: number | null;
}>;

/** Why an active run does not work on a step. */
export type Wait = Readonly<{
  /**
   * A call requires an action (`approval`, `output`, `unknown_outcome`); no worker has taken the work (`worker`);
   * all slots of the tenant are taken (`slot`); the provider gets a pause (`retry`); the context is changed first
   * (`compaction`, `prune`).
   */
  kind: 'approval' | 'output' | 'unknown_outcome' | 'child' | 'worker' | 'slot' | 'retry' | 'compaction' | 'prune';
  since: string | null;
  until: string | null;
  /** Of the calls that require an action. */
  toolNames: readonly string[];
  /** Of these calls. */
  count: number;
}>;

export type WaitingCall = Readonly<{
  id: string;
  kind: 'approval' | 'output' | 'unknown_outcome';
  toolName: string;
  args: Json;
  messageId: string;
  runId: string;
  sessionId: string;
  agent: string;
  /** Of the session. */
  title: string | null;
  step: number;
  askedAt: string;
  /** Until then it can be answered; null: for ever. */
  expiresAt: string | null;
  /**
   * The last message of the user that the session has taken up: at most 500 characters. An empty text has no
   * words, or was too large for a list.
   */
  userWords: Readonly<{ text: string; at: string }> | null;
}>;

export type WaitingMessage = Readonly<{
  id: string;
  position: number;
  delivery: 'steer' | 'followup' | 'interrupt';
  content: readonly Json[];
  enqueuedAt: string;
}>;

export type Webhook = Readonly<{
  id: string;
  url: string;
  events: readonly WebhookEvent[];
  /** Only runs of its sessions; null: of all. */
  agent: string | null;
  enabled: boolean;
  /** `gone`: its receiver answered 410. `failing`: every attempt of three days failed. */
  disabledFor: 'request' | 'gone' | 'failing' | null;
  /** The first failure since the last success. */
  failingSince: string | null;
  createdAt: string;
  updatedAt: string;
}>;

export type WebhookDelivery = Readonly<{
  /** The `webhook-id` of its requests: the same for every attempt. */
  id: string;
  /** Null: the webhook of a message. */
  webhookId: string | null;
  /** Of the webhook of a message. */
  url: string | null;
  type: string;
  sessionId: string | null;
  runId: string | null;
  state: 'waiting' | 'sending' | 'delivered' | 'failed';
  attempts: number;
  nextAttemptAt: string | null;
  /** Of the response to the last attempt; null: there was none. */
  status: number | null;
  error: string | null;
  tookMs: number | null;
  createdAt: string;
  finishedAt: string | null;
}>;

/** The data of the durable events of a session, by their names. */
export type EventData = Readonly<{
  /** A message or a resume has created a run. */ 'run:queued': Readonly<{ runId: string }>;
  /** A worker has claimed the run for the first time. */
  'run:started': Readonly<{ runId: string }>;
  /** Calls of the run wait for a person or a client. */
  'run:requires-action': Readonly<{ runId: string; calls: readonly RequiredAction[] }>;
  /**
   * A waiting call has got its answer. `open`: calls that the run still waits for. `args`: the call runs with
   * these in place of those that the model gave.
   */
  'run:answered': Readonly<{
    runId: string;
    id: string;
    answer: 'approve' | 'deny' | 'output' | 'expired';
    args?: Json;
    open: number;
  }>;
  /** A call has begun or continued a session of another agent. `id`: the call. */
  'child:started': Readonly<{
    runId: string;
    id: string;
    toolName: string;
    agent: string;
    sessionId: string;
    childRunId: string;
    mode: 'wait' | 'background';
  }>;
  /**
   * Calls of a session below this one wait for a person or a client. Only the root of the tree has this event.
   * `open`: waiting calls of the whole tree.
   */
  'child:requires-action': Readonly<{
    runId: string | null;
    sessionId: string;
    childRunId: string;
    calls: readonly RequiredAction[];
    open: number;
  }>;
  /**
   * The run of a child has ended. `refused`: the child was not begun. Steps, tokens and cost include those of its
   * own children.
   */
  'child:ended': Readonly<{
    runId: string;
    id: string;
    toolName: string;
    agent: string;
    sessionId: string;
    childRunId: string;
    status: 'completed' | 'incomplete' | 'failed' | 'cancelled' | 'refused';
    error?: RunError;
    steps: number;
    tokens: number;
    costUsd: number | null;
  }>;
  /** A cancel of the run was accepted. A worker stops it. */
  'run:cancelling': Readonly<{ runId: string }>;
  /** The run has ended with an answer. `output`: left out where the run ends without a new answer. */
  'run:completed': Readonly<{
    runId: string;
    finishReason: FinishReason;
    lateCancel?: boolean;
    output?: Readonly<{
      messageId: string;
      text?: string;
      files?: readonly Readonly<{ mediaType: string; filename?: string; url: string; sizeBytes?: number }>[];
      value?: Json;
      contentRef?: Readonly<{ sizeBytes: number; href: string }>;
    }>;
  }>;
  /** The run has ended with an error. */
  'run:failed': Readonly<{ runId: string; error: RunError }>;
  /** The run has ended by a cancel. `stillRan`: tools that were running then. */
  'run:cancelled': Readonly<{ runId: string; stillRan: readonly string[] }>;
  /** The run was ended by a limit, or by an answer that does not fit its schema. */
  'run:incomplete': Readonly<{
    runId: string;
    reason: IncompleteReason;
    error?: RunError;
    output?: Readonly<{
      messageId: string;
      text?: string;
      files?: readonly Readonly<{ mediaType: string; filename?: string; url: string; sizeBytes?: number }>[];
      value?: Json;
      contentRef?: Readonly<{ sizeBytes: number; href: string }>;
    }>;
  }>;
  /**
   * A worker asks the model. `finalAnswerFor`: the limit for which this step is the final answer. `waitedMs`: from
   * the time when the work was due to its claim.
   */
  'step:started': Readonly<{
    runId: string;
    step: number;
    attempt: number;
    messageId: string;
    finalAnswerFor?: LimitReason;
    workerId?: string;
    waitedMs?: number;
  }>;
  /** The model call has failed and is repeated at `nextAttemptAt`. */
  'step:retrying': Readonly<{ runId: string; step: number; attempt: number; error: RunError; nextAttemptAt: string }>;
  /** The streamed text of the message is void. */
  'step:reset': Readonly<{ runId: string; step: number; messageId: string }>;
  /**
   * The answer of the step and the results of its calls are stored. `waitedMs` and `firstTokenMs`: left out by a
   * worker that has recovered the step.
   */
  'step:completed': Readonly<{
    runId: string;
    step: number;
    attempt: number;
    messageId: string;
    finishReason: FinishReason;
    toolCalls: number;
    usage: Usage;
    workerId?: string;
    waitedMs?: number;
    firstTokenMs?: number | null;
  }>;
  /** The model has called a tool. `id` is unique, `callId` comes from the provider and may repeat. */
  'llm:tool-call': Readonly<{ id: string; messageId: string; toolName: string; args: Json; callId: string }>;
  /**
   * A call has ended. `sanitized`: the output as text, with files by name. `truncated`: the middle of it is left
   * out, and the transcript has the whole.
   */
  'llm:tool-result': Readonly<{
    id: string;
    messageId: string;
    toolName: string;
    callId: string;
    success: boolean;
    sanitized: string;
    truncated?: true;
  }>;
  /**
   * The model's whole answer in a step. `timing`: the phases of the step one after another. `costUsd`: null where
   * the price of the model is unknown.
   */
  'llm:response': Readonly<{
    messageId: string;
    content: string;
    reasoning?: string;
    provider: string;
    model: string;
    finishReason: FinishReason;
    tokenUsage: Usage;
    costUsd?: number | null;
    workerId?: string;
    timing?: Readonly<{
      waitedMs: number;
      claimMs: number;
      viewMs: number;
      firstTokenMs: number | null;
      streamMs: number;
    }>;
    context?: Readonly<{ usedTokens: number; usableTokens: number }>;
  }>;
  /** The model has made a file. The event comes with the whole answer. */
  'llm:file': Readonly<{ mediaType: string; filename?: string; url: string; sizeBytes?: number; messageId: string }>;
  /** The answer has a source. The event comes with the whole answer. */
  'llm:source': Readonly<{
    sourceId: string;
    url?: string;
    title?: string;
    mediaType?: string;
    filename?: string;
    messageId: string;
  }>;
  /** A model call has failed. `recoverable`: it is repeated. */
  'llm:error': Readonly<{ error: RunError; recoverable: boolean }>;
  /** The provider has refused the form of the request. The step is repeated with these changes. */
  'llm:adapted': Readonly<{
    runId: string;
    step: number;
    model: string;
    changes: readonly Readonly<{ kind: string; detail: string }>[];
    text: string;
  }>;
  /**
   * The session goes on with another model. `agent`: the new agent, if that has changed. `reason`: why the run
   * takes the next model of its agent.
   */
  'llm:switched': Readonly<{ from: string; to: string; agent?: string; reason?: SwitchReason }>;
  /** The model does not take files of these media types. It reads their names. */
  'llm:unsupported-input': Readonly<{ model: string; mediaTypes: readonly string[] }>;
  /** A tool's definition on its MCP server differs from the session's. The event is sent once for each change. */
  'tools:drifted': Readonly<{ server: string; tool: string; change: 'changed' | 'gone' }>;
  /** The session has taken the definitions that a server's tools have now. */
  'tools:pinned': Readonly<{
    server: string;
    added: readonly string[];
    changed: readonly string[];
    removed: readonly string[];
  }>;
  /** The session was made as a fork. The event is its first. */
  'session:forked': Readonly<{ forkedFrom: Readonly<{ sessionId: string; messageId: string | null }> }>;
  /** The messages after `seq`, up to `uptoSeq`, have left the transcript. */
  'session:reverted': Readonly<{ messageId: string; seq: number; uptoSeq: number; messages: number }>;
  /** The messages after `seq`, up to `uptoSeq`, have come back. */
  'session:unreverted': Readonly<{ messageId: string; seq: number; uptoSeq: number; messages: number }>;
  /** A message waits for the active run. `position`: its place in the queue, from 1. */
  'message:queued': Readonly<{ position: number; id: string }>;
  /** A run has taken up queued messages. `coalesced`: they became one message. */
  'message:dequeued': Readonly<{ count: number; ids: readonly string[]; coalesced: boolean }>;
  /** A queued message was changed. */
  'message:changed': Readonly<{ id: string; delivery: 'steer' | 'followup' | 'interrupt' }>;
  /** Queued messages were removed. */
  'message:removed': Readonly<{ ids: readonly string[] }>;
  /**
   * A message has entered the transcript. `parts`: left out where they are large, and `contentRef` says where to
   * read them. `isSummary`: the message replaces older ones in the view.
   */
  'message:created': Readonly<{
    messageId: string;
    seq: number;
    role: 'user' | 'assistant';
    isSummary?: true;
    parts?: readonly (
      | Readonly<{
          type: 'text';
          text: string;
          queuedNo?: number;
          providerMetadata?: Readonly<Record<string, Readonly<Record<string, Json>>>>;
        }>
      | Readonly<{
          type: 'file';
          mediaType: string;
          filename?: string;
          url: string;
          sizeBytes?: number;
          queuedNo?: number;
          providerMetadata?: Readonly<Record<string, Readonly<Record<string, Json>>>>;
        }>
      | Readonly<{ type: 'compaction'; text: string }>
    )[];
    contentRef?: Readonly<{ sizeBytes: number; href: string }>;
  }>;
  /** A summary has replaced older messages in what the model is shown. */
  'context:compressed': Readonly<{
    originalTokens: number;
    compressedTokens: number;
    originalMessages: number;
    compressedMessages: number;
    strategy: string;
    reason: string;
  }>;
  /** Old outputs of tools were replaced by placeholders in what the model is shown. */
  'context:pruned': Readonly<{ prunedCount: number; savedTokens: number }>;
  /** A worker summarizes older messages. New messages are accepted meanwhile. */
  'compaction:start': Readonly<{
    round: number;
    strategy: string;
    tokensBefore: number;
    modelLimit: number;
    reason: string;
  }>;
  /** The summary is stored. `fromSeq` and `uptoSeq`: the messages that it replaces. */
  'compaction:complete': Readonly<{
    round: number;
    strategy: string;
    tokensBefore: number;
    tokensAfter: number;
    messagesCompacted: number;
    fromSeq: number;
    uptoSeq: number;
    summaryMessageId: string;
    wasPruned: boolean;
    wasSummarized: boolean;
  }>;
  /** The summary could not be made. */
  'compaction:failed': Readonly<{ error: RunError; attempts: number }>;
  /** A prune has ended. */
  'prune:complete': Readonly<{ prunedCount: number; savedTokens: number; prunedTools: readonly string[] }>;
  /**
   * An answer does not fit the schema of its run. `repairs`: how often the run has asked again, this time
   * included.
   */
  'output:invalid': Readonly<{ runId: string; step: number; problem: string; repairs: number }>;
  /** The provider has billed a model call. */
  'usage:updated': Readonly<{ runId: string; usage: Usage; sessionUsage?: Usage }>;
}>;

/** The data of the previews in a stream, by their names. */
export type LiveData = Readonly<{
  /** The model was asked and has not answered yet. */
  'llm:thinking': Readonly<{ runId: string; step: number; attempt: number; messageId: string }>;
  /**
   * A piece of a call's input as the model writes it. `offset`: characters of the input before this piece. Pieces
   * may be missing, and `llm:tool-call` has the whole.
   */
  'llm:tool-input': Readonly<{
    messageId: string;
    epoch: number;
    id: string;
    callId: string;
    toolName: string;
    offset: number;
    content: string;
  }>;
  /**
   * A piece of streamed text. `offset`: characters of the message before this piece, text and reasoning together.
   * With a higher `epoch` the message begins anew.
   */
  'llm:chunk': Readonly<{
    messageId: string;
    epoch: number;
    offset: number;
    chunkType: 'text' | 'reasoning';
    content: string;
  }>;
}>;
