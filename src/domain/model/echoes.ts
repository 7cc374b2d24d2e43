import { toBoundary } from '../truncate.ts';

/** From this many equal letters and digits in a row a text is an echo. Fewer may be a common phrase. */
const MIN_ECHO = 24;
/** The same in scripts in which a character is a word. */
const MIN_WIDE_ECHO = 8;
/** The same for a whole sent text, or for a quotation of more than one word. */
const MIN_WHOLE_ECHO = 8;
/** Echoes with fewer letters between them are one: an escaped character may part them. */
const MAX_GAP = 4;
/** More than a request has; the rest is not searched. */
const MAX_SENT_CHARS = 16_000_000;

const CUT = '[…]';

/** Letters and digits of a text in lower case, with their positions in it. */
type Folded = Readonly<{ codes: Uint16Array; places: Uint32Array; length: number }>;

/** Positions in the text of the pieces to look for, by the hash of their letters. */
type Pieces = Readonly<{
  length: number;
  places: Map<number, number[]>;
  /** Set if some hash has these low bits: this alone skips most of the sent text. */
  mayOccur: Uint8Array;
}>;
const LOW_BITS = 0xffff;

/**
 * Removes from a text all that repeats the prompt: providers quote it in their errors. Compares only letters and
 * digits, so that escaping, line breaks and other quotation marks hide nothing; takes time linear in the sent text.
 * @param sent the texts of the prompt
 */
export function withoutEchoes(text: string, sent: Iterable<string>): string {
  const folded = fold(text);
  const index = piecesOf(folded, text);
  const isEcho = new Uint8Array(folded.length);
  let left = MAX_SENT_CHARS;
  for (const one of sent) {
    if (left <= 0) break;
    const own = fold(one.slice(0, left));
    left -= one.length;
    markWhole(own, folded, isEcho);
    for (const pieces of index) markShared(own, folded, pieces, isEcho);
  }
  return cutMarked(text, folded, isEcho);
}

function piecesOf(folded: Folded, text: string): readonly Pieces[] {
  const byLength = new Map<number, Pieces>();
  const add = (start: number, length: number): void => {
    const pieces = byLength.get(length) ?? { length, places: new Map(), mayOccur: new Uint8Array(LOW_BITS + 1) };
    byLength.set(length, pieces);
    const hash = hashOf(folded.codes, start, length);
    pieces.mayOccur[hash & LOW_BITS] = 1;
    const places = pieces.places.get(hash);
    if (places === undefined) pieces.places.set(hash, [start]);
    else places.push(start);
  };
  for (let start = 0; start + MIN_ECHO <= folded.length; start++) add(start, MIN_ECHO);
  let wide = 0;
  for (let end = 0; end < folded.length; end++) {
    wide = isWide(folded.codes[end] ?? 0) ? wide + 1 : 0;
    if (wide >= MIN_WIDE_ECHO) add(end - MIN_WIDE_ECHO + 1, MIN_WIDE_ECHO);
  }
  for (const { index: from, 0: quoted } of text.matchAll(QUOTATION)) {
    const start = placeOf(folded, from);
    const length = placeOf(folded, from + quoted.length) - start;
    if (length >= MIN_WHOLE_ECHO && length < MIN_ECHO) add(start, length);
  }
  return [...byLength.values()];
}

/** More than one word between quotation marks: a single word is mostly the name of a parameter. */
const QUOTATION = /(?<=^|[\s([{:=,])(?:'[^\s']+\s[^']*'|"[^\s"]+\s[^"]*"|`[^\s`]+\s[^`]*`|“[^\s”]+\s[^”]*”)/g;

function placeOf({ places, length }: Folded, position: number): number {
  let place = 0;
  while (place < length && (places[place] ?? 0) < position) place++;
  return place;
}

/** Marks the pieces of this length that both texts share, with a hash that rolls over the sent text. */
function markShared(own: Folded, folded: Folded, { length, places, mayOccur }: Pieces, isEcho: Uint8Array): void {
  if (own.length < length) return;
  const { codes } = own;
  const leaving = powerOf(length);
  let hash = hashOf(codes, 0, length);
  for (let start = 0; ; start++) {
    if (mayOccur[hash & LOW_BITS] === 1) {
      const found = places.get(hash);
      if (found !== undefined && isAtAny(found, codes.subarray(start, start + length), folded)) {
        for (const place of found) isEcho.fill(1, place, place + length);
        // A piece has to be found only once.
        places.delete(hash);
      }
    }
    if (start + length >= own.length) return;
    const entering = codes[start + length] ?? 0;
    hash = (Math.imul(hash, BASE) + entering - Math.imul(codes[start] ?? 0, leaving)) | 0;
  }
}

function markWhole(own: Folded, folded: Folded, isEcho: Uint8Array): void {
  if (own.length < MIN_WHOLE_ECHO || own.length >= MIN_ECHO) return;
  const codes = own.codes.subarray(0, own.length);
  for (let place = 0; place + own.length <= folded.length; place++) {
    if (isAt(place, codes, folded)) isEcho.fill(1, place, place + own.length);
  }
}

const isAtAny = (places: readonly number[], piece: Uint16Array, folded: Folded): boolean =>
  places.some((place) => isAt(place, piece, folded));

function isAt(place: number, piece: Uint16Array, { codes }: Folded): boolean {
  for (let at = 0; at < piece.length; at++) if (piece[at] !== codes[place + at]) return false;
  return true;
}

function cutMarked(text: string, { places, length }: Folded, isEcho: Uint8Array): string {
  let kept = '';
  let from = 0;
  for (let start = isEcho.indexOf(1); start !== -1; ) {
    let end = start;
    for (let at = start; at < length && at - end <= MAX_GAP; at++) if (isEcho[at] === 1) end = at;
    kept += text.slice(from, places[start]) + CUT;
    from = toBoundary(text, (places[end] ?? 0) + 1, 1);
    start = isEcho.indexOf(1, end + 1);
  }
  return kept + text.slice(from);
}

/** An escaped character or an HTML entity that stands for no letter; possibly escaped again. */
const ESCAPED = /\\+(?:[nrtbfv"'`/]|(?!u))|&(?:amp;)*(?:quot|amp|lt|gt|nbsp|#\d{1,4}|#x[\da-f]{1,4});/iy;
const UNICODE_ESCAPE = /\\+u([\da-f]{4})/iy;

function fold(text: string): Folded {
  const codes = new Uint16Array(text.length);
  const places = new Uint32Array(text.length);
  let length = 0;
  for (let at = 0; at < text.length; at++) {
    let code = text.charCodeAt(at);
    const place = at;
    if (code === BACKSLASH || code === AMPERSAND) {
      const escaped = matchAt(UNICODE_ESCAPE, text, at);
      code = escaped === null ? 0 : Number.parseInt(escaped[1] ?? '', 16);
      at += Math.max(1, (escaped ?? matchAt(ESCAPED, text, at))?.[0].length ?? 1) - 1;
    }
    if (!isLetter(code)) continue;
    codes[length] = code >= 65 && code <= 90 ? code + 32 : code;
    places[length++] = place;
  }
  return { codes, places, length };
}

const BACKSLASH = 92;
const AMPERSAND = 38;

function matchAt(pattern: RegExp, text: string, at: number): RegExpExecArray | null {
  pattern.lastIndex = at;
  return pattern.exec(text);
}

/** Whether a character is an ASCII letter or digit, or beyond ASCII anything but a space or punctuation. */
function isLetter(code: number): boolean {
  if (code < 128) return (code >= 48 && code <= 57) || (code >= 65 && code <= 90) || (code >= 97 && code <= 122);
  return code >= 0xc0 && !MARKS.some(([from, to]) => code >= from && code <= to);
}

/** Spaces, punctuation, its full-width forms and the byte order mark. */
const MARKS = [
  [0x2000, 0x206f],
  [0x3000, 0x303f],
  [0xfe10, 0xfe6f],
  [0xfeff, 0xff0f],
  [0xff1a, 0xff20],
] as const;

const isWide = (code: number): boolean => code >= 0x2e80;

const BASE = 1_000_003;

function hashOf(codes: Uint16Array, start: number, length: number): number {
  let hash = 0;
  for (let at = start; at < start + length; at++) hash = (Math.imul(hash, BASE) + (codes[at] ?? 0)) | 0;
  return hash;
}

function powerOf(exponent: number): number {
  let power = 1;
  for (let count = 0; count < exponent; count++) power = Math.imul(power, BASE);
  return power;
}
