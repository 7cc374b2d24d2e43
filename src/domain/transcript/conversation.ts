import { isWithinJsonDepth } from '../json-bounds.ts';
import type { Json, OutputItem, UserPart } from './message.ts';

/** A message of a conversation as clients of chat protocols send it again with every request. */
export type ConversationMessage = Readonly<
  | {
      role: 'user';
      text: string;
      /** What it says in its order, where that is more than the text. */
      parts?: readonly UserPart[];
    }
  | { role: 'assistant'; text: string; calls: readonly ConversationCall[] }
  | {
      role: 'tool';
      text: string;
      callId: string;
      /** What came of the call in its order, where that is more than the text. */
      parts?: readonly OutputItem[];
    }
>;

/** A call with its arguments as the client repeats them. */
export type ConversationCall = Readonly<{ id: string; name: string; args: string }>;

/** `history`: up to the assistant's last message. `news`: what the client has added to it. */
export type SplitConversation = Readonly<{
  history: readonly ConversationMessage[];
  news: readonly Exclude<ConversationMessage, { role: 'assistant' }>[];
}>;

/** Splits a conversation behind the last answer of the model: what came up to it, and what is new. Pure. */
export function splitConversation(messages: readonly ConversationMessage[]): SplitConversation {
  const end = messages.findLastIndex(({ role }) => role === 'assistant') + 1;
  const news = messages.slice(end).flatMap((message) => (message.role === 'assistant' ? [] : [message]));
  return { history: messages.slice(0, end), news };
}

/** What is new in a conversation for a session that knows the rest of it. */
export type Continuation = Readonly<{
  known: readonly ConversationMessage[];
  /**
   * What the client has of the answer to `known`, which it was not told to its end; null: `known` ends with an answer.
   */
  partial: string | null;
  said: readonly ConversationMessage[];
}>;

/** How many messages of the user may stand after one that was not answered. */
const MAX_SAID_AFTER_UNANSWERED = 3;

/**
 * The points from which a client may go on, the best one first: from the answer that it was told, from one that was cut
 * off and of which it has a part, or from a message that it got no answer to, whether or not it keeps what there was.
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

/** What a façade writes between the lines of an answer is not the model's. */
const NOTICES = /⚙️ Compacting…|✅ Compacted: \d+ → \d+ tokens/g;

/**
 * Whether what a client has of an answer is how these texts of its steps begin, from one of them on: a client
 * that goes away has less of an answer than is kept, and what it was told before the run waited for it
 * belongs to an earlier answer.
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

/**
 * Whether somebody goes on talking although a call of the assistant's last message has no
 * result: nobody can answer that.
 */
export function leavesCallsOpen({ history, news }: SplitConversation): boolean {
  const last = history.at(-1);
  if (last?.role !== 'assistant' || !news.some(({ role }) => role === 'user')) return false;
  const given = new Set(news.map((message) => (message.role === 'tool' ? message.callId : null)));
  return last.calls.some(({ id }) => !given.has(id));
}

/**
 * A message as one text: the same for the same message, however its client spells it, and never the same for two. White
 * space around a text and the layout of arguments do not count: clients trim and parse them.
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

/** Arguments as a value; undefined: they are no JSON, or deeper than what is taken anywhere. */
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
