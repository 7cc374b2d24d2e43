import { type Json, jsonSchema } from './message.ts';

/** A message of a conversation as clients of chat protocols send it again with every request. */
export type ConversationMessage = Readonly<
  | { role: 'user'; text: string }
  | { role: 'assistant'; text: string; calls: readonly ConversationCall[] }
  | { role: 'tool'; text: string; callId: string }
>;

/** A call with its arguments as the client repeats them. */
export type ConversationCall = Readonly<{ id: string; name: string; args: string }>;

/** `history`: up to the assistant's last message. `news`: what the client has added to it. */
export type SplitConversation = Readonly<{
  history: readonly ConversationMessage[];
  news: readonly Exclude<ConversationMessage, { role: 'assistant' }>[];
}>;

export function splitConversation(messages: readonly ConversationMessage[]): SplitConversation {
  const end = messages.findLastIndex(({ role }) => role === 'assistant') + 1;
  const news = messages.slice(end).flatMap((message) => (message.role === 'assistant' ? [] : [message]));
  return { history: messages.slice(0, end), news };
}

/** Whether somebody goes on talking although a call of the assistant's last message has no result: nobody can answer that. */
export function leavesCallsOpen({ history, news }: SplitConversation): boolean {
  const last = history.at(-1);
  if (last?.role !== 'assistant' || !news.some(({ role }) => role === 'user')) return false;
  const given = new Set(news.map((message) => (message.role === 'tool' ? message.callId : null)));
  return last.calls.some(({ id }) => !given.has(id));
}

/**
 * The conversation as one text: the same for the same conversation, however its client spells it, and never the same for
 * two. White space around a text and the layout of arguments do not count: clients trim and parse them.
 */
export function canonicalConversation(messages: readonly ConversationMessage[]): string {
  return JSON.stringify(
    messages.map((message) => {
      const text = message.text.trim();
      if (message.role === 'user') return ['user', text];
      if (message.role === 'tool') return ['tool', message.callId, text];
      return ['assistant', text, message.calls.map(({ id, name, args }) => [id, name, canonicalArgs(args)])];
    }),
  );
}

function canonicalArgs(args: string): Json {
  const value = parseArgs(args);
  return value === undefined ? args : ['json', sortKeys(value)];
}

/** Arguments as a value; undefined: they are no JSON. */
export function parseArgs(args: string): Json | undefined {
  try {
    return jsonSchema.parse(JSON.parse(args));
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
