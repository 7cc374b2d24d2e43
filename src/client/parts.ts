import type { Json } from './json.ts';

type ProviderMetadata = Readonly<Record<string, Readonly<Record<string, Json>>>>;
type FromProvider = Readonly<{ providerMetadata?: ProviderMetadata }>;

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

export type ToolCallState =
  | 'pending'
  | 'awaiting_approval'
  | 'awaiting_output'
  | 'running'
  | 'completed'
  | 'error'
  | 'denied'
  | 'unknown';

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
