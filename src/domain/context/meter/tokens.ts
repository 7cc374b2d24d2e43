/** Counts the tokens of a text. The port through which an exact tokenizer is passed in. */
export type TokenCounter = (text: string) => number;

const LOWER = 0;
const UPPER = 1;
const DIGIT = 2;
/** Punctuation of base64, paths and names: it does not end an unbroken stretch. */
const JOINER = 3;
const PUNCTUATION = 4;
const SPACE = 5;
const LINE_BREAK = 6;
const ACCENTED = 7;
const ALPHABET = 8;
const CJK = 9;
const SYMBOL = 10;

function classOf(code: number): number {
  if (code >= 0x61 && code <= 0x7a) return LOWER;
  if (code >= 0x41 && code <= 0x5a) return UPPER;
  if (code >= 0x30 && code <= 0x39) return DIGIT;
  if (code < 0x80 && '+/=_-'.includes(String.fromCharCode(code))) return JOINER;
  if (code === 0x0a || code === 0x0d) return LINE_BREAK;
  if (code < 0x80) return code <= 0x20 ? SPACE : PUNCTUATION;
  if (code < 0x250) return ACCENTED;
  if (code < 0x2000) return ALPHABET;
  const isCjk =
    (code >= 0x3040 && code <= 0x9fff) || (code >= 0xac00 && code <= 0xd7af) || (code >= 0xf900 && code <= 0xfaff);
  return isCjk ? CJK : SYMBOL;
}

/** Class of every UTF-16 unit. A table, because the loop below runs over megabytes. */
const CLASSES = Uint8Array.from({ length: 0x10000 }, (_, code) => classOf(code));

// Tokens per class, fitted to o200k over prose, code, JSON, logs and shell output. The ratio corrects for other
// families; where tokenizers differ much, the higher cost counts.
const WORD = 0.93;
const LETTERS_IN_WORD = 6;
const LETTER_BEYOND = 0.11;
const DIGITS = 1.3;
const DIGITS_TOGETHER = 3;
const MARKS = 0.84;
const MARK_BEYOND = 0.15;
const BLANKS = 1.1;
const ACCENTED_LETTER = 0.45;
const FOREIGN_LETTER = 0.4;
const CJK_CHARACTER = 0.85;

/** Text without spaces and words (base64, hex, hashes): real tokenizers take 1.4 to 1.75 characters per token. */
const UNBROKEN_CHARS_PER_TOKEN = 1.5;
/** An unbroken stretch is judged in pieces of at least this length. */
const UNBROKEN_PIECE_CHARS = 24;
/** Changes between digits, small and capital letters in a piece: base64 and hex have 10, names and paths at most 6. */
const UNBROKEN_MIN_CHANGES = 7;
/** No word is that long. */
const UNBROKEN_WORD_CHARS = 48;

/**
 * Estimates the tokens of a text: `length / 4`, corrected by classes of characters. One pass without allocation, so it
 * is safe on megabytes; a longer text never counts less than its beginning.
 */
export function estimateText(text: string): number {
  let tokens = 0;
  let previous = LINE_BREAK;
  let piece = 0;
  let pieceTokens = 0;
  let pieceChanges = 0;
  for (let start = 0, end = 0; start < text.length; start = end) {
    const current = classAt(text, start);
    end = endOfRun(text, start, current);
    const cost = costOf(current, end - start, previous);
    tokens += cost;
    if (current <= JOINER) {
      piece += end - start;
      pieceTokens += cost;
      if (current < JOINER && previous < JOINER && !(current === LOWER && previous === UPPER)) pieceChanges++;
      if (piece >= UNBROKEN_PIECE_CHARS) {
        const floor = pieceChanges < UNBROKEN_MIN_CHANGES ? 0 : UNBROKEN_PIECE_CHARS / UNBROKEN_CHARS_PER_TOKEN;
        tokens += Math.max(0, floor - pieceTokens);
      }
    }
    if (current > JOINER || piece >= UNBROKEN_PIECE_CHARS) {
      piece = 0;
      pieceTokens = 0;
      pieceChanges = 0;
    }
    previous = current;
  }
  return Math.ceil(tokens);
}

const classAt = (text: string, index: number): number => CLASSES[text.charCodeAt(index)] ?? SYMBOL;

function endOfRun(text: string, start: number, charClass: number): number {
  let end = start + 1;
  while (end < text.length && CLASSES[text.charCodeAt(end)] === charClass) end++;
  return end;
}

/** Tokens of a run of one class, given the class before it. */
function costOf(charClass: number, length: number, previous: number): number {
  switch (charClass) {
    case LOWER:
      // The capitals before it begin the same word.
      return wordCost(length) - (previous === UPPER ? WORD : 0);
    case UPPER:
      return wordCost(length);
    case DIGIT:
      return DIGITS * Math.ceil(length / DIGITS_TOGETHER);
    case JOINER:
    case PUNCTUATION:
      return (previous === JOINER || previous === PUNCTUATION ? MARK_BEYOND : MARKS) + MARK_BEYOND * (length - 1);
    case SPACE:
      // One space belongs to the next word, and blanks after a line break are one token with it.
      return length > 1 && previous !== LINE_BREAK ? BLANKS : 0;
    case LINE_BREAK:
      return BLANKS;
    case ACCENTED:
      return ACCENTED_LETTER * length;
    case ALPHABET:
      return FOREIGN_LETTER * length;
    case CJK:
      return CJK_CHARACTER * length;
    default:
      return length;
  }
}

function wordCost(length: number): number {
  if (length >= UNBROKEN_WORD_CHARS) return length / UNBROKEN_CHARS_PER_TOKEN;
  return WORD + LETTER_BEYOND * Math.max(0, length - LETTERS_IN_WORD);
}

/** On a longer text a tokenizer costs a step tens of milliseconds, and the estimate is as good. */
export const MAX_TOKENIZED_CHARS = 100_000;

/** Tokenizers need more than linear time on one long word: a third of a second for 20 000 equal characters. */
export const MAX_TOKENIZED_RUN_CHARS = 512;

/** Classes that a tokenizer may take as one piece. Joiners count as letters, so that base64 is one run. */
function pieceKindOf(charClass: number): number {
  if (charClass === PUNCTUATION || charClass === SYMBOL) return PUNCTUATION;
  return charClass === SPACE || charClass === LINE_BREAK ? SPACE : LOWER;
}

/**
 * Whether an exact tokenizer may run: the text is bounded, without an unbroken run (a huge word, base64, a line of
 * dashes, a page of blanks) on which tokenizers need more than linear time.
 */
export function isSafeToTokenize(text: string): boolean {
  if (text.length > MAX_TOKENIZED_CHARS) return false;
  let kind = -1;
  let runLength = 0;
  for (let index = 0; index < text.length; index++) {
    const current = pieceKindOf(classAt(text, index));
    runLength = current === kind ? runLength + 1 : 1;
    if (runLength > MAX_TOKENIZED_RUN_CHARS) return false;
    kind = current;
  }
  return true;
}

/** Runs the tokenizer on a text that is safe for it, and the estimate on any other. */
export function guardCounter(exact: TokenCounter): TokenCounter {
  return (text) => (isSafeToTokenize(text) ? exact(text) : estimateText(text));
}
