import type { Json, RunError, RunStatus, Usage } from './api.ts';

/** The acceptance of a message by the service. */
export type SentMessage = Readonly<{
  messageId: string;
  /** The run that takes the message up. A queued message's run can be waited for already. */
  runId: string;
  /** The message waits for an active run, which may be a maintenance run. */
  queued: boolean;
  /** Position in the queue, from 1; 0: not queued. */
  position: number;
  /** Status of the run. */
  status: RunStatus;
}>;

/**
 * The place of a message that comes while a run is active. `steer`: its next model request. `followup`: a run of its
 * own afterwards. `interrupt`: the same, and the active run is cancelled. `reject`: none, it is refused
 * (`session_busy`).
 */
export type Delivery = 'steer' | 'followup' | 'interrupt' | 'reject';

type NamedFile = Readonly<{ type: 'file' | 'image'; mediaType?: string | undefined; filename?: string | undefined }>;

/** A user's text or file: an uploaded blob, base64, or a data or http(s) URL. */
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

/** A stored file. `url` is `@blob:` with the id of a blob, or an http(s) URL. */
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

/** The marks of a part: they change how the model is shown it. The part itself stays as recorded. */
export type PartHistory = Readonly<{
  /** Time at which a prune put a placeholder in its place. */
  compactedAt?: string;
  /** Time at which its images and files were replaced by their names. */
  mediaStrippedAt?: string;
  /** Characters beyond which the middle of its output is left out. */
  viewLimitChars?: number;
  /** Tokens of the output or file before that, or before it was cut. */
  originalTokens?: number;
  /** The output was cut when it was stored. `outputBlobId` has the whole. */
  truncated?: true;
}>;

export type ToolPart = FromProvider &
  PartHistory &
  Readonly<{
    type: 'tool';
    /** Unique id of the call. `toolCallId` is the provider's, which may repeat. */
    id?: string;
    toolCallId: string;
    toolName: string;
    input: Json;
    state: ToolCallState;
    output?: ToolOutput;
    /** The blob with the whole output, if `output` has only its head and tail. */
    outputBlobId?: string;
    providerExecuted?: boolean;
    resultProviderMetadata?: ProviderMetadata;
  }>;

/** Set if one step took up several queued messages: the number, from 1, of the one that begins with this part. */
type FromQueue = Readonly<{ queuedNo?: number }>;

export type TextPart = FromProvider & FromQueue & Readonly<{ type: 'text'; text: string }>;

export type FilePart = FromProvider & FromQueue & StoredFile;

/** A source of the model's answer: a page by its `url`, or a document. */
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

export type CompactionPart = Readonly<{ type: 'compaction'; text: string }>;

export type Part = AnyPart | ToolPart;

export type Message = Readonly<{
  id: string;
  /** Position in the transcript. */
  seq: number;
  role: 'user' | 'assistant';
  runId: string | null;
  step: number | null;
  model: string | null;
  /** Null while the message is being written. */
  finishReason: string | null;
  usage: Usage | null;
  /** The error that left the message incomplete. */
  error: RunError | null;
  isSummary: boolean;
  /** The messages that a summary replaces, and the round of compaction that wrote it. */
  summaryOf: Readonly<{ round: number; fromSeq: number; uptoSeq: number }> | null;
  parts: readonly Part[];
  createdAt: string;
}>;

/** Oldest first. `next` is the `after` of the page that follows, `previous` the `before` of the one in front. */
export type MessagePage = Readonly<{ messages: readonly Message[]; next: number | null; previous: number | null }>;

export type WaitingMessage = Readonly<{
  id: string;
  position: number;
  delivery: Exclude<Delivery, 'reject'>;
  content: readonly Json[];
  enqueuedAt: string;
}>;

/** Replaces content that is too large to repeat: its size as JSON, and the path at which it can be read. */
export type ContentRef = Readonly<{ sizeBytes: number; href: string }>;

/** A queued message, with its content or a reference to it. */
export type WaitingNotice = Omit<WaitingMessage, 'content'> &
  Readonly<{ content?: WaitingMessage['content']; contentRef?: ContentRef }>;

export type QueuePage = Readonly<{ messages: readonly WaitingMessage[]; nextCursor: string | null }>;
