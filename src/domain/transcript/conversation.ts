import { parseExactly, withPlainNumbers } from '../exact-json.ts';
import { isWithinJsonDepth } from '../json-bounds.ts';
import type { Json, MessageRole, OutputItem, Part, UserPart } from './message.ts';

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
  /** The compaction of an earlier conversation: its messages, and the text as which the client carries them. */
  | { role: 'compaction'; text: string; messages: readonly CompactedMessage[] }
>;

export type CompactedMessage = Readonly<{ role: MessageRole; parts: readonly Part[] }>;

export type ConversationCall = Readonly<{ id: string; name: string; args: string }>;

/** `history`: up to the assistant's last message or a compaction. `news`: the client's messages after it. */
export type SplitConversation = Readonly<{
  history: readonly ConversationMessage[];
  news: readonly Extract<ConversationMessage, { role: 'user' | 'tool' }>[];
}>;

export function splitConversation(messages: readonly ConversationMessage[]): SplitConversation {
  const end = messages.findLastIndex((message) => !isNew(message)) + 1;
  const news = messages.slice(end).filter(isNew);
  return { history: messages.slice(0, end), news };
}

const isNew = (message: ConversationMessage): message is SplitConversation['news'][number] =>
  message.role === 'user' || message.role === 'tool';

/** Whether a user message follows a call without a result, which no model can answer. */
export function leavesCallsOpen({ history, news }: SplitConversation): boolean {
  const last = history.at(-1);
  if (last?.role !== 'assistant' || !news.some(({ role }) => role === 'user')) return false;
  const answeredIds = new Set(news.map((message) => (message.role === 'tool' ? message.callId : null)));
  return last.calls.some(({ id }) => !answeredIds.has(id));
}

/** Whether the news answer every call of the assistant's last message, so that a model can go on with the results. */
export function answersCalls({ history, news }: SplitConversation): boolean {
  const last = history.at(-1);
  if (last?.role !== 'assistant' || last.calls.length === 0) return false;
  const answeredIds = new Set(news.map((message) => (message.role === 'tool' ? message.callId : null)));
  return last.calls.every(({ id }) => answeredIds.has(id));
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
  if (message.role === 'compaction') return ['compaction', text];
  if (message.role === 'tool') return ['tool', message.callId, text, ...(message.parts ?? []).map(canonicalPart)];
  return ['assistant', text, message.calls.map(({ id, name, args }) => [id, name, canonicalArgs(args)])];
}

const canonicalPart = (part: UserPart | OutputItem): Json =>
  part.type === 'text' ? ['text', part.text.trim()] : ['file', part.mediaType, part.url];

function canonicalArgs(args: string): Json {
  const value = parseArgs(args);
  return value === undefined ? args : ['json', sortKeys(withPlainNumbers(value) as Json)];
}

/** Undefined: not JSON, or deeper than `MAX_JSON_DEPTH`. */
export function parseArgs(args: string): Json | undefined {
  try {
    const value = parseExactly(args) as Json;
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
