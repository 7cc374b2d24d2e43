import type { FilePart } from './message.ts';
import { isBlank, missingFileNotice } from './model-frames.ts';
import type { ModelFilePart, ModelTextPart } from './model-message.ts';

/** What OpenAI and Anthropic both take in a user message; they refuse the whole request for anything else. */
const SENDABLE_MEDIA_TYPES: ReadonlySet<string> = new Set([
  'image/png',
  'image/jpeg',
  'image/gif',
  'image/webp',
  'application/pdf',
]);

const BASE64_DATA_URL = /^data:[^,]*;base64,([A-Za-z0-9+/]+={0,2})$/;

/** The bytes of blobs as base64, by their `@blob:` references. */
export type MediaContents = ReadonlyMap<string, string>;

/**
 * A file as the model is sent it; a text that names it where no provider could be sent the file itself, or its bytes are
 * not among the contents.
 */
export function fileForModel(part: FilePart, contents?: MediaContents): ModelFilePart | ModelTextPart {
  const mediaType = part.mediaType.toLowerCase();
  const data = SENDABLE_MEDIA_TYPES.has(mediaType) ? fileData(part.url, contents) : null;
  if (data === null) return { type: 'text', text: missingFileNotice(part.mediaType, part.filename) };
  const { filename } = part;
  return { type: 'file', data, mediaType, ...(filename !== undefined && !isBlank(filename) && { filename }) };
}

function fileData(url: string, contents: MediaContents | undefined): ModelFilePart['data'] | null {
  const kept = contents?.get(url);
  if (kept !== undefined) return { type: 'data', data: kept };
  const inline = BASE64_DATA_URL.exec(url)?.[1];
  if (inline !== undefined) return { type: 'data', data: inline };
  const parsed = /^https?:/i.test(url) ? URL.parse(url) : null;
  return parsed === null ? null : { type: 'url', url: parsed };
}
