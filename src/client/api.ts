import type { RunErrorCode } from './baton-error.ts';

/** Any JSON value. */
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

/** What a model provider said of a call that failed, without the prompt and credentials; what is unknown is left out. */
export type ProviderFailure = Readonly<{
  /** Of the HTTP response; 200 where the answer broke off. */
  status?: number;
  /** The provider's own code, or else its type of error. */
  code?: string;
  message?: string;
  /** Names the request to the provider's support. */
  requestId?: string;
  host?: string;
  /** Why there was no response at all: `ECONNREFUSED`. */
  errno?: string;
}>;

/** Why a run, a compaction or a call to a model failed. `provider`: the fields that `message` tells in words. */
export type RunError = Readonly<{ code: RunErrorCode; message: string; provider?: ProviderFailure }>;

export type SessionStatus = 'idle' | 'busy' | 'requires_action';

export type Session = Readonly<{
  id: string;
  agent: string;
  /** Of the definition that the session has, its overrides included. */
  agentVersion: string;
  overrides: AgentOverrides;
  title: string | null;
  metadata: Readonly<Record<string, string>>;
  status: SessionStatus;
  activeRunId: string | null;
  /** Set while older messages are being summarized; messages are accepted as always. */
  compactingSince: string | null;
  /** Compactions that were completed. */
  compactionCount: number;
  lastCompactionAt: string | null;
  usage: Usage;
  /** US dollars; null where the price of a call in it is not known. */
  costUsd: number | null;
  /** From then on the service deletes it, within about an hour. */
  expiresAt: string | null;
  createdAt: string;
  updatedAt: string;
}>;

export type NewSession = Readonly<{
  agent: string;
  title?: string | null | undefined;
  /** At most 16 labels of at most 64 characters, each with a value of at most 512. */
  metadata?: Readonly<Record<string, string>> | undefined;
  /**
   * An ISO time from which on the service deletes it, within about an hour, however young it is.
   * Default: never before its age.
   */
  expiresAt?: string | null | undefined;
  overrides?: AgentOverrides | undefined;
}>;

/** How a model is to answer; what is left out is the agent's, or the provider's default. */
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

/** What a session has different from its agent; tools and approvals are the agent's. */
export type AgentOverrides = Readonly<{
  /** `provider/model` */
  model?: string | undefined;
  /** Said after the agent's own. */
  instructions?: string | undefined;
  settings?: ModelSettings | undefined;
  /** `finalAnswer`: when a limit ends a run, the model says first what was done and what is open. */
  limits?: RunLimits & Readonly<{ finalAnswer?: boolean | undefined }>;
}>;

/** How a server's tools, by their own names, differ from those that the session knew. */
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

/** The limits of a run after which its agent may give a final answer. */
export type LimitReason = 'max_steps' | 'budget' | 'deadline' | 'doom_loop';

export type IncompleteReason = LimitReason | 'context_exhausted';

/**
 * A call that a run waits for. `approval`: approve or deny it. `output`: run it and give its output. `unknown_outcome`:
 * nobody knows whether it took effect; approve runs it again, deny tells the model, an output is taken as its result.
 */
export type RequiredAction = Readonly<{
  id: string;
  kind: 'approval' | 'output' | 'unknown_outcome';
  messageId: string;
  toolName: string;
  args: Json;
}>;

/** What a run may use before it ends `incomplete`; what is left out is the agent's. */
export type RunLimits = Readonly<{
  maxSteps?: number | undefined;
  maxTokens?: number | undefined;
  maxCostUsd?: number | undefined;
  deadlineMs?: number | undefined;
}>;

export type Run = Readonly<{
  id: string;
  sessionId: string;
  /** `maintenance`: the session tidies its context up. */
  kind: 'task' | 'maintenance';
  status: RunStatus;
  /** Why it ended `incomplete`. */
  reason: string | null;
  /** Model steps that were completed. */
  steps: number;
  maxSteps: number | null;
  maxTokens: number | null;
  maxCostUsd: number | null;
  deadlineAt: string | null;
  /** It goes on when each of these calls is answered. */
  requiredActions: readonly RequiredAction[];
  /** Until then they can be answered; null: for ever. */
  approvalExpiresAt: string | null;
  error: RunError | null;
  usage: Usage;
  /** US dollars; null where the price of a call in it is not known. */
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
  /** The first and the last message that it was about. */
  fromSeq: number;
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
}>;

/** How full the context of a session is. Tokens, but for `share`. */
export type ContextMeter = Readonly<{
  model: string;
  /** Of input and output together. */
  window: number;
  /** Nobody has told how large the window is, and no call has shown it yet. */
  guessed: boolean;
  /** What a request may hold. */
  usable: number;
  /** What the next request holds. */
  used: number;
  /** `used / usable`. */
  share: number;
  byKind: Readonly<Record<string, number>>;
  thresholds: Readonly<Record<string, number>>;
  /** The call whose bill `used` rests on; null where it is an estimate only. */
  anchor: Readonly<{ messageSeq: number; inputTokens: number; outputTokens: number }> | null;
  strategy: string;
  compactingSince: string | null;
  compactions: readonly Compaction[];
}>;

/** What the next request of a session would show the model. Tokens, but for what says otherwise. */
export type ViewPage = Readonly<{
  model: string;
  /** Changes with a compaction or a prune: pages of two versions are not of one view. */
  version: number;
  /** Of the whole request, as in the meter. */
  tokens: number;
  byKind: Readonly<Record<string, number>>;
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
  /** The `after` of the page that follows. */
  next: number | null;
}>;

/** The run that does it; `queued`: one is at work, and it is done before its next step. */
export type Maintenance = Readonly<{ sessionId: string; runId: string; queued: boolean }>;

/** `idle`: nothing was active. */
export type CancelledSession = Readonly<{ sessionId: string; runId: string | null; status: RunStatus | 'idle' }>;

export type ResumedSession = Readonly<{ runId: string; status: RunStatus }>;

/**
 * A decision, or the output of a call that the caller has run: a string or any JSON value. With files it is
 * `{ type: 'content', value: […] }`, in which a file is named as in a message.
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
  /** Calls that it still waits for. */
  open: number;
}>;

export type Agent = Readonly<{
  name: string;
  version: string;
  description: string | null;
  model: string;
  /** Others that its sessions may take; one that ends with `*` stands for all that begin so. */
  models: readonly string[];
  tools: readonly string[];
}>;

export type Readiness = Readonly<{
  ready: boolean;
  checks: Readonly<Record<string, Readonly<{ ok: boolean; message?: string }>>>;
  /** Kinds of jobs that no worker takes at the moment: what is accepted waits. */
  unattended?: readonly ('step' | 'compaction' | 'prune')[];
}>;

export type AuditEntry = Readonly<{
  seq: number;
  action: string;
  /** The path of the request, or the id of what was changed. */
  target: string;
  /** Null: on the command line, or before there were keys. */
  keyId: string | null;
  createdAt: string;
}>;

export type AuditPage = Readonly<{ entries: readonly AuditEntry[]; next: number | null }>;

/** A file that messages and tool outputs refer to. */
export type StoredBlob = Readonly<{
  id: string;
  /** As its first bytes say, or as it was named. */
  mediaType: string;
  sizeBytes: number;
  createdAt: string;
}>;
