import type { FilePart } from '../transcript/message.ts';
import { frameTextFile, isBlank, missingFileNotice } from './model-frames.ts';
import type { ModelFilePart, ModelTextPart } from './model-message.ts';

/** Types that both OpenAI and Anthropic take in a user message. They refuse the whole request for any other. */
const SENDABLE_MEDIA_TYPES: ReadonlySet<string> = new Set([
  'image/png',
  'image/jpeg',
  'image/gif',
  'image/webp',
  'application/pdf',
]);

const TEXT_MEDIA_TYPES =
  /^(?:text\/[^/]+|application\/(?:json|xml|(?:x-)?yaml|toml|sql|javascript|x-sh|[^/]+\+(?:json|xml|yaml)))$/;

/** About 32 000 tokens. A longer text is named and not shown. */
const MAX_INLINE_TEXT_BYTES = 131_072;

export const isTextFile = (mediaType: string): boolean => TEXT_MEDIA_TYPES.test(mediaType.toLowerCase());

/** Whether a user's file is shown as text within the message, because no provider takes it as a file. */
export function isInlineText({ mediaType, sizeBytes, url }: FilePart): boolean {
  if (!isTextFile(mediaType)) return false;
  return !/^https?:/i.test(url) && (sizeBytes ?? url.length) <= MAX_INLINE_TEXT_BYTES;
}

const BASE64_DATA_URL = /^data:[^,]*;base64,([A-Za-z0-9+/]+={0,2})$/;

/** Bytes of blobs as base64, by `@blob:` reference. */
export type MediaContents = ReadonlyMap<string, string>;

/** A file as the model is sent it, or a text that names it if no provider takes it or its bytes are missing. */
export function fileForModel(part: FilePart, contents?: MediaContents): ModelFilePart | ModelTextPart {
  const mediaType = part.mediaType.toLowerCase();
  const written = isInlineText(part) ? textOf(part.url, contents) : null;
  if (written !== null) return { type: 'text', text: frameTextFile(written, part.mediaType, part.filename) };
  const data = SENDABLE_MEDIA_TYPES.has(mediaType) ? fileData(part.url, contents) : null;
  if (data === null) return { type: 'text', text: missingFileNotice(part.mediaType, part.filename) };
  const { filename } = part;
  return { type: 'file', data, mediaType, ...(filename !== undefined && !isBlank(filename) && { filename }) };
}

function textOf(url: string, contents: MediaContents | undefined): string | null {
  const base64 = contents?.get(url) ?? BASE64_DATA_URL.exec(url)?.[1];
  if (base64 === undefined) return null;
  const bytes = Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
  return new TextDecoder().decode(bytes).replaceAll('\u0000', '\ufffd');
}

function fileData(url: string, contents: MediaContents | undefined): ModelFilePart['data'] | null {
  const kept = contents?.get(url);
  if (kept !== undefined) return { type: 'data', data: kept };
  const inline = BASE64_DATA_URL.exec(url)?.[1];
  if (inline !== undefined) return { type: 'data', data: inline };
  const parsed = /^https?:/i.test(url) ? URL.parse(url) : null;
  return parsed === null ? null : { type: 'url', url: parsed };
}
