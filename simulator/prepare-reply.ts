import { type PreparedReply, wireCalls } from './frames.ts';
import type { Reply, ScriptedFinishReason } from './reply.ts';
import { countText, FRAMING } from './tokens.ts';

export type ReplyDefaults = Readonly<{
  model: string;
  promptTokens: number;
  cachedTokens: number;
  cacheWriteTokens: number;
  tokenFactor: number;
  chunkChars: number;
  chunkDelayMs: number;
  /** The id of a call without one. Default: a random one. */
  callId?: ((name: string, at: number) => string) | undefined;
}>;

/** Fills in the ids, finish reason, counted usage and chunk sizes that a reply leaves out. */
export function prepareReply(reply: Reply, defaults: ReplyDefaults): PreparedReply {
  const calls = wireCalls(reply, defaults.callId);
  const reasoning = reply.reasoning ?? '';
  const text = reply.text ?? '';
  const textAfterTools = reply.textAfterTools ?? '';
  const reasoningTokens = reasoning === '' ? 0 : countText(reasoning);
  const visibleTokens =
    countText(text) +
    countText(textAfterTools) +
    calls.reduce((sum, call) => sum + FRAMING.toolCall + countText(call.name) + countText(call.arguments), 0);
  const scale = (tokens: number) => Math.round(tokens * defaults.tokenFactor);
  // A scripted input limits the cached tokens.
  const input = reply.usage?.input ?? defaults.promptTokens;
  const cacheRead = reply.usage?.cacheRead ?? Math.min(defaults.cachedTokens, input);
  const usage = {
    input,
    cacheRead,
    cacheWrite: reply.usage?.cacheWrite ?? Math.max(0, Math.min(defaults.cacheWriteTokens, input - cacheRead)),
    output: reply.usage?.output ?? scale(reasoningTokens + visibleTokens),
    reasoning: reply.usage?.reasoning ?? scale(reasoningTokens),
  };
  return {
    model: defaults.model,
    reasoning,
    text,
    calls,
    textAfterTools,
    finishReason: reply.finishReason ?? defaultFinishReason(calls.length),
    usage,
    reasoningTokens,
    sources: reply.sources ?? [],
    documents: reply.documents ?? [],
    pictures: reply.pictures ?? [],
    searches: reply.searches ?? [],
    chunkChars: reply.chunkChars ?? defaults.chunkChars,
    chunkDelayMs: reply.chunkDelayMs ?? defaults.chunkDelayMs,
  };
}

function defaultFinishReason(callCount: number): ScriptedFinishReason {
  return callCount > 0 ? 'tool-calls' : 'stop';
}
