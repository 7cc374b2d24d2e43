import { z } from 'zod';
import { isWithinJsonDepth } from '../json-bounds.ts';
import { type Json, jsonSchema, type ProviderMetadata } from '../transcript/message.ts';
import { MAX_JSON_DEPTH } from '../tunables.ts';

/** JSON after a round trip: libraries leave `undefined` in values. A value without a JSON form is a schema issue. */
const asJsonSchema = z.unknown().transform((value, context): Json => {
  try {
    const json: Json = JSON.parse(JSON.stringify(value) ?? 'null');
    if (isWithinJsonDepth(json)) return json;
    context.addIssue({ code: 'custom', message: `at most ${MAX_JSON_DEPTH} levels deep` });
    return z.NEVER;
  } catch (cause) {
    context.addIssue({ code: 'custom', message: `not JSON: ${cause instanceof Error ? cause.message : 'unknown'}` });
    return z.NEVER;
  }
});

const providerOptionsSchema = asJsonSchema.pipe(z.record(z.string(), z.record(z.string(), jsonSchema))).optional();
const options = { providerOptions: providerOptionsSchema };

const textSchema = z.object({ type: z.literal('text'), text: z.string(), ...options });
const reasoningSchema = z.object({ type: z.literal('reasoning'), text: z.string(), ...options });

const bytesSchema = z
  .union([z.instanceof(Uint8Array), z.instanceof(ArrayBuffer)])
  .transform((bytes) => toBase64(bytes instanceof ArrayBuffer ? new Uint8Array(bytes) : bytes));
const urlSchema = z.union([z.string(), z.instanceof(URL).transform((url) => url.href)]);

/** Turns bytes, base64 and URLs in every form of the SDK into data of a URL; null: one provider's own form. */
const fileDataSchema = z.union([
  z.object({ type: z.literal('data'), data: z.union([z.string(), bytesSchema]) }).transform(({ data }) => ({ data })),
  z.object({ type: z.literal('url'), url: urlSchema }).transform(({ url }) => ({ url })),
  bytesSchema.transform((data) => ({ data })),
  urlSchema.transform((text) => (/^(data|https?):/i.test(text) ? { url: text } : { data: text })),
  z.record(z.string(), z.unknown()).transform(() => null),
]);
export type ImportedFileData = z.infer<typeof fileDataSchema>;

const fileSchema = z.object({
  type: z.literal('file'),
  data: fileDataSchema,
  mediaType: z.string(),
  filename: z.string().optional(),
  ...options,
});
const imageSchema = z.object({
  type: z.literal('image'),
  image: fileDataSchema,
  mediaType: z.string().default('image/png'),
  ...options,
});

const callSchema = z.object({
  type: z.literal('tool-call'),
  toolCallId: z.string(),
  toolName: z.string(),
  input: asJsonSchema,
  providerExecuted: z.boolean().optional(),
  ...options,
});

/** An item of a result; null: any other form, which is dropped. */
const outputItemSchema = z.union([
  z.object({ type: z.literal('text'), text: z.string() }),
  fileSchema,
  z.object({ type: z.string() }).transform(() => null),
]);

const outputSchema = z.discriminatedUnion('type', [
  z.object({ type: z.literal('text'), value: z.string() }),
  z.object({ type: z.literal('json'), value: asJsonSchema }),
  z.object({ type: z.literal('error-text'), value: z.string() }),
  z.object({ type: z.literal('error-json'), value: asJsonSchema }),
  z.object({ type: z.literal('execution-denied'), reason: z.string().optional() }),
  z.object({ type: z.literal('content'), value: z.array(outputItemSchema) }),
]);
export type ImportedOutput = z.infer<typeof outputSchema>;

const resultSchema = z.object({
  type: z.literal('tool-result'),
  toolCallId: z.string(),
  toolName: z.string(),
  output: outputSchema,
  ...options,
});

/** Parts that Baton cannot represent. */
const foreignSchema = z.object({
  type: z.enum(['custom', 'reasoning-file', 'tool-approval-request', 'tool-approval-response']),
});

const contentOf = <Part extends z.ZodType>(part: Part) =>
  z.union([z.string().transform((text) => [{ type: 'text' as const, text }]), z.array(part)]);

/** A message of the AI SDK to import: takes everything that `modelMessageSchema` of the SDK takes. */
export const importedMessageSchema = z.discriminatedUnion('role', [
  z.object({ role: z.literal('system') }),
  z.object({
    role: z.literal('user'),
    content: contentOf(z.discriminatedUnion('type', [textSchema, fileSchema, imageSchema])),
  }),
  z.object({
    role: z.literal('assistant'),
    content: contentOf(
      z.discriminatedUnion('type', [textSchema, reasoningSchema, fileSchema, callSchema, resultSchema, foreignSchema]),
    ),
  }),
  z.object({
    role: z.literal('tool'),
    content: z.array(z.discriminatedUnion('type', [resultSchema, foreignSchema])),
  }),
]);

type Imported = z.infer<typeof importedMessageSchema>;
export type ImportedPart = Extract<Imported, { role: 'user' | 'assistant' }>['content'][number];
export type ImportedResult = z.infer<typeof resultSchema>;
export type ImportedOptions = ProviderMetadata | undefined;

function toBase64(bytes: Uint8Array): string {
  let binary = '';
  // In chunks, because a call takes only so many arguments.
  for (let start = 0; start < bytes.length; start += 8192) {
    binary += String.fromCharCode(...bytes.subarray(start, start + 8192));
  }
  return btoa(binary);
}
