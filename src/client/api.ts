// The shapes of the API's answers stand in one file, because they name each other and hold no code.
import type { RunErrorCode } from './baton-error.ts';

export type Json = string | number | boolean | null | readonly Json[] | { readonly [key: string]: Json };

/** Tokens as the provider billed them. `inputTokens` includes the cached ones, `outputTokens` the reasoning. */
export type Usage = Readonly<{
  inputTokens: number;
  outputTokens: number;
  reasoningTokens: number;
  cacheReadTokens: number;
  cacheWriteTokens: number;
  totalTokens: number;
}>;

/** A model provider's report of a failed call, without prompt and credentials. Unknown fields are left out. */
export type ProviderFailure = Readonly<{
  /** Status of the HTTP response; 200 if the answer broke off. */
  status?: number;
  /** The provider's own code, else its type of error. */
  code?: string;
  message?: string;
  /** Identifies the request to the provider's support. */
  requestId?: string;
  host?: string;
  /** The reason why there was no response at all: `ECONNREFUSED`. */
  errno?: string;
}>;

/** The error of a failed run, compaction or model call. `provider`: the fields behind `message`. */
export type RunError = Readonly<{ code: RunErrorCode; message: string; provider?: ProviderFailure }>;

export type SessionStatus = 'idle' | 'busy' | 'requires_action';

/** The session that a fork was made of, and the last message that was copied, by its id in that session. */
export type ForkedFrom = Readonly<{ sessionId: string; messageId: string | null }>;

export type Session = Readonly<{
  id: string;
  /** In every method, `key:` and this key may stand for the id. */
  key: string | null;
  /**
   * The session whose call began this one, and the session at the top of the tree; null: this session is at the top.
   */
  parentSessionId: string | null;
  rootSessionId: string | null;
  depth: number;
  /** The origin of a fork; null: the session is no fork. */
  forkedFrom: ForkedFrom | null;
  agent: string;
  /** Version of the session's own definition of the agent, overrides included. */
  agentVersion: string;
  overrides: AgentOverrides;
  title: string | null;
  metadata: Readonly<Record<string, string>>;
  status: SessionStatus;
  activeRunId: string | null;
  /** Set while older messages are being summarized. Messages are still accepted. */
  compactingSince: string | null;
  /** Completed compactions. */
  compactionCount: number;
  lastCompactionAt: string | null;
  usage: Usage;
  /** US dollars; null if the price of any call is unknown. */
  costUsd: number | null;
  /** The service deletes the session within about an hour after this. */
  expiresAt: string | null;
  createdAt: string;
  updatedAt: string;
}>;

export type NewSession = Readonly<{
  agent: string;
  /**
   * Your own name for the session, at most 256 characters. If a session has it already, that one is returned unchanged.
   */
  key?: string | undefined;
  title?: string | null | undefined;
  /** At most 16 labels of at most 64 characters, each with a value of at most 512. */
  metadata?: Readonly<Record<string, string>> | undefined;
  /** ISO time after which the service deletes the session within about an hour. Default: only its age decides. */
  expiresAt?: string | null | undefined;
  overrides?: AgentOverrides | undefined;
}>;

/** Settings of the model. A field that is left out keeps the agent's value, or the provider's default. */
export type ModelSettings = Readonly<{
  temperature?: number | undefined;
  topP?: number | undefined;
  topK?: number | undefined;
  seed?: number | undefined;
  stopSequences?: readonly string[] | undefined;
  /** Limit of one answer, reasoning included. */
  maxOutputTokens?: number | undefined;
  reasoning?: 'none' | 'minimal' | 'low' | 'medium' | 'high' | 'xhigh' | 'max' | undefined;
}>;

/** Differences from the agent. Tools and approvals are always the agent's. */
export type AgentOverrides = Readonly<{
  /** `provider/model` */
  model?: string | undefined;
  /** Appended to the agent's own. */
  instructions?: string | undefined;
  settings?: ModelSettings | undefined;
  /** The result that its runs are asked for. */
  output?: OutputFormat | undefined;
  /** `finalAnswer`: before a limit ends a run, the model reports its finished and its open work. */
  limits?: RunLimits & Readonly<{ finalAnswer?: boolean | undefined }>;
}>;

/** Differences between a server's tools, by their own names, and those that the session knew. */
export type ToolChanges = Readonly<{
  server: string;
  added: readonly string[];
  changed: readonly string[];
  removed: readonly string[];
}>;

/** `token` goes to a browser, as `Authorization: Bearer`. */
export type SessionToken = Readonly<{ token: string; access: 'read' | 'write'; expiresAt: string }>;

/** `messages`: number of messages after `messageId` that left the transcript, or came back. */
export type RevertedSession = Readonly<{ sessionId: string; messageId: string; messages: number }>;

export type RepinnedTools = Readonly<{ sessionId: string; changes: readonly ToolChanges[] }>;

/**
 * The reason for which an active run does not work on a step: a call requires an action, no worker has taken the work
 * (`worker`), all slots of the tenant are taken (`slot`), the provider gets a pause (`retry`), or the context is
 * changed first.
 */
export type Wait = Readonly<{
  kind: RequiredAction['kind'] | 'child' | 'worker' | 'slot' | 'retry' | 'compaction' | 'prune';
  since: string | null;
  until: string | null;
  /** Tools of the calls that require an action. */
  toolNames: readonly string[];
  /** Number of these calls. */
  count: number;
}>;

/** A session with its state, for a list. */
export type ListedSession = Session &
  Readonly<{
    /** The name that a client of a chat protocol gave it. */
    externalKey: string | null;
    overview: Readonly<{
      /** At most 200 characters; an empty text was too large for a list. */
      lastWords: Readonly<{ role: 'user' | 'assistant'; text: string; at: string }> | null;
      lastRun: Readonly<{
        id: string;
        kind: Run['kind'];
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
      /** Fill of the context after the last step, prune or compaction. */
      context: Readonly<{ usedTokens: number; usableTokens: number; share: number }> | null;
      /** Queued messages, of which at most 1 000 are counted. */
      queued: number;
    }>;
  }>;

/** With a search a page may have few sessions, or none, and still a `nextCursor`. */
export type SessionPage = Readonly<{ sessions: readonly ListedSession[]; nextCursor: string | null }>;

export type RunStatus =
  | 'queued'
  | 'running'
  | 'requires_action'
  | 'cancelling'
  | 'completed'
  | 'failed'
  | 'cancelled'
  | 'incomplete';

/** Limits after which the agent may give a final answer. */
export type LimitReason = 'max_steps' | 'budget' | 'deadline' | 'doom_loop';

export type IncompleteReason = LimitReason | 'context_exhausted' | 'output_invalid';

/**
 * A call that a run waits for. `approval`: approve or deny it. `output`: run it and give its output. `unknown_outcome`:
 * it may or may not have taken effect; approve runs it again, deny tells the model, an output is taken as its result.
 */
export type RequiredAction = Readonly<{
  id: string;
  kind: 'approval' | 'output' | 'unknown_outcome';
  messageId: string;
  toolName: string;
  args: Json;
  /** Set at the root if a session below it asks. */
  child?: Readonly<{ sessionId: string; runId: string; agent: string }>;
}>;

/** Limits after which a run ends `incomplete`. A field that is left out keeps the agent's value. */
export type RunLimits = Readonly<{
  maxSteps?: number | undefined;
  maxTokens?: number | undefined;
  maxCostUsd?: number | undefined;
  deadlineMs?: number | undefined;
}>;

/** The result that a run is asked for. The run answers until an answer fits, at most three times. */
export type OutputFormat = Readonly<{
  /** A JSON Schema whose root is an object. */
  schema: Readonly<{ type: 'object'; [keyword: string]: unknown }>;
  /** Default: the first of `native`, `tool` and `last` that the provider can do. */
  mode?: 'auto' | 'native' | 'tool' | 'last' | undefined;
  /** Name of the schema in the provider's request. */
  name?: string | undefined;
}>;

/** The answer of a run. */
export type RunOutput = Readonly<{
  /** Its last whole answer. */
  messageId: string;
  text: string;
  /** The files that the model made in it. `url` is `@blob:` with the id of a blob, or an http(s) URL. */
  files: readonly Readonly<{ mediaType: string; filename?: string; url: string; sizeBytes?: number }>[];
  /** The result, if the run was asked for one and has reached it. */
  value?: Json;
}>;

/** A task that a run gave to another agent. */
export type RunChild = Readonly<{
  /** The call of the run that began it, or went on with it. */
  callId: string;
  agent: string;
  mode: 'wait' | 'background';
  /** `waiting`: not begun yet. `refused`: never begun; its call says why. */
  status: 'waiting' | 'running' | 'requires_action' | 'completed' | 'incomplete' | 'failed' | 'cancelled' | 'refused';
  /** Null: the child is not begun, or is deleted. */
  sessionId: string | null;
  runId: string | null;
  /** Sums with the child's own children; null: the child has not ended. */
  steps: number | null;
  tokens: number | null;
  costUsd: number | null;
  createdAt: string;
  endedAt: string | null;
}>;

export type Run = Readonly<{
  id: string;
  sessionId: string;
  /** `maintenance`: a compaction or a prune of an idle session. */
  kind: 'task' | 'maintenance';
  status: RunStatus;
  /** The reason for which the run ended `incomplete`. */
  reason: string | null;
  /** Completed model steps. */
  steps: number;
  maxSteps: number | null;
  maxTokens: number | null;
  maxCostUsd: number | null;
  deadlineAt: string | null;
  /** The run goes on when all of these calls are answered. */
  requiredActions: readonly RequiredAction[];
  /** Time until which the calls can be answered; null: no limit. */
  approvalExpiresAt: string | null;
  error: RunError | null;
  /** Null until the run has ended, and if it has no whole answer. Lists leave it out. */
  output?: RunOutput | null;
  /** The result that it is asked for; null: none. Lists leave it out. */
  outputFormat?: OutputFormat | null;
  /** The call of another session that began it, and the step of that call. */
  parent: Readonly<{ sessionId: string; runId: string; step: number; callId: string }> | null;
  /** Calls of it that gave a task to another agent. */
  childCount: number;
  /** The last 100 of these, in their order. Lists leave it out. */
  children?: readonly RunChild[];
  usage: Usage;
  /** US dollars; null if the price of any call is unknown. */
  costUsd: number | null;
  createdAt: string;
  startedAt: string | null;
  finishedAt: string | null;
  cancelRequestedAt: string | null;
  /** Id of the trace with the run's spans; null: spans are off. */
  traceId: string | null;
}>;

export type RunPage = Readonly<{ runs: readonly Run[]; nextCursor: string | null }>;

export type Compaction = Readonly<{
  round: number;
  strategy: string;
  reason: string;
  state: string;
  tokensBefore: number;
  tokensAfter: number | null;
  /** First and last of the compacted messages. */
  fromSeq: number;
  uptoSeq: number;
  /** The message that replaces them. */
  summaryMessageId: string | null;
  usage: Usage | null;
  attempts: number;
  /** US dollars; null if the price of any call is unknown. */
  costUsd: number | null;
  error: RunError | null;
  startedAt: string;
  finishedAt: string | null;
}>;

/** Fill of a session's context, in tokens except for `share`. */
export type ContextMeter = Readonly<{
  model: string;
  /** Tokens of input and output together. */
  window: number;
  /** The window is a guess: it is not configured, and no call has shown it yet. */
  guessed: boolean;
  /** Tokens that a request may have. */
  usable: number;
  /** Tokens of the next request. */
  used: number;
  /** `used / usable`. */
  share: number;
  /** False: only the newest 2000 messages were measured; without an `anchor` more tokens are used. */
  complete: boolean;
  byKind: Readonly<Record<string, number>>;
  thresholds: Readonly<Record<string, number>>;
  /** The call whose bill `used` rests on; null: `used` is an estimate. */
  anchor: Readonly<{ messageSeq: number; inputTokens: number; outputTokens: number }> | null;
  strategy: string;
  compactingSince: string | null;
  compactions: readonly Compaction[];
}>;

/** The next request of a session as the model would see it. Sizes are tokens unless stated otherwise. */
export type ViewPage = Readonly<{
  model: string;
  /** Changes with a compaction or a prune. Pages with different versions do not fit together. */
  version: number;
  /** Tokens of the whole request, as in the context meter. */
  tokens: number;
  byKind: Readonly<Record<string, number>>;
  /** Tools that the request offers. */
  tools: readonly string[];
  messages: readonly Readonly<{
    /** Position in the request, from 1. */
    no: number;
    role: 'system' | 'user' | 'assistant' | 'tool';
    /** The messages of the transcript that it was made of. */
    seqs: readonly number[];
    /** Estimated. Files in results count with the results. */
    tokens: number;
    /** Size of `content` as JSON. */
    bytes: number;
    /** The parts as the model reads them. A file has a `url` in place of its bytes. */
    content: readonly Readonly<{ type: string; [field: string]: unknown }>[];
  }>[];
  /** The `after` of the next page. */
  next: number | null;
}>;

/** `runId`: the run that does it. `queued`: a run is active, and does it before its next step. */
export type Maintenance = Readonly<{ sessionId: string; runId: string; queued: boolean }>;

/** `idle`: no run was active. */
export type CancelledSession = Readonly<{ sessionId: string; runId: string | null; status: RunStatus | 'idle' }>;

export type ResumedSession = Readonly<{ runId: string; status: RunStatus }>;

/**
 * A decision, or the output of a call that the caller has run: a string or any JSON value. With files the output is `{
 * type: 'content', value: […] }`, with files as in a message. `args`: the call runs with these in place of those that
 * the model gave.
 */
export type ToolCallAnswer =
  | Readonly<{ decision: 'approve'; args?: Readonly<Record<string, Json>> | undefined }>
  | Readonly<{ decision: 'deny'; reason?: string | undefined }>
  | Readonly<{ output: Json; isError?: boolean | undefined }>;

export type AnsweredToolCall = Readonly<{
  runId: string;
  toolCallId: string;
  kind: RequiredAction['kind'];
  /** Status of the run after this answer. */
  status: 'requires_action' | 'running';
  /** Calls that the run still waits for. */
  open: number;
}>;

export type Agent = Readonly<{
  name: string;
  version: string;
  description: string | null;
  /** A chat or a task that names no agent gets this one. */
  isDefault: boolean;
  model: string;
  /** Models that are asked one after another while the model cannot answer. */
  fallbacks: readonly string[];
  /** Other models that its sessions may use. A trailing `*` stands for any ending. */
  models: readonly string[];
  tools: readonly string[];
  /** Tools of its MCP servers that it is not offered, as the answering process saw them last. */
  leftOutTools: readonly Readonly<{ server: string; tool: string; reason: string }>[];
  /** Reasons why no session can be created of the agent now; empty: one can. */
  problems: readonly string[];
}>;

/** A file of the agents' folder that cannot be used. While there is one, the agents stay as they were before. */
export type RejectedAgentFile = Readonly<{
  file: string;
  keys: readonly string[];
  /** Null: the key lacks the scopes `admin` and `operator`. */
  problem: string | null;
}>;

/**
 * The owner of a key. `keyId`: null while the service needs no key. `board`: there is a page of the queues at
 * `/admin/queues`. `traceUrl`: URL of the page of a trace, with `{traceId}` in it; null: none is configured.
 */
export type Caller = Readonly<{
  tenant: string;
  keyId: string | null;
  scopes: readonly ('read' | 'write' | 'admin' | 'operator')[];
  board: boolean;
  traceUrl: string | null;
}>;

/** A key of the tenant, without the key itself. */
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

export type ApiKeyPage = Readonly<{ keys: readonly ApiKey[]; nextCursor: string | null }>;

export type Readiness = Readonly<{
  ready: boolean;
  checks: Readonly<Record<string, Readonly<{ ok: boolean; message?: string }>>>;
  /** Kinds of jobs without a worker at the moment. Their work waits. */
  unattended?: readonly ('step' | 'compaction' | 'prune' | 'delivery')[];
}>;

export type AuditEntry = Readonly<{
  seq: number;
  action: string;
  /** The path of the request, or the id of the changed object. */
  target: string;
  /** Null: on the command line, or before the first key was created. */
  keyId: string | null;
  createdAt: string;
}>;

export type AuditPage = Readonly<{ entries: readonly AuditEntry[]; next: number | null }>;

/** A file that messages and tool outputs refer to. */
export type StoredBlob = Readonly<{
  id: string;
  /** Sniffed from the first bytes, else as declared. */
  mediaType: string;
  sizeBytes: number;
  createdAt: string;
}>;
