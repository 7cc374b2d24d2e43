import { countTokens } from 'gpt-tokenizer/encoding/o200k_base';

/** Longest stretch that is tokenized at once: byte-pair merging is super-linear in an unbroken run of characters. */
const MAX_SLICE_CHARS = 4_000;

/** Token-like texts of the payload ("<|endoftext|>") count as plain text, as a provider counts them. */
const PLAIN_TEXT = { disallowedSpecial: new Set<string>() };

/** Framing of the wire format, in tokens: role markers around each kind of item. */
export const FRAMING = { request: 3, message: 4, toolCall: 12, toolResult: 8, reasoning: 4, tool: 10 } as const;

/** The tokens of a media part, the same for every size, like a tile-based image price. */
export const MEDIA_TOKENS = 765;

/** Counts the o200k tokens of a text. Linear in its length, also for pathological texts. */
export function countText(text: string): number {
  if (text.length <= MAX_SLICE_CHARS) return countTokens(text, PLAIN_TEXT);
  let tokens = 0;
  let start = 0;
  while (start < text.length) {
    const end = sliceEnd(text, start);
    tokens += countTokens(text.slice(start, end), PLAIN_TEXT);
    start = end;
  }
  return tokens;
}

function sliceEnd(text: string, start: number): number {
  const hardEnd = start + MAX_SLICE_CHARS;
  if (hardEnd >= text.length) return text.length;
  // A cut at a line or word break changes the count by at most a token; only an unbroken run is cut inside.
  const lineBreak = text.lastIndexOf('\n', hardEnd);
  if (lineBreak > start + MAX_SLICE_CHARS / 2) return lineBreak;
  const space = text.lastIndexOf(' ', hardEnd);
  if (space > start + MAX_SLICE_CHARS / 2) return space;
  return isHighSurrogate(text, hardEnd - 1) ? hardEnd - 1 : hardEnd;
}

/** Whether the UTF-16 unit at that index is the first half of a pair; a cut after it would break a character. */
export function isHighSurrogate(text: string, at: number): boolean {
  const unit = text.charCodeAt(at);
  return unit >= 0xd800 && unit <= 0xdbff;
}
