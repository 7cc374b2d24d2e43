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
  /** Of the HTTP response; 200 if the answer broke off. */
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

/** Why a run, a compaction or a model call failed. `provider`: the fields behind `message`. */
export type RunError = Readonly<{ code: RunErrorCode; message: string; provider?: ProviderFailure }>;

export type SessionStatus = 'idle' | 'busy' | 'requires_action';

export type Session = Readonly<{
  id: string;
  agent: string;
  /** Of the session's own definition, overrides included. */
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
  /** Of one answer, reasoning included. */
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
  /** `finalAnswer`: when a limit ends a run, the model first reports what is done and what is open. */
  limits?: RunLimits & Readonly<{ finalAnswer?: boolean | undefined }>;
}>;

/** Differences between a server's tools, by their own names, and those that the session knew. */
export type ToolChanges = Readonly<{
  server: string;
  added: readonly string[];
  changed: readonly string[];
  removed: readonly string[];
}>;

export type RepinnedTools = Readonly<{ sessionId: string; changes: readonly ToolChanges[] }>;

export type SessionPage = Readonly<{ sessions: readonly Session[]; nextCursor: string | null }>;

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

export type IncompleteReason = LimitReason | 'context_exhausted';

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
}>;

/** Limits after which a run ends `incomplete`. A field that is left out keeps the agent's value. */
export type RunLimits = Readonly<{
  maxSteps?: number | undefined;
  maxTokens?: number | undefined;
  maxCostUsd?: number | undefined;
  deadlineMs?: number | undefined;
}>;

export type Run = Readonly<{
  id: string;
  sessionId: string;
  /** `maintenance`: a compaction or a prune of an idle session. */
  kind: 'task' | 'maintenance';
  status: RunStatus;
  /** Why the run ended `incomplete`. */
  reason: string | null;
  /** Completed model steps. */
  steps: number;
  maxSteps: number | null;
  maxTokens: number | null;
  maxCostUsd: number | null;
  deadlineAt: string | null;
  /** The run goes on when all of these calls are answered. */
  requiredActions: readonly RequiredAction[];
  /** Until when the calls can be answered; null: no limit. */
  approvalExpiresAt: string | null;
  error: RunError | null;
  usage: Usage;
  /** US dollars; null if the price of any call is unknown. */
  costUsd: number | null;
  createdAt: string;
  startedAt: string | null;
  finishedAt: string | null;
  cancelRequestedAt: string | null;
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
  /** Of input and output together. */
  window: number;
  /** The window is a guess: it is not configured, and no call has shown it yet. */
  guessed: boolean;
  /** Tokens that a request may have. */
  usable: number;
  /** Tokens of the next request. */
  used: number;
  /** `used / usable`. */
  share: number;
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
  /** Of the whole request, as in the context meter. */
  tokens: number;
  byKind: Readonly<Record<string, number>>;
  /** Offered in the request. */
  tools: readonly string[];
  messages: readonly Readonly<{
    /** Position in the request, from 1. */
    no: number;
    role: 'system' | 'user' | 'assistant' | 'tool';
    /** The messages of the transcript that it was made of. */
    seqs: readonly number[];
    /** Estimated. Files in results count with the results. */
    tokens: number;
    /** Of `content` as JSON. */
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
 * type: 'content', value: […] }`, with files as in a message.
 */
export type ToolCallAnswer =
  | Readonly<{ decision: 'approve' }>
  | Readonly<{ decision: 'deny'; reason?: string | undefined }>
  | Readonly<{ output: Json; isError?: boolean | undefined }>;

export type AnsweredToolCall = Readonly<{
  runId: string;
  toolCallId: string;
  kind: RequiredAction['kind'];
  /** Of the run after this answer. */
  status: 'requires_action' | 'running';
  /** Calls that the run still waits for. */
  open: number;
}>;

export type Agent = Readonly<{
  name: string;
  version: string;
  description: string | null;
  model: string;
  /** Other models that its sessions may use. A trailing `*` stands for any ending. */
  models: readonly string[];
  tools: readonly string[];
}>;

export type Readiness = Readonly<{
  ready: boolean;
  checks: Readonly<Record<string, Readonly<{ ok: boolean; message?: string }>>>;
  /** Kinds of jobs without a worker at the moment. Their work waits. */
  unattended?: readonly ('step' | 'compaction' | 'prune')[];
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
