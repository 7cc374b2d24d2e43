/**
 * JSON as it was written. A JavaScript number rounds long digits, and an object moves keys like `"7"` to its front:
 * what a model and a tool tell each other must have neither.
 */

/** A number whose digits a JavaScript number would not write again. `JSON.stringify` writes them as they came. */
type WrittenNumber = Readonly<{ rawJSON: string }>;

// The language has both (https://github.com/tc39/proposal-json-parse-with-source); the compiler's library not yet.
const { rawJSON, isRawJSON } = JSON as unknown as Readonly<{
  rawJSON: (text: string) => WrittenNumber;
  /** Node has it from version 21 on. A tool in code is imported by older ones, too. */
  isRawJSON?: (value: unknown) => boolean;
}>;

/** A text in which a number or a key may be one of those. Digits inside of strings cost time, but change nothing. */
const MAY_CHANGE =
  /(?:^|[:,[\s])-?(?:\d[\d.]{15,}|[\d.]+[eE]|\d+\.\d*0(?=[\s,\]}]|$)|0(?:\.0*)?(?=[\s,\]}]|$)(?<=-0(?:\.0*)?))|"\d+"\s*:/;

/**
 * Reads JSON like `JSON.parse`, and loses neither digits nor the order of keys: `JSON.stringify` writes both again.
 * Copies of such an object (spread, `structuredClone`) are ordinary ones.
 * @throws SyntaxError
 */
export function parseExactly(text: string): unknown {
  return MAY_CHANGE.test(text) ? new Reader(text).whole() : JSON.parse(text);
}

/** A number that keeps its digits: not an object to look into. */
export const isWrittenNumber = (value: unknown): value is WrittenNumber => isRawJSON?.(value) === true;

/** The first number that JavaScript cannot hold, with its path. Null: there is none. Pure. */
export function unholdableNumber(value: unknown, path = ''): Readonly<{ path: string; digits: string }> | null {
  if (isWrittenNumber(value)) return isSameNumber(value.rawJSON) ? null : { path, digits: value.rawJSON };
  if (typeof value !== 'object' || value === null) return null;
  for (const [key, item] of Object.entries(value)) {
    const found = unholdableNumber(item, path === '' ? key : `${path}.${key}`);
    if (found !== null) return found;
  }
  return null;
}

/** The same value with ordinary numbers, for code that computes with them. Pure. */
export function withPlainNumbers(value: unknown): unknown {
  return holdsWritten(value) ? JSON.parse(JSON.stringify(value)) : value;
}

function holdsWritten(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return isWrittenNumber(value) || Object.values(value).some(holdsWritten);
}

/** An object with its keys in this order, also those that objects put first. The last of equal keys counts. Pure. */
export function objectOf(entries: Iterable<readonly [string, unknown]>): Readonly<Record<string, unknown>> {
  const values = new Map(entries);
  const object: Record<string, unknown> = {};
  for (const [key, value] of values) {
    // Assigning `__proto__` would set the prototype.
    Object.defineProperty(object, key, { value, writable: true, enumerable: true, configurable: true });
  }
  const order = [...values.keys()];
  const isMoved = order.some((key) => INDEX_LIKE.test(key)) && Object.keys(object).some((key, at) => key !== order[at]);
  return isMoved ? new Proxy(object, { ownKeys: () => order }) : object;
}

/** Keys that objects put first, by their size. */
const INDEX_LIKE = /^(?:0|[1-9]\d*)$/;

/** Whether a JavaScript number is the number that is written, whatever its spelling (`1.0`, `1e3`). */
function isSameNumber(digits: string): boolean {
  return canonical(digits) === canonical(String(Number(digits)));
}

/** Sign, digits without zeros at the ends, and the power of ten of the last digit. */
function canonical(digits: string): string {
  const [, sign = '', whole = '', part = '', power = '0'] =
    /^(-?)(\d+)(?:\.(\d*))?(?:[eE]([+-]?\d+))?$/.exec(digits) ?? [];
  if (whole === '') return digits;
  const significant = `${whole}${part}`.replace(/^0+/, '');
  const trimmed = significant.replace(/0+$/, '');
  if (trimmed === '') return '0';
  return `${sign}${trimmed}e${Number(power) - part.length + significant.length - trimmed.length}`;
}

const MAX_LEVELS = 2_000;
const SPACES = /[ \t\n\r]*/y;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const WORDS = [
  ['true', true],
  ['false', false],
  ['null', null],
] as const;
class Reader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  whole(): unknown {
    const value = this.#value(0);
    this.#skipSpaces();
    if (this.#at < this.#text.length) this.#fail();
    return value;
  }

  #value(level: number): unknown {
    if (level > MAX_LEVELS) throw new SyntaxError(`JSON of more than ${MAX_LEVELS} levels`);
    this.#skipSpaces();
    switch (this.#text[this.#at]) {
      case '{':
        return this.#object(level);
      case '[':
        return this.#list(level);
      case '"':
        return this.#string();
      default:
        return this.#wordOrNumber();
    }
  }

  #object(level: number): object {
    const entries: [string, unknown][] = [];
    this.#items('}', () => {
      this.#skipSpaces();
      const key = this.#string();
      this.#skipSpaces();
      this.#expect(':');
      entries.push([key, this.#value(level + 1)]);
    });
    return objectOf(entries);
  }

  #list(level: number): unknown[] {
    const list: unknown[] = [];
    this.#items(']', () => void list.push(this.#value(level + 1)));
    return list;
  }

  /** The items between an opening bracket, which is next, and its closing one. */
  #items(closing: string, item: () => void): void {
    this.#at++;
    this.#skipSpaces();
    if (this.#text[this.#at] === closing) {
      this.#at++;
      return;
    }
    for (;;) {
      item();
      this.#skipSpaces();
      if (this.#text[this.#at] === closing) break;
      this.#expect(',');
    }
    this.#at++;
  }

  #string(): string {
    const start = this.#at;
    this.#expect('"');
    for (let end = this.#text.indexOf('"', this.#at); end !== -1; end = this.#text.indexOf('"', end + 1)) {
      let escapes = 0;
      while (this.#text[end - 1 - escapes] === '\\') escapes++;
      if (escapes % 2 === 1) continue;
      this.#at = end + 1;
      return JSON.parse(this.#text.slice(start, this.#at));
    }
    return this.#fail();
  }

  #wordOrNumber(): unknown {
    const word = WORDS.find(([name]) => this.#text.startsWith(name, this.#at));
    if (word !== undefined) {
      this.#at += word[0].length;
      return word[1];
    }
    NUMBER.lastIndex = this.#at;
    const digits = NUMBER.exec(this.#text)?.[0] ?? this.#fail();
    this.#at += digits.length;
    const number = Number(digits);
    return String(number) === digits ? number : rawJSON(digits);
  }

  #skipSpaces(): void {
    SPACES.lastIndex = this.#at;
    this.#at += SPACES.exec(this.#text)?.[0].length ?? 0;
  }

  #expect(character: string): void {
    if (this.#text[this.#at] !== character) this.#fail();
    this.#at++;
  }

  #fail(): never {
    const found = this.#text[this.#at];
    throw new SyntaxError(
      `Unexpected ${found === undefined ? 'end' : `"${found}"`} at position ${this.#at} of the JSON`,
    );
  }
}
