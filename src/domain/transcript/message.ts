import { z } from 'zod';
import { isWrittenNumber } from '../exact-json.ts';
import { TOOL_CALL_STATES } from './tool-call.ts';

export type Json = z.core.util.JSONType;

/** Any JSON value, which is passed on itself: a copy would lose the digits of numbers and the order of keys. */
export const jsonSchema = z.unknown().refine(isJson, 'must be JSON') as z.ZodType<Json>;

function isJson(value: unknown): boolean {
  if (typeof value === 'number') return Number.isFinite(value);
  if (typeof value !== 'object') return typeof value === 'string' || typeof value === 'boolean';
  if (value === null || isWrittenNumber(value)) return true;
  return (Array.isArray(value) ? value : Object.values(value)).every(isJson);
}

/** The arguments of a call. */
export const jsonObjectSchema = z
  .unknown()
  .refine((value) => isObject(value) && !isWrittenNumber(value) && isJson(value), 'must be an object') as z.ZodType<
  Record<string, Json>
>;

/** A provider's data on a part (signatures, encrypted reasoning, ids), sent back verbatim to the same model only. */
const providerMetadataSchema = z.record(z.string(), z.record(z.string(), jsonSchema));
export type ProviderMetadata = z.infer<typeof providerMetadataSchema>;

const metadata = { providerMetadata: providerMetadataSchema.optional() };

/**
 * Number, from 1, of the queued message that begins with this part. Only in a message that a step drained from several.
 */
const queuedNo = z.number().int().positive().optional();

export const textPartSchema = z.strictObject({ type: z.literal('text'), text: z.string(), queuedNo, ...metadata });
export const reasoningPartSchema = z.strictObject({ type: z.literal('reasoning'), text: z.string(), ...metadata });
const filePartSchema = z.strictObject({
  type: z.literal('file'),
  mediaType: z.string(),
  filename: z.string().optional(),
  /** A data URL (never in storage), an http(s) URL or a `@blob:` reference. */
  url: z.string(),
  /** Of a file that is a blob. */
  sizeBytes: z.number().int().positive().optional(),
  queuedNo,
  ...metadata,
});
const sourcePartSchema = z.strictObject({
  type: z.literal('source'),
  sourceId: z.string(),
  url: z.string().optional(),
  title: z.string().optional(),
  /** Of a document, which has no URL. */
  mediaType: z.string().optional(),
  filename: z.string().optional(),
  ...metadata,
});
export type SourcePart = z.infer<typeof sourcePartSchema>;
const stepStartPartSchema = z.strictObject({ type: z.literal('step-start') });
export const compactionPartSchema = z.strictObject({ type: z.literal('compaction'), text: z.string() });

/** A text or file of an output; files are named as in messages. */
export const outputItemSchema = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('text'), text: z.string() }),
  filePartSchema.omit({ queuedNo: true, providerMetadata: true }),
]);
export type OutputItem = z.infer<typeof outputItemSchema>;

const toolOutputOf = (json: z.ZodType<Json>) =>
  z.discriminatedUnion('type', [
    z.strictObject({ type: z.literal('text'), value: z.string() }),
    z.strictObject({ type: z.literal('json'), value: json }),
    z.strictObject({ type: z.literal('content'), value: z.array(outputItemSchema).min(1) }),
    z.strictObject({ type: z.literal('error-text'), value: z.string() }),
    z.strictObject({ type: z.literal('execution-denied'), reason: z.string().optional() }),
  ]);

/** The outcome of a tool call as the model reads it. */
const toolOutputSchema = toolOutputOf(jsonSchema);
export type ToolOutput = z.infer<typeof toolOutputSchema>;

const toolPartSchema = z.strictObject({
  type: z.literal('tool'),
  toolCallId: z.string(),
  toolName: z.string(),
  input: jsonSchema,
  state: z.enum(TOOL_CALL_STATES),
  output: toolOutputSchema.optional(),
  /** The blob with the whole output (`blob_…`), if `output` has only head and tail. */
  outputBlobId: z.string().optional(),
  /** The provider ran the tool itself, and its result came with the response. */
  providerExecuted: z.boolean().optional(),
  resultProviderMetadata: providerMetadataSchema.optional(),
  ...metadata,
});

export const partSchema = z.discriminatedUnion('type', [
  textPartSchema,
  reasoningPartSchema,
  toolPartSchema,
  filePartSchema,
  sourcePartSchema,
  stepStartPartSchema,
  compactionPartSchema,
]);

export type Part = z.infer<typeof partSchema>;

const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

// Postgres returns valid JSON. Validating it again took most of the time of reading a view.
const knownJson = z.custom<Json>((value) => value !== undefined);
const knownMetadata = z
  .custom<ProviderMetadata>((value) => isObject(value) && Object.values(value).every(isObject))
  .optional();

/** A part from the database, checked except for its JSON values. */
export const storedPartSchema: z.ZodType<Part> = z.discriminatedUnion('type', [
  textPartSchema.extend({ providerMetadata: knownMetadata }),
  reasoningPartSchema.extend({ providerMetadata: knownMetadata }),
  toolPartSchema.extend({
    input: knownJson,
    output: toolOutputOf(knownJson).optional(),
    providerMetadata: knownMetadata,
    resultProviderMetadata: knownMetadata,
  }),
  filePartSchema.extend({ providerMetadata: knownMetadata }),
  sourcePartSchema.extend({ providerMetadata: knownMetadata }),
  stepStartPartSchema,
  compactionPartSchema,
]);

export type ToolPart = z.infer<typeof toolPartSchema>;
export type TextPart = z.infer<typeof textPartSchema>;
export type FilePart = z.infer<typeof filePartSchema>;

/** The fields of a file and of a source in events, without provider metadata. */
export const fileFieldsSchema = filePartSchema.omit({ type: true, queuedNo: true, providerMetadata: true });
export const sourceFieldsSchema = sourcePartSchema.omit({ type: true, providerMetadata: true });

export const userPartSchema = z.discriminatedUnion('type', [textPartSchema, filePartSchema]);
export type UserPart = z.infer<typeof userPartSchema>;

export const MESSAGE_ROLES = ['user', 'assistant'] as const;
export type MessageRole = (typeof MESSAGE_ROLES)[number];

export const FINISH_REASONS = ['stop', 'length', 'content-filter', 'tool-calls', 'error', 'other', 'aborted'] as const;
export type FinishReason = (typeof FINISH_REASONS)[number];

/** Marks that change how the view shows a part. The part itself stays as recorded. */
export const partMarksSchema = z.strictObject({
  /** A placeholder replaces a tool's output and the long texts of its input. */
  pruned: z.literal(true).optional(),
  /** Longer tool outputs lose their middle in the view. */
  viewLimitChars: z.number().int().positive().optional(),
  /** A text with their names replaces images and files. */
  mediaStripped: z.literal(true).optional(),
});
export type PartMarks = Readonly<z.infer<typeof partMarksSchema>>;

export type ViewPart = Part & { readonly marks?: PartMarks };

/** A message in the view: only the fields that decide how the model is shown it. */
export type ViewMessage = Readonly<{
  id: string;
  seq: number;
  role: MessageRole;
  /** `provider/model` of its author. Reasoning and metadata go back only to that model. */
  model: string | null;
  parts: readonly ViewPart[];
}>;
