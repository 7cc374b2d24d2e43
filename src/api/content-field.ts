import { z } from '@hono/zod-openapi';
import { listOf } from '../domain/bounded-list.ts';
import { formatId } from '../domain/ids.ts';
import { bareMediaType } from '../domain/media-type.ts';
import type { FilePart, UserPart } from '../domain/transcript/message.ts';
import { MAX_CONTENT_BODY_BYTES, MAX_MESSAGE_CHARS, MAX_MESSAGE_FILES, MAX_MESSAGE_PARTS } from '../domain/tunables.ts';
import { idField, textField } from './fields.ts';

const MAX_URL_CHARS = 8_192;

/** Providers refuse a text without a visible character. */
const messageText = textField(MAX_MESSAGE_CHARS).refine((text) => text.trim() !== '', { error: 'must not be blank' });

const textPart = z.strictObject({ type: z.literal('text'), text: messageText });

/** A blob as the transcript and the UI's messages name it, so that a client can send back a file that it has read. */
const BLOB_URL = /^(?:@blob:|\/v1\/blobs\/)(blob_[0-9a-f]{32})$/;

const isUrl = (text: string): boolean =>
  /^data:/i.test(text) || BLOB_URL.test(text) || (/^https?:\/\//i.test(text) && text.length <= MAX_URL_CHARS);

const url = z.string().max(MAX_CONTENT_BODY_BYTES).refine(isUrl, { error: 'must be a data URL, or an http(s) URL' });

/** A file: its bytes, a blob, or a URL that the provider fetches. */
export const filePart = z
  .strictObject({
    type: z.enum(['file', 'image']),
    url: url.optional().openapi({ description: 'A data URL, or an http(s) URL that the provider fetches.' }),
    data: z.base64().max(MAX_CONTENT_BODY_BYTES).optional().openapi({ description: 'Bytes of the file.' }),
    blobId: idField('blob').optional(),
    mediaType: textField(255)
      .refine((text) => bareMediaType(text) !== null, { error: 'is not a media type' })
      .optional()
      .openapi({
        description: 'Required for http(s) URLs. For other files Baton detects the type from the first bytes.',
      }),
    filename: textField(255).min(1).optional(),
  })
  .refine((part) => [part.url, part.data, part.blobId].filter((from) => from !== undefined).length === 1, {
    error: 'needs exactly one of url, data and blobId',
  })
  .refine((part) => part.mediaType !== undefined || part.url === undefined || !/^https?:/i.test(part.url), {
    path: ['mediaType'],
    error: 'is needed with an http(s) URL',
  });

type FilePartBody = z.infer<typeof filePart>;

/** Content of a user message: a text, or parts. */
export const contentField = z.union([
  messageText,
  listOf(z.discriminatedUnion('type', [textPart, filePart]), MAX_MESSAGE_PARTS)
    .min(1)
    .refine((parts) => charsOf(parts) <= MAX_MESSAGE_CHARS, {
      error: `at most ${MAX_MESSAGE_CHARS} characters altogether`,
    })
    .refine((parts) => parts.filter(({ type }) => type !== 'text').length <= MAX_MESSAGE_FILES, {
      error: `at most ${MAX_MESSAGE_FILES} files`,
    }),
]);

const charsOf = (parts: readonly (z.infer<typeof textPart> | FilePartBody)[]): number =>
  parts.reduce((sum, part) => sum + (part.type === 'text' ? part.text.length : 0), 0);

/** The parts of a content. Files are named by URL: data, http(s) or `@blob:`. */
export function toParts(content: z.infer<typeof contentField>): readonly UserPart[] {
  if (typeof content === 'string') return [{ type: 'text', text: content }];
  return content.map((part) => (part.type === 'text' ? part : toFilePart(part)));
}

/** A file by URL: data, http(s) or `@blob:`. */
export function toFilePart({ url: address, data, blobId, mediaType, filename }: FilePartBody): FilePart {
  const named = blobId === undefined ? BLOB_URL.exec(address ?? '')?.[1] : formatId('blob', blobId);
  const inline = address ?? `data:${mediaType ?? ''};base64,${data ?? ''}`;
  const bare = mediaType === undefined ? null : bareMediaType(mediaType);
  return {
    type: 'file',
    // Empty: the media type is sniffed from the bytes.
    mediaType: bare ?? '',
    url: named === undefined ? inline : `@blob:${named}`,
    ...(filename !== undefined && { filename }),
  };
}
