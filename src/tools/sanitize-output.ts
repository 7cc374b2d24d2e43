import { isWrittenNumber, objectOf } from '../domain/exact-json.ts';
import type { Json, OutputItem, ToolOutput } from '../domain/transcript/message.ts';
import { sanitizeText } from './sanitize-text.ts';

/** Length of the sample that decides whether a text is binary. */
const SAMPLE_CHARS = 8_192;
/** Shorter texts are shown unchanged: little is saved, and a few odd characters would decide. */
const MIN_BINARY_CHARS = 64;
/** Text in any language has almost none of these; decoded images, archives and programs have many times more. */
const MIN_UNPRINTABLE_SHARE = 0.1;

/**
 * Makes any tool output storable and readable: NUL and lone surrogates become U+FFFD in every string and key, and a
 * notice replaces text that is binary data. Pure; clean output is returned unchanged.
 */
export function sanitizeOutput(output: ToolOutput): ToolOutput {
  if (output.type === 'json') return { type: 'json', value: sanitizeJson(output.value) };
  if (output.type === 'content') return { type: output.type, value: output.value.map(sanitizeItem) };
  if (output.type === 'execution-denied') {
    return output.reason === undefined ? output : { ...output, reason: sanitizeText(output.reason) };
  }
  return { ...output, value: toShownText(output.value) };
}

function sanitizeItem(item: OutputItem): OutputItem {
  if (item.type === 'text') return { type: item.type, text: toShownText(item.text) };
  return { ...item, ...(item.filename !== undefined && { filename: sanitizeText(item.filename) }) };
}

function sanitizeJson(value: Json): Json {
  if (typeof value === 'string') return toShownText(value);
  if (value === null || typeof value !== 'object' || isWrittenNumber(value)) return value;
  if (Array.isArray(value)) return value.map(sanitizeJson);
  return objectOf(Object.entries(value).map(([key, item]) => [sanitizeText(key), sanitizeJson(item)])) as Json;
}

function toShownText(text: string): string {
  const clean = sanitizeText(text);
  return isBinary(clean) ? `[binary data, ${text.length} characters, not shown]` : clean;
}

function isBinary(text: string): boolean {
  if (text.length < MIN_BINARY_CHARS) return false;
  const sample = text.slice(0, SAMPLE_CHARS);
  return countUnprintable(sample) >= sample.length * MIN_UNPRINTABLE_SHARE;
}

/** Counts U+FFFD (undecodable bytes) and control characters, except white space and ESC. */
function countUnprintable(text: string): number {
  let count = 0;
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (code === 0xfffd || code === 0x7f || (code < 0x20 && !TEXT_CONTROLS.has(code))) count++;
  }
  return count;
}

/** Backspace, tab, line feed, form feed, carriage return, and the escape that begins the colours of terminals. */
const TEXT_CONTROLS = new Set([0x08, 0x09, 0x0a, 0x0c, 0x0d, 0x1b]);
