import type { Json, RunError, RunStatus, Usage } from './api.ts';

/** What came of a message that was sent. */
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

/**
 * What a message to a session at work does. `steer`: it is in the very next model request. `followup`: it gets a run of
 * its own afterwards. `interrupt`: it cancels the run first. `reject`: it is refused (`session_busy`).
 */
export type Delivery = 'steer' | 'followup' | 'interrupt' | 'reject';

type NamedFile = Readonly<{ type: 'file' | 'image'; mediaType?: string | undefined; filename?: string | undefined }>;

/** What a user says, and files with it: an uploaded blob, base64, or a data or http(s) URL. */
export type UserPart =
  | Readonly<{ type: 'text'; text: string }>
  | (NamedFile & Readonly<{ blobId: string }>)
  | (NamedFile & Readonly<{ data: string }>)
  | (NamedFile & Readonly<{ url: string }>);

type ProviderMetadata = Readonly<Record<string, Readonly<Record<string, Json>>>>;
type FromProvider = Readonly<{ providerMetadata?: ProviderMetadata }>;

export type ToolCallState =
  | 'pending'
  | 'awaiting_approval'
  | 'awaiting_output'
  | 'running'
  | 'completed'
  | 'error'
  | 'denied'
  | 'unknown';

/** A file as it is stored: `url` is `@blob:` and the id of a blob, or an http(s) URL. */
export type StoredFile = Readonly<{
  type: 'file';
  mediaType: string;
  filename?: string;
  url: string;
  sizeBytes?: number;
}>;

/** The outcome of a tool call as the model is shown it. */
export type ToolOutput =
  | Readonly<{ type: 'text'; value: string }>
  | Readonly<{ type: 'content'; value: readonly (Readonly<{ type: 'text'; text: string }> | StoredFile)[] }>
  | Readonly<{ type: 'json'; value: Json }>
  | Readonly<{ type: 'error-text'; value: string }>
  | Readonly<{ type: 'execution-denied'; reason?: string }>;

/** What has become of a part in what the model is shown; the part itself is as it was recorded. */
export type PartHistory = Readonly<{
  /** When a prune has put a placeholder in its place. */
  compactedAt?: string;
  /** When names were put in the place of its images and files. */
  mediaStrippedAt?: string;
  /** Characters beyond which the middle of its output is left out. */
  viewLimitChars?: number;
  /** Tokens of the output or file before that, or before it was cut. */
  originalTokens?: number;
  /** The output was cut as it came in: `outputBlobId` has the whole. */
  truncated?: true;
}>;

export type ToolPart = FromProvider &
  PartHistory &
  Readonly<{
    type: 'tool';
    /** Names the call and no other one; `toolCallId` is what the provider calls it, which may come again. */
    id?: string;
    toolCallId: string;
    toolName: string;
    input: Json;
    state: ToolCallState;
    output?: ToolOutput;
    /** The blob with the whole output, where `output` has only head and tail of it. */
    outputBlobId?: string;
    providerExecuted?: boolean;
    resultProviderMetadata?: ProviderMetadata;
  }>;

export type TextPart = FromProvider & Readonly<{ type: 'text'; text: string }>;

export type FilePart = FromProvider & StoredFile;

/** What a model has something from: a page by its `url`, or a document. */
export type SourceFields = Readonly<{
  sourceId: string;
  url?: string;
  title?: string;
  mediaType?: string;
  filename?: string;
}>;

type AnyPart =
  | TextPart
  | (FromProvider & Readonly<{ type: 'reasoning'; text: string }>)
  | (FilePart & PartHistory)
  | (FromProvider & SourceFields & Readonly<{ type: 'source' }>)
  | Readonly<{ type: 'step-start' }>
  | CompactionPart;

/** The summary of older messages. */
export type CompactionPart = Readonly<{ type: 'compaction'; text: string }>;

/** One piece of a message. */
export type Part = AnyPart | ToolPart;

/** A message of the transcript. */
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

export type MessagePage = Readonly<{ messages: readonly Message[]; next: number | null }>;

/** A message that waits to be taken up. */
export type WaitingMessage = Readonly<{
  id: string;
  position: number;
  delivery: Exclude<Delivery, 'reject'>;
  content: readonly Json[];
  enqueuedAt: string;
}>;

/** Stands for a content that is too large to be repeated: its size as JSON, and the path at which it is read. */
export type ContentRef = Readonly<{ sizeBytes: number; href: string }>;

/** A message that waits, with its content or where that is read. */
export type WaitingNotice = Omit<WaitingMessage, 'content'> &
  Readonly<{ content?: WaitingMessage['content']; contentRef?: ContentRef }>;

export type QueuePage = Readonly<{ messages: readonly WaitingMessage[]; nextCursor: string | null }>;
