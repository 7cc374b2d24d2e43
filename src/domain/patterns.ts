/** A pattern of JSON Schema in words that JavaScript reads with the flag `u`, or why it has no meaning there. */
export type ReadPattern = Readonly<{ source: string } | { problem: string }>;

/**
 * Reads a pattern as its author meant it. JSON Schema wants JavaScript's own with the flag `u`
 * (https://json-schema.org/draft/2020-12/json-schema-core#section-6.4), but generators of other languages write needless
 * escapes, `[\w-.]` and Python's words. They are rewritten where this keeps their meaning. Pure.
 */
export function readPattern(pattern: string): ReadPattern {
  if (problemOf(pattern) === null) return { source: pattern };
  const unknown = UNKNOWN_WORDS.map(([word, problem]) => [word.exec(outsideOfClasses(pattern))?.[0], problem] as const);
  const [word, instead] = unknown.find(([text]) => text !== undefined) ?? [];
  if (word !== undefined) return { problem: `JavaScript does not read ${word} as other languages do: ${instead}` };
  const source = rewritten(pattern);
  const problem = problemOf(source);
  return problem === null ? { source } : { problem: `JavaScript cannot read it: ${problem}` };
}

/** JavaScript's error for a pattern. Null: JavaScript reads it. */
function problemOf(source: string): string | null {
  try {
    new RegExp(source, 'u');
    return null;
  } catch (error) {
    const words = error instanceof Error ? error.message : '';
    return words.slice(words.lastIndexOf(': ') + 2).toLowerCase();
  }
}

/**
 * Syntax of other languages without the same meaning in JavaScript. Node 24 reads flags inside of a pattern if they end
 * with it, Node 22 does not.
 */
const UNKNOWN_WORDS = [
  [/\(\?(?:[a-zA-Z]+-?|-)[a-zA-Z]*[:)]/, 'write the pattern without flags, as [aA] for either case'],
  [/\(\?>/, 'write an ordinary group'],
  [/\(\?\(/, 'write both cases as alternatives'],
  [/\(\?#/, 'leave out the comment'],
  [/\(\?(?:[R&]|P>|\d)/, 'a pattern cannot contain itself'],
  [/\[\^?\]/, 'write the first bracket of a class as \\]'],
  [/(?:[*+?]|\{\d+,?\d*\})\+/, 'leave out the last +'],
] as const;

/** Without escapes and classes, in which those words mean their characters. */
const outsideOfClasses = (pattern: string): string =>
  pattern.replace(/\\[\s\S]|\[(?!\^?\])(?:\\[\s\S]|[^\]\\])*\]/g, (part) => ' '.repeat(part.length));

/** Python's anchors of the whole text, and the character of a bell. */
const ESCAPES: Readonly<Record<string, string>> = { A: '^', Z: '$', z: '$', a: '\\x07' };
const TOKEN =
  /\\(?:p\{[^}]*\}|P\{[^}]*\}|k<[^>]*>|[\s\S])|\(\?P<|\(\?P=(?<name>\w+)\)|\{\d+(?:,\d*)?\}|\{,(?<most>\d+)\}|\[\^?|[\s\S]/gu;

/** The pattern with the same meaning in JavaScript's stricter spelling. */
function rewritten(pattern: string): string {
  let written = '';
  for (let at = 0; at < pattern.length; ) {
    TOKEN.lastIndex = at;
    const token = TOKEN.exec(pattern);
    if (token === null) break;
    at = TOKEN.lastIndex;
    if (token[0].startsWith('[')) {
      const end = endOfClass(pattern, at);
      written += token[0] + classOf(pattern.slice(at, end)) + pattern.slice(end, end + 1);
      at = end + 1;
    } else written += tokenOf(token);
  }
  return written;
}

function tokenOf({ 0: text, groups }: RegExpExecArray): string {
  if (text.length > 1 && text.startsWith('\\')) return escapeOf(text);
  if (text === '(?P<') return '(?<';
  if (groups?.['name'] !== undefined) return `\\k<${groups['name']}>`;
  if (groups?.['most'] !== undefined) return `{0,${groups['most']}}`;
  return /^[{}\]]$/.test(text) ? `\\${text}` : text;
}

function escapeOf(text: string): string {
  const [, char = ''] = text;
  return ESCAPES[char] ?? (isNeedless(char) ? codeOf(text.slice(1)) : text);
}

/** The bare character could begin a word of the pattern, as after `(?`. */
const codeOf = (char: string): string => `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`;

/** An escaped letter or digit has a meaning, if only in another language. */
const isNeedless = (char: string): boolean => !/[A-Za-z0-9^$\\.*+?()[\]{}|/]/.test(char);

/** The place of the bracket that closes a class, or the end. */
function endOfClass(pattern: string, start: number): number {
  let at = start;
  while (at < pattern.length && pattern[at] !== ']') at += pattern[at] === '\\' ? 2 : 1;
  return Math.min(at, pattern.length);
}

/** What stands between the brackets: a hyphen beside a set of characters is one, and no range. */
function classOf(inner: string): string {
  const tokens = [...inner.matchAll(/\\(?:[pP]\{[^}]*\}|[\s\S])|[\s\S]/gu)].map(([text]) => text);
  const isSet = (text: string | undefined): boolean => text !== undefined && /^\\[dDsSwWpP]/.test(text);
  return tokens
    .map((text, at) => {
      if (text === '-' && (isSet(tokens[at - 1]) || isSet(tokens[at + 1]))) return '\\-';
      if (text === '\\-' || text.length === 1 || !text.startsWith('\\')) return text;
      const [, char = ''] = text;
      return char === 'a' ? '\\x07' : isNeedless(char) ? codeOf(text.slice(1)) : text;
    })
    .join('');
}
