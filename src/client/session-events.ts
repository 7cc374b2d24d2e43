import type {
  IncompleteReason,
  Json,
  LimitReason,
  RequiredAction,
  RunError,
  SessionStatus,
  ToolChanges,
  Usage,
} from './api.ts';
import type {
  CompactionPart,
  ContentRef,
  Delivery,
  FilePart,
  SourceFields,
  StoredFile,
  TextPart,
  WaitingNotice,
} from './messages.ts';

export type FinishReason = 'stop' | 'length' | 'content-filter' | 'tool-calls' | 'error' | 'other' | 'aborted';

type OfMessage = Readonly<{ messageId: string }>;
type OfRun = Readonly<{ runId: string }>;
type OfStep = OfRun & Readonly<{ step: number; attempt: number }>;

/** The data of the durable events of a session, by their names. */
export type EventData = Readonly<{
  'run:queued': OfRun;
  'run:started': OfRun;
  'run:requires-action': OfRun & Readonly<{ calls: readonly RequiredAction[] }>;
  /** `open`: calls that the run still waits for; with 0 it goes on. */
  'run:answered': OfRun & Readonly<{ id: string; answer: 'approve' | 'deny' | 'output' | 'expired'; open: number }>;
  'run:cancelling': OfRun;
  'run:completed': OfRun & Readonly<{ finishReason: FinishReason; lateCancel?: boolean }>;
  'run:failed': OfRun & Readonly<{ error: RunError }>;
  'run:cancelled': OfRun & Readonly<{ stillRan: readonly string[] }>;
  'run:incomplete': OfRun & Readonly<{ reason: IncompleteReason; error?: RunError }>;
  /** `finalAnswerFor`: the step is the final answer of a run that has reached this limit. */
  'step:started': OfStep & Readonly<{ messageId: string; finalAnswerFor?: LimitReason }>;
  'step:retrying': OfStep & Readonly<{ error: RunError; nextAttemptAt: string }>;
  /** What was streamed of the message is void. */
  'step:reset': OfRun & Readonly<{ step: number; messageId: string }>;
  'step:completed': OfStep &
    Readonly<{ messageId: string; finishReason: FinishReason; toolCalls: number; usage: Usage }>;
  'llm:tool-call': Readonly<{ id: string; messageId: string; toolName: string; args: Json; callId: string }>;
  'llm:tool-result': Readonly<{
    id: string;
    messageId: string;
    toolName: string;
    callId: string;
    success: boolean;
    /** As text, its files by name. `truncated`: its middle is left out; the transcript has the whole. */
    sanitized: string;
    truncated?: true;
  }>;
  /** The whole of what a model said in a step. */
  'llm:response': Readonly<{
    messageId: string;
    content: string;
    reasoning?: string;
    provider: string;
    model: string;
    finishReason: FinishReason;
    tokenUsage: Usage;
  }>;
  /**
   * A file that the model made, and what it has something from: with the answer that they are in, when that is whole.
   */
  'llm:file': OfMessage & Omit<StoredFile, 'type'>;
  'llm:source': OfMessage & SourceFields;
  'llm:error': Readonly<{ error: RunError; recoverable: boolean }>;
  /** The model before and after; `agent`: the one that the session has now, where it is another one. */
  'llm:switched': Readonly<{ from: string; to: string; agent?: string }>;
  'llm:unsupported-input': Readonly<{ model: string; mediaTypes: readonly string[] }>;
  /** A tool of an MCP server is not what the session knows it as: once for what it has become. */
  'tools:drifted': Readonly<{ server: string; tool: string; change: 'changed' | 'gone' }>;
  'tools:pinned': ToolChanges;
  'message:queued': Readonly<{ position: number; id: string }>;
  'message:dequeued': Readonly<{ count: number; ids: readonly string[]; coalesced: boolean }>;
  'message:changed': Readonly<{ id: string; delivery: Exclude<Delivery, 'reject'> }>;
  'message:removed': Readonly<{ ids: readonly string[] }>;
  'message:created': Readonly<{
    messageId: string;
    seq: number;
    role: 'user' | 'assistant';
    /** It stands for older messages in what the model is shown. */
    isSummary?: true;
    /** Left out where they are large: `contentRef` says where they are read. */
    parts?: readonly (TextPart | FilePart | CompactionPart)[];
    contentRef?: ContentRef;
  }>;
  'context:compressed': Readonly<{
    originalTokens: number;
    compressedTokens: number;
    originalMessages: number;
    compressedMessages: number;
    strategy: string;
    reason: string;
  }>;
  'context:pruned': Readonly<{ prunedCount: number; savedTokens: number }>;
  'compaction:start': Readonly<{
    round: number;
    strategy: string;
    tokensBefore: number;
    modelLimit: number;
    reason: string;
  }>;
  'compaction:complete': Readonly<{
    round: number;
    strategy: string;
    tokensBefore: number;
    tokensAfter: number;
    messagesCompacted: number;
    /** The first and the last message that the summary stands for. */
    fromSeq: number;
    uptoSeq: number;
    summaryMessageId: string;
    wasPruned: boolean;
    wasSummarized: boolean;
  }>;
  'compaction:failed': Readonly<{ error: RunError; attempts: number }>;
  'prune:complete': Readonly<{ prunedCount: number; savedTokens: number; prunedTools: readonly string[] }>;
  'usage:updated': OfRun & Readonly<{ usage: Usage; sessionUsage?: Usage }>;
}>;

/** A union, so that the type of an event tells its data. */
type EventOf<RunId extends object> = {
  [Type in keyof EventData]: Readonly<{ type: Type; seq: number; createdAt: string; data: EventData[Type] } & RunId>;
}[keyof EventData];

/**
 * A durable event: numbered by its session without gaps, and there to be read again. `runId` is left out where it is of
 * no run.
 */
export type DurableEvent = EventOf<{ runId?: string }>;

/** A durable event on a page; of no run where `runId` is null. */
export type PagedEvent = EventOf<{ runId: string | null }>;

/**
 * A piece of a call's input as the model writes it: JSON that is not whole. The first one is empty. Pieces may be missing:
 * `offset` counts the characters of the input before this one, and `llm:tool-call` has the whole under the same `id`.
 */
export type ToolInput = Readonly<{
  messageId: string;
  epoch: number;
  id: string;
  /** What the provider calls it. */
  callId: string;
  toolName: string;
  offset: number;
  content: string;
}>;

/**
 * A piece of text as it streams: never stored, and nothing without its `llm:response`. `offset` counts the characters
 * of the message so far, text and reasoning together. With a higher `epoch` the message begins anew.
 */
export type Chunk = Readonly<{
  messageId: string;
  epoch: number;
  offset: number;
  chunkType: 'text' | 'reasoning';
  content: string;
}>;

export type LiveEvent =
  | Readonly<{ type: 'llm:chunk'; data: Chunk }>
  | Readonly<{ type: 'llm:tool-input'; data: ToolInput }>
  | Readonly<{ type: 'llm:thinking'; data: OfStep & Readonly<{ messageId: string }> }>;

/** The session as of event `seq`: first when a stream begins, and again whenever its connection was made again. */
export type SessionSnapshot = Readonly<{
  sessionId: string;
  status: SessionStatus;
  activeRunId: string | null;
  seq: number;
  /** How many messages wait, and the first hundred of them: large contents are left out. */
  queueLength: number;
  queue: readonly WaitingNotice[];
  /** The message that is being written. Its text comes as `llm:chunk` events, too. */
  inFlight: Readonly<{
    messageId: string;
    runId: string;
    step: number;
    epoch: number;
    chunks: readonly Pick<Chunk, 'chunkType' | 'content' | 'offset'>[];
  }> | null;
  /**
   * Events that the reader lacks are gone, or those that it has are of another log: what it knows is replaced by this and
   * by the events that follow.
   */
  reset: boolean;
  usage: Usage;
  compactingSince: string | null;
  /** Tokens of the next request, and what it may hold; null before the first step. */
  context: Readonly<{ used: number; usable: number }> | null;
}>;

export type SnapshotEvent = Readonly<{ type: 'session:snapshot'; data: SessionSnapshot }>;

/** What a stream of events brings. A newer service may send names that are not listed here: let them pass. */
export type StreamEvent = SnapshotEvent | DurableEvent | LiveEvent;

/** A page of durable events; `next` is the `after` of the page that follows. */
export type EventPage = Readonly<{
  events: readonly PagedEvent[];
  next: number;
}>;
