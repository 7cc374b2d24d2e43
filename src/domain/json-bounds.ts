import { MAX_JSON_DEPTH, MAX_JSON_VALUES } from './tunables.ts';

/** Whether a JSON value has at most `MAX_JSON_DEPTH` levels. Deeper levels are not visited. */
export function isWithinJsonDepth(value: unknown): boolean {
  return isWithin(value, MAX_JSON_DEPTH);
}

function isWithin(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return true;
  const inner = Array.isArray(value) ? value : Object.values(value);
  return inner.length === 0 || (levels > 0 && inner.every((item) => isWithin(item, levels - 1)));
}

export type JsonExcess = 'values' | 'levels';

export type JsonGauge = Readonly<{
  /** Takes the next bytes of the text. Null: within bounds so far. */
  take: (bytes: Uint8Array) => JsonExcess | null;
  values: () => number;
}>;

/** Levels of a body around a value that may have `MAX_JSON_DEPTH` of its own. */
const ENVELOPE_LEVELS = 20;

const QUOTE = 0x22;
const COMMA = 0x2c;
const OPENING_BRACKET = 0x5b;
const BACKSLASH = 0x5c;
const CLOSING_BRACKET = 0x5d;
const OPENING_BRACE = 0x7b;
const CLOSING_BRACE = 0x7d;
const SPACE = 0x20;

/** Whether JSON texts that came as strings are within bounds; their values are added up. */
export function areJsonTextsBounded(texts: Iterable<string>): boolean {
  let values = 0;
  for (const text of texts) {
    const gauge = createJsonGauge(MAX_JSON_VALUES - values);
    if (gauge.take(new TextEncoder().encode(text)) !== null) return false;
    values += gauge.values();
  }
  return true;
}

/**
 * Counts the values and levels of a JSON text in UTF-8 while it arrives, before it is parsed: a small text can stand
 * for millions of values. Invalid JSON gets some count; its parser refuses it.
 */
export function createJsonGauge(maxValues = MAX_JSON_VALUES): JsonGauge {
  const maxLevels = MAX_JSON_DEPTH + ENVELOPE_LEVELS;
  let values = 1;
  let levels = 0;
  /** A list or an object was opened and has no content yet. */
  let isOpened = false;
  let isInString = false;
  let isEscaped = false;

  /** Returns the index of the closing quote, or the number of bytes. */
  function skipString(bytes: Uint8Array, start: number): number {
    let at = start;
    if (isEscaped) at++;
    for (; at < bytes.length; at++) {
      const byte = bytes[at];
      if (byte === BACKSLASH) at++;
      else if (byte === QUOTE) {
        isInString = false;
        isEscaped = false;
        return at;
      }
    }
    // The second byte of an escape is yet to come.
    isEscaped = at > bytes.length;
    return bytes.length;
  }

  function takeOutsideString(byte: number): void {
    if (byte === CLOSING_BRACKET || byte === CLOSING_BRACE) {
      isOpened = false;
      levels--;
      return;
    }
    if (isOpened || byte === COMMA) values++;
    isOpened = byte === OPENING_BRACKET || byte === OPENING_BRACE;
    if (isOpened) levels++;
    isInString = byte === QUOTE;
  }

  function take(bytes: Uint8Array): JsonExcess | null {
    for (let at = isInString ? skipString(bytes, 0) + 1 : 0; at < bytes.length; at++) {
      const byte = bytes[at] ?? SPACE;
      if (byte <= SPACE) continue;
      takeOutsideString(byte);
      if (values > maxValues) return 'values';
      if (levels > maxLevels) return 'levels';
      if (isInString) at = skipString(bytes, at + 1);
    }
    return null;
  }

  return { take, values: () => values };
}
