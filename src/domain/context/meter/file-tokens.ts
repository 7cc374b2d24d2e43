import { fileForModel, isInlineText } from '../../model/model-files.ts';
import type { FilePart } from '../../transcript/message.ts';
import type { TokenCounter } from './tokens.ts';

/** An image of about one megapixel or more: providers scale down to it. */
const IMAGE_TOKENS = 1_500;
/** A page of a PDF is sent as text and as image. */
const PDF_PAGE_TOKENS = 2_000;
const PDF_PAGE_BYTES = 50_000;
/** Assumed for a PDF of unknown size, because only the provider reads it. */
const PDF_PAGES_UNSEEN = 10;
/** For a text file in a blob, which is read only for the request: code has more tokens than prose. */
const BYTES_PER_TOKEN = 3;
const BASE64_CHARS_PER_BYTE = 4 / 3;

export function estimateFile(part: FilePart, count: TokenCounter): number {
  const sent = fileForModel(part);
  const isBlob = part.url.startsWith('@blob:');
  if (sent.type === 'text' && !isBlob) return count(sent.text);
  if (isInlineText(part))
    return Math.ceil((part.sizeBytes ?? 0) / BYTES_PER_TOKEN) + count(sent.type === 'text' ? sent.text : '');
  const mediaType = part.mediaType.toLowerCase();
  if (mediaType.startsWith('image/')) return IMAGE_TOKENS;
  if (sent.type === 'text' && mediaType !== 'application/pdf') return count(sent.text);
  const isInline = sent.type === 'file' && sent.data.type === 'data';
  const bytes = part.sizeBytes ?? (isInline ? part.url.length / BASE64_CHARS_PER_BYTE : null);
  return PDF_PAGE_TOKENS * (bytes === null ? PDF_PAGES_UNSEEN : Math.ceil(bytes / PDF_PAGE_BYTES));
}
