import type {
  ForkedFrom,
  IncompleteReason,
  Json,
  LimitReason,
  RequiredAction,
  RunError,
  RunOutput,
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

type Revert = Readonly<{ messageId: string; seq: number; uptoSeq: number; messages: number }>;
type OfMessage = Readonly<{ messageId: string }>;
type OfRun = Readonly<{ runId: string }>;
type OfChild = OfRun & Readonly<{ id: string; toolName: string; agent: string; sessionId: string; childRunId: string }>;
type OfStep = OfRun & Readonly<{ step: number; attempt: number }>;

/** Why a run goes on with the next model of its agent. */
export type SwitchReason = 'timeout' | 'overloaded' | 'transport' | 'rate_limited' | 'quota' | 'empty_answer';

/** Of a large output only `messageId` and where the run is read. */
type ToldOutput = Readonly<{
  messageId: string;
  text?: string;
  files?: RunOutput['files'];
  value?: Json;
  contentRef?: ContentRef;
}>;

/** The data of the durable events of a session, by their names. */
export type EventData = Readonly<{
  'run:queued': OfRun;
  'run:started': OfRun;
  'run:requires-action': OfRun & Readonly<{ calls: readonly RequiredAction[] }>;
  /** `open`: calls that the run still waits for. With 0 it goes on. */
  /** `args`: the call runs with these in place of those that the model gave. */
  'run:answered': OfRun &
    Readonly<{ id: string; answer: 'approve' | 'deny' | 'output' | 'expired'; args?: Json; open: number }>;
  /** A call has begun or continued a session of another agent. `id`: the call. */
  'child:started': OfChild & Readonly<{ mode: 'wait' | 'background' }>;
  /** In the log of the root: calls of a session below it wait for a person or a client. `open`: of the whole tree. */
  'child:requires-action': Readonly<{
    runId: string | null;
    sessionId: string;
    childRunId: string;
    calls: readonly RequiredAction[];
    open: number;
  }>;
  /** Its run has ended. `refused`: it was not begun. What it used includes its own children. */
  'child:ended': OfChild &
    Readonly<{
      status: 'completed' | 'incomplete' | 'failed' | 'cancelled' | 'refused';
      error?: RunError;
      steps: number;
      tokens: number;
      costUsd: number | null;
    }>;
  'run:cancelling': OfRun;
  /** `output`: left out if the run ends without a new answer. */
  'run:completed': OfRun & Readonly<{ finishReason: FinishReason; lateCancel?: boolean; output?: ToldOutput }>;
  'run:failed': OfRun & Readonly<{ error: RunError }>;
  'run:cancelled': OfRun & Readonly<{ stillRan: readonly string[] }>;
  'run:incomplete': OfRun & Readonly<{ reason: IncompleteReason; error?: RunError; output?: ToldOutput }>;
  /** `finalAnswerFor`: the step is the final answer of a run that has reached this limit. */
  /** `waitedMs`: from the time when the work was due to its claim. */
  'step:started': OfStep &
    Readonly<{ messageId: string; finalAnswerFor?: LimitReason; workerId?: string; waitedMs?: number }>;
  'step:retrying': OfStep & Readonly<{ error: RunError; nextAttemptAt: string }>;
  /** The streamed text of the message is void. */
  'step:reset': OfRun & Readonly<{ step: number; messageId: string }>;
  'step:completed': OfStep &
    Readonly<{
      messageId: string;
      finishReason: FinishReason;
      toolCalls: number;
      usage: Usage;
      workerId?: string;
      /** Left out, like `firstTokenMs`, by a worker that recovered the step: `llm:response` has them. */
      waitedMs?: number;
      firstTokenMs?: number | null;
    }>;
  'llm:tool-call': Readonly<{ id: string; messageId: string; toolName: string; args: Json; callId: string }>;
  'llm:tool-result': Readonly<{
    id: string;
    messageId: string;
    toolName: string;
    callId: string;
    success: boolean;
    /** The output as text, with files by name. `truncated`: its middle is left out; the transcript has the whole. */
    sanitized: string;
    truncated?: true;
  }>;
  /** The model's complete response in a step. */
  'llm:response': Readonly<{
    messageId: string;
    content: string;
    reasoning?: string;
    provider: string;
    model: string;
    finishReason: FinishReason;
    tokenUsage: Usage;
    /** US dollars; null if the price of the model is unknown. */
    costUsd?: number | null;
    workerId?: string;
    /** The phases of the step, one after another: until the claim, the claim, the prompt, silence, the answer. */
    timing?: Readonly<{
      waitedMs: number;
      claimMs: number;
      viewMs: number;
      firstTokenMs: number | null;
      streamMs: number;
    }>;
    /** The request as the context meter measured it, in tokens. */
    context?: Readonly<{ usedTokens: number; usableTokens: number }>;
  }>;
  /** A file that the model made, and a source of its answer. They come with the complete answer. */
  'llm:file': OfMessage & Omit<StoredFile, 'type'>;
  'llm:source': OfMessage & SourceFields;
  'llm:error': Readonly<{ error: RunError; recoverable: boolean }>;
  /** The provider refused the request for its form: the step is made again with these changes. `text`: in words. */
  'llm:adapted': OfRun &
    Readonly<{
      step: number;
      model: string;
      changes: readonly Readonly<{ kind: string; detail: string }>[];
      text: string;
    }>;
  /**
   * The model before and after. `agent`: the session's new agent, if that has changed. `reason`: why the run goes on with
   * the next model of the agent's list.
   */
  'llm:switched': Readonly<{ from: string; to: string; agent?: string; reason?: SwitchReason }>;
  'llm:unsupported-input': Readonly<{ model: string; mediaTypes: readonly string[] }>;
  /** A tool's definition on its MCP server differs from the session's. Sent once for each change. */
  'tools:drifted': Readonly<{ server: string; tool: string; change: 'changed' | 'gone' }>;
  'tools:pinned': ToolChanges;
  /** The first event of a fork. */
  'session:forked': Readonly<{ forkedFrom: ForkedFrom }>;
  /** The messages after `seq`, up to `uptoSeq`, left the transcript; with `unreverted` they came back. */
  'session:reverted': Revert;
  'session:unreverted': Revert;
  'message:queued': Readonly<{ position: number; id: string }>;
  'message:dequeued': Readonly<{ count: number; ids: readonly string[]; coalesced: boolean }>;
  'message:changed': Readonly<{ id: string; delivery: Exclude<Delivery, 'reject'> }>;
  'message:removed': Readonly<{ ids: readonly string[] }>;
  'message:created': Readonly<{
    messageId: string;
    seq: number;
    role: 'user' | 'assistant';
    /** The message replaces older messages in the view. */
    isSummary?: true;
    /** Left out if they are large: `contentRef` says where to read them. */
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
    /** First and last message that the summary replaces. */
    fromSeq: number;
    uptoSeq: number;
    summaryMessageId: string;
    wasPruned: boolean;
    wasSummarized: boolean;
  }>;
  'compaction:failed': Readonly<{ error: RunError; attempts: number }>;
  'prune:complete': Readonly<{ prunedCount: number; savedTokens: number; prunedTools: readonly string[] }>;
  /** An answer does not fit the schema of its run. `repairs`: how often the run has asked again, with this time. */
  'output:invalid': OfRun & Readonly<{ step: number; problem: string; repairs: number }>;
  'usage:updated': OfRun & Readonly<{ usage: Usage; sessionUsage?: Usage }>;
}>;

/** A union, so that the type of an event determines its data. */
type EventOf<RunId extends object> = {
  [Type in keyof EventData]: Readonly<{ type: Type; seq: number; createdAt: string; data: EventData[Type] } & RunId>;
}[keyof EventData];

/** A durable event: numbered without gaps in its session's log. `runId` is absent if it belongs to no run. */
export type DurableEvent = EventOf<{ runId?: string }>;

/** A durable event on a page. `runId` is null if it belongs to no run. */
export type PagedEvent = EventOf<{ runId: string | null }>;

/**
 * A piece of a call's input as the model writes it: incomplete JSON, of which the first piece is empty. Pieces may be
 * missing: `offset` counts the input's characters before this one, and `llm:tool-call` has the whole under this `id`.
 */
export type ToolInput = Readonly<{
  messageId: string;
  epoch: number;
  id: string;
  /** The provider's id of the call. */
  callId: string;
  toolName: string;
  offset: number;
  content: string;
}>;

/**
 * A piece of streamed text. It is not stored, and counts only once its `llm:response` comes. `offset` counts the
 * characters of the message so far, text and reasoning together; with a higher `epoch` the message begins anew.
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

/** The session as of event `seq`. Comes first in a stream, and again after each reconnect. */
export type SessionSnapshot = Readonly<{
  sessionId: string;
  status: SessionStatus;
  activeRunId: string | null;
  seq: number;
  /** Number of queued messages, and the first hundred of them without large contents. */
  queueLength: number;
  queue: readonly WaitingNotice[];
  /** The message that is being written. Its text also comes as `llm:chunk` events. */
  inFlight: Readonly<{
    messageId: string;
    runId: string;
    step: number;
    epoch: number;
    chunks: readonly Pick<Chunk, 'chunkType' | 'content' | 'offset'>[];
  }> | null;
  /**
   * The reader's state does not fit the log: missing events were removed, or its events are of another log. This
   * snapshot and the events after it replace the state.
   */
  reset: boolean;
  usage: Usage;
  compactingSince: string | null;
  /** Tokens of the next request, and its limit; null before the first step. */
  context: Readonly<{ used: number; usable: number }> | null;
}>;

export type SnapshotEvent = Readonly<{ type: 'session:snapshot'; data: SessionSnapshot }>;

/** An event of a stream. A newer service may send types that are not listed here: ignore them. */
export type StreamEvent = SnapshotEvent | DurableEvent | LiveEvent;

/** A page of durable events. `next` is the `after` of the next page. */
export type EventPage = Readonly<{
  events: readonly PagedEvent[];
  next: number;
  /** The id of that event, which also names the history of the server's database. */
  nextId: string;
  /** The page begins with the first event that is kept, because `after` belonged to a history that was lost. */
  reset: boolean;
}>;
