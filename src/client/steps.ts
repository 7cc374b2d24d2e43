import type { Json, RunError, Usage } from './api.ts';
import type { FinishReason } from './session-events.ts';

/** One attempt at a step. A phase is null where it is not known. The phases follow each other, in milliseconds. */
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
  /** The worker that began it, and one that recovered it. */
  workers: readonly string[];
  model: string | null;
  finishReason: FinishReason | null;
  usage: Usage | null;
  /** US dollars; null if the price is unknown. */
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
    /** The output was cut on arrival. */
    truncated: boolean;
  }>[];
  error: RunError | null;
  nextAttemptAt: string | null;
}>;

export type CompactionRow = Readonly<{
  kind: 'compaction';
  round: number;
  strategy: string;
  reason: string;
  state: string;
  tokensBefore: number;
  tokensAfter: number | null;
  costUsd: number | null;
  error: RunError | null;
  startedAt: string;
  finishedAt: string | null;
}>;

export type PruneRow = Readonly<{
  kind: 'prune';
  prunedCount: number;
  savedTokens: number;
  prunedTools: readonly string[];
  at: string;
}>;

/** `next`: the `after` of the next page. */
export type StepPage = Readonly<{
  runId: string;
  sessionId: string;
  rows: readonly (StepRow | CompactionRow | PruneRow)[];
  next: number | null;
}>;

/** The request of a step, as the model was shown it. Sizes are tokens unless stated otherwise. */
export type StepRequest = Readonly<{
  runId: string;
  sessionId: string;
  step: number;
  attempt: number;
  /** Of the answer. */
  messageId: string;
  agent: string;
  model: string;
  /** Whether instructions and messages have the hash that the worker kept; null: it kept none. */
  verified: boolean | null;
  /** The same of the tools. */
  toolsVerified: boolean | null;
  sha256: string | null;
  /** Of the whole request. Estimated. */
  tokens: number;
  byKind: Readonly<Record<string, number>>;
  tools: readonly Readonly<{ name: string; description: string; inputSchema: Json }>[];
  messages: readonly Readonly<{
    /** Position in the request, from 1. */
    no: number;
    role: 'system' | 'user' | 'assistant' | 'tool';
    /** The messages of the transcript that it was made of. */
    seqs: readonly number[];
    tokens: number;
    /** Of `content` as JSON. */
    bytes: number;
    content: readonly Readonly<{ type: string; [field: string]: unknown }>[];
    /** The parts that it does not show whole, and where each is read. */
    hidden: readonly Readonly<{
      kind: 'pruned' | 'cut' | 'media';
      /** Null: a file of the user. */
      callId: string | null;
      toolName: string | null;
      messageId: string;
      seq: number;
      tokens: number | null;
      href: string;
    }>[];
  }>[];
  /** The `after` of the next page. */
  next: number | null;
}>;
