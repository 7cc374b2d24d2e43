import { z } from 'zod';
import type { OutputItem } from './message.ts';

const bytes = z.union([z.string().min(1), z.instanceof(Uint8Array)]);

const filename = z.string().optional();

const mediaType = z.string().min(1);

const url = z.union([z.string(), z.instanceof(URL).transform((parsed) => parsed.href)]);

const ofAnyProvider = z.unknown().optional();

/** The items of content that the AI SDK's `toModelOutput` may return, in this and in earlier versions. */
export const itemSchema = z.discriminatedUnion('type', [
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

/** Null: not an item of content in the AI SDK's form. */
export function toContentItem(value: unknown): OutputItem | null {
  const parsed = itemSchema.safeParse(value);
  return parsed.success ? toItem(parsed.data) : null;
}

export function toItem(item: ContentItem): OutputItem {
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
