import type { UserPart } from '../transcript/message.ts';
import { toBoundary } from '../truncate.ts';

/** Most characters of first words, in UTF-16 units. */
export const MAX_FIRST_WORDS_CHARS = 80;

/** Characters of a message in which its first words are looked for. */
const LOOKED_AT_CHARS = 4_000;

/**
 * The first words of a message on one line, without the marks of Markdown, at most 80 characters. Of a message without
 * words: the names of its files. Null: it has neither.
 */
export function firstWords(parts: readonly UserPart[]): string | null {
  const text = parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n');
  const words = wordsOf(text.slice(0, LOOKED_AT_CHARS));
  if (words !== '') return shorten(words);
  const files = parts.flatMap((part) => (part.type === 'file' ? [part.filename ?? part.mediaType] : []));
  const names = onOneLine(files.filter((name) => name !== '').join(', '));
  return names === '' ? null : shorten(names);
}

/** What is known of a session that may have no name of its own. */
export type Named = Readonly<{
  title: string | null;
  firstWords: string | null;
  key: string | null;
  agent: string;
}>;

/** The name of a session in lists: its title, else its first words; before its first message its key, or its agent. */
export function nameOfSession({ title, firstWords: words, key, agent }: Named): string {
  return [title, words, key].find((name) => name !== null && name.trim() !== '') ?? agent;
}

/** Words outside of code blocks; of a text that has none, those inside. */
function wordsOf(text: string): string {
  const outside: string[] = [];
  const inside: string[] = [];
  let isCode = false;
  for (const line of text.split('\n')) {
    if (/^\s*(?:```|~~~)/.test(line)) isCode = !isCode;
    else (isCode ? inside : outside).push(isCode ? line : withoutMarks(line));
  }
  return onOneLine(outside.join(' ')) || onOneLine(inside.join(' '));
}

/** A line without the marks of headings, quotes, lists, rules, links, emphasis and code. */
function withoutMarks(line: string): string {
  if (/^\s*(?:[-*_]\s*){3,}$/.test(line)) return '';
  return line
    .replace(/^\s*(?:>\s*)*(?:#{1,6}\s+|[-*+]\s+(?:\[[ xX]\]\s+)?)?/, '')
    .replace(/!?\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replace(/\*\*|`+/g, '');
}

/** Without characters that break a line or turn the reading direction. */
const onOneLine = (text: string): string =>
  text
    .replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ')
    .replace(/\p{Bidi_Control}/gu, '')
    .replace(/\s+/g, ' ')
    .trim()
    .toWellFormed();

/** Cut at the end of a word, unless that would leave less than half. */
function shorten(line: string): string {
  if (line.length <= MAX_FIRST_WORDS_CHARS) return line;
  const head = line.slice(0, toBoundary(line, MAX_FIRST_WORDS_CHARS - 1, -1));
  const blank = line[head.length] === ' ' ? head.length : head.lastIndexOf(' ');
  return `${blank < MAX_FIRST_WORDS_CHARS / 2 ? head : head.slice(0, blank)}…`;
}
