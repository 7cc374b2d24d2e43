import { isWithinJsonDepth } from '../json-bounds.ts';
import type { Json, OutputItem, UserPart } from './message.ts';

/** A message as clients of chat protocols send it, again with every request. */
export type ConversationMessage = Readonly<
  | {
      role: 'user';
      text: string;
      /** The content in order, if there is more than text. */
      parts?: readonly UserPart[];
    }
  | { role: 'assistant'; text: string; calls: readonly ConversationCall[] }
  | {
      role: 'tool';
      text: string;
      callId: string;
      /** The result in order, if there is more than text. */
      parts?: readonly OutputItem[];
    }
>;

export type ConversationCall = Readonly<{ id: string; name: string; args: string }>;

/** `history`: up to the assistant's last message. `news`: the client's messages after it. */
export type SplitConversation = Readonly<{
  history: readonly ConversationMessage[];
  news: readonly Exclude<ConversationMessage, { role: 'assistant' }>[];
}>;

export function splitConversation(messages: readonly ConversationMessage[]): SplitConversation {
  const end = messages.findLastIndex(({ role }) => role === 'assistant') + 1;
  const news = messages.slice(end).flatMap((message) => (message.role === 'assistant' ? [] : [message]));
  return { history: messages.slice(0, end), news };
}

/** The part of a conversation that a session may know, and the new messages. */
export type Continuation = Readonly<{
  known: readonly ConversationMessage[];
  /** The client's part of an unfinished answer to `known`; null: `known` ends with an answer. */
  partial: string | null;
  said: readonly ConversationMessage[];
}>;

/** The most user messages after one without an answer. */
const MAX_SAID_AFTER_UNANSWERED = 3;

/**
 * The points from which a client may go on, best first: a whole answer, a part of an answer that was cut off, or a
 * message without an answer. In the last case the client may have dropped a partial one.
 */
export function continuationsOf({ history, news }: SplitConversation): readonly Continuation[] {
  const found: Continuation[] = [];
  const last = history.at(-1);
  const onlySaid = news.every(({ role }) => role === 'user');
  if (last?.role === 'assistant' && onlySaid) {
    found.push({ known: history, partial: null, said: news });
    if (last.calls.length === 0 && history.length > 1) {
      found.push({ known: history.slice(0, -1), partial: last.text, said: news });
    }
  }
  for (let at = news.length - 1; at >= Math.max(1, news.length - MAX_SAID_AFTER_UNANSWERED); at--) {
    if (news[at]?.role !== 'user') break;
    found.push({ known: [...history, ...news.slice(0, at)], partial: '', said: news.slice(at) });
  }
  return found;
}

/** A façade writes these between the lines of an answer. They are not the model's. */
const NOTICES = /⚙️ Compacting…|✅ Compacted: \d+ → \d+ tokens/g;

/**
 * Whether a client's part of an answer is the beginning of these step texts, from any of them on. A client that goes
 * away has less than was stored, and text from before a wait of the run belongs to an earlier answer.
 */
export function beginsAnswer(partial: string, texts: readonly string[]): boolean {
  const bare = (text: string): string => text.replaceAll(NOTICES, '').replaceAll(/\s+/g, '');
  const begun = bare(partial);
  if (begun === '') return true;
  const each = texts.map(bare);
  const told = each.join('');
  let from = 0;
  return each.some((text) => {
    const begins = told.startsWith(begun, from);
    from += text.length;
    return begins;
  });
}

/** Whether a user message follows a call without a result, which no model can answer. */
export function leavesCallsOpen({ history, news }: SplitConversation): boolean {
  const last = history.at(-1);
  if (last?.role !== 'assistant' || !news.some(({ role }) => role === 'user')) return false;
  const given = new Set(news.map((message) => (message.role === 'tool' ? message.callId : null)));
  return last.calls.some(({ id }) => !given.has(id));
}

/**
 * A message as one text, equal for equal messages only. White space around a text and the layout of arguments do not
 * count, because clients trim and parse them.
 */
export function canonicalMessage(message: ConversationMessage): string {
  return JSON.stringify(canonicalForm(message));
}

function canonicalForm(message: ConversationMessage): Json {
  const text = message.text.trim();
  if (message.role === 'user') return ['user', text, ...(message.parts ?? []).map(canonicalPart)];
  if (message.role === 'tool') return ['tool', message.callId, text, ...(message.parts ?? []).map(canonicalPart)];
  return ['assistant', text, message.calls.map(({ id, name, args }) => [id, name, canonicalArgs(args)])];
}

const canonicalPart = (part: UserPart | OutputItem): Json =>
  part.type === 'text' ? ['text', part.text.trim()] : ['file', part.mediaType, part.url];

function canonicalArgs(args: string): Json {
  const value = parseArgs(args);
  return value === undefined ? args : ['json', sortKeys(value)];
}

/** Undefined: not JSON, or deeper than `MAX_JSON_DEPTH`. */
export function parseArgs(args: string): Json | undefined {
  try {
    const value: Json = JSON.parse(args);
    return isWithinJsonDepth(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function sortKeys(value: Json): Json {
  if (Array.isArray(value)) return value.map(sortKeys);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([key, inner]) => [key, sortKeys(inner)]));
}
