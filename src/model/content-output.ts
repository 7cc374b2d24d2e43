import { z } from 'zod';
import { BatonError } from '../domain/errors.ts';
import type { OutputItem, ToolOutput } from '../domain/transcript/message.ts';
import { toJsonOutput } from './response-parts.ts';

const bytes = z.union([z.string().min(1), z.instanceof(Uint8Array)]);
const filename = z.string().optional();
const mediaType = z.string().min(1);
const url = z.union([z.string(), z.instanceof(URL).transform((parsed) => parsed.href)]);
const ofAnyProvider = z.unknown().optional();

/** The items of content that the AI SDK's `toModelOutput` may return, in this and in earlier versions. */
const itemSchema = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('text'), text: z.string(), providerOptions: ofAnyProvider }),
  z.strictObject({
    type: z.literal('file'),
    mediaType,
    filename,
    data: z.discriminatedUnion('type', [
      z.strictObject({ type: z.literal('data'), data: bytes }),
      z.strictObject({ type: z.literal('url'), url }),
      z.strictObject({ type: z.literal('text'), text: z.string() }),
    ]),
    providerOptions: ofAnyProvider,
  }),
  z.strictObject({
    type: z.enum(['media', 'file-data', 'image-data']),
    mediaType,
    filename,
    data: bytes,
    providerOptions: ofAnyProvider,
  }),
  z.strictObject({ type: z.enum(['image-url', 'file-url']), mediaType, url, providerOptions: ofAnyProvider }),
]);
type ContentItem = z.infer<typeof itemSchema>;

const contentSchema = z.strictObject({ type: z.literal('content'), value: z.array(itemSchema).min(1) });

/** Null: not an item of content in the AI SDK's form. */
export function toContentItem(value: unknown): OutputItem | null {
  const parsed = itemSchema.safeParse(value);
  return parsed.success ? toItem(parsed.data) : null;
}

/** Null: not content in the AI SDK's form. */
export function toContentOutput(value: unknown): ToolOutput | null {
  if (typeof value !== 'object' || value === null || !('type' in value) || value.type !== 'content') return null;
  const parsed = contentSchema.safeParse(value);
  return parsed.success ? { type: 'content', value: parsed.data.value.map(toItem) } : null;
}

const outputSchema = z.discriminatedUnion('type', [
  z.object({ type: z.enum(['text', 'error-text']), value: z.string() }),
  z.object({ type: z.enum(['json', 'error-json']), value: z.unknown() }),
]);

/** The result of a tool's `toModelOutput`. @throws BatonError `internal` if it is none of the SDK's outputs */
export function toOutput(value: unknown): ToolOutput {
  const content = toContentOutput(value);
  if (content !== null) return content;
  const parsed = outputSchema.safeParse(value);
  if (!parsed.success) throw new BatonError('internal', 'The tool gave an output that cannot be shown.');
  const output = parsed.data;
  switch (output.type) {
    case 'text':
    case 'error-text':
      return { type: output.type, value: output.value };
    case 'json':
      return toJsonOutput(output.value);
    case 'error-json':
      return { type: 'error-text', value: JSON.stringify(output.value) };
  }
}

function toItem(item: ContentItem): OutputItem {
  switch (item.type) {
    case 'text':
      return { type: 'text', text: item.text };
    case 'image-url':
    case 'file-url':
      return { type: 'file', mediaType: item.mediaType, url: item.url };
    case 'file':
      if (item.data.type === 'text') return { type: 'text', text: item.data.text };
      return fileOf(item, item.data.type === 'url' ? item.data.url : dataUrl(item.mediaType, item.data.data));
    default:
      return fileOf(item, dataUrl(item.mediaType, item.data));
  }
}

function fileOf(item: Readonly<{ mediaType: string; filename?: string | undefined }>, fileUrl: string): OutputItem {
  const { mediaType: type, filename: name } = item;
  return { type: 'file', mediaType: type, url: fileUrl, ...(name !== undefined && { filename: name }) };
}

function dataUrl(type: string, data: string | Uint8Array): string {
  const base64 = typeof data === 'string' ? data : Buffer.from(data).toString('base64');
  return base64.startsWith('data:') ? base64 : `data:${type};base64,${base64}`;
}
