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

/** A file as part of a user message; a text that names it where no provider could be sent the file itself. */
export function fileForModel(part: FilePart): ModelFilePart | ModelTextPart {
  const mediaType = part.mediaType.toLowerCase();
  const data = SENDABLE_MEDIA_TYPES.has(mediaType) ? fileData(part.url) : null;
  if (data === null) return { type: 'text', text: missingFileNotice(part.mediaType, part.filename) };
  const { filename } = part;
  return { type: 'file', data, mediaType, ...(filename !== undefined && !isBlank(filename) && { filename }) };
}

function fileData(url: string): ModelFilePart['data'] | null {
  const inline = BASE64_DATA_URL.exec(url)?.[1];
  if (inline !== undefined) return { type: 'data', data: inline };
  const parsed = /^https?:/i.test(url) ? URL.parse(url) : null;
  return parsed === null ? null : { type: 'url', url: parsed };
}
