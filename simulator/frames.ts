import { randomBytes } from 'node:crypto';
import type { Reply, ScriptedFinishReason } from './reply.ts';
import type { ReplyUsage } from './reply-usage.ts';
import { isHighSurrogate } from './tokens.ts';

export type JsonObject = { readonly [key: string]: unknown };

/**
 * One event of a stream. `chunk`: a piece of content; `structure`: the frame around it; `end`: a closing event, which
 * comes after the `beforeEnd` gate.
 */
export type Frame = Readonly<{ kind: 'open' | 'structure' | 'chunk' | 'end'; event: JsonObject }>;

export type WireCall = Readonly<{ id: string; name: string; arguments: string }>;

export type PreparedReply = Readonly<{
  model: string;
  reasoning: string;
  text: string;
  calls: readonly WireCall[];
  textAfterTools: string;
  finishReason: ScriptedFinishReason;
  usage: ReplyUsage;
  /** Counted tokens of the reasoning without the token factor. Later prompts count its opaque form as this many. */
  reasoningTokens: number;
  sources: readonly Readonly<{ url: string; title: string }>[];
  documents: readonly string[];
  pictures: readonly string[];
  searches: readonly string[];
  chunkChars: number;
  chunkDelayMs: number;
}>;

/** Fills in the calls' ids and arguments. A string input is sent as it is. */
export function wireCalls(reply: Reply, callId?: (name: string, at: number) => string): WireCall[] {
  return (reply.toolCalls ?? []).map(({ id, name, input }, at) => ({
    id: id ?? callId?.(name, at) ?? `call_${randomBytes(12).toString('hex')}`,
    name,
    arguments: typeof input === 'string' ? input : JSON.stringify(input ?? {}),
  }));
}

/** Cuts a text into pieces of at most `chunkChars` UTF-16 units, never inside a character. */
export function* pieces(text: string, chunkChars: number): Generator<string> {
  let start = 0;
  while (start < text.length) {
    let end = Math.min(text.length, start + Math.max(2, chunkChars));
    if (end < text.length && isHighSurrogate(text, end - 1)) end -= 1;
    yield text.slice(start, end);
    start = end;
  }
}
