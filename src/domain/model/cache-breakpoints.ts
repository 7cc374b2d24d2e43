import type { ProviderMetadata } from '../transcript/message.ts';
import { isFramedSummary } from './model-frames.ts';
import type { ModelMessage } from './model-message.ts';

const EPHEMERAL = { type: 'ephemeral' };

/** Marks the part it stands on: Anthropic caches the prompt up to and including it. */
export const CACHE_BREAKPOINT: ProviderMetadata = { anthropic: { cacheControl: EPHEMERAL } };

/**
 * The messages with the cache marks of the Messages API: on the summary, which stays through everything but the
 * next compaction; on the last message; and on the last one of the request before, because the API looks for
 * something cached only 20 blocks before a mark and one batch of calls may have more. These are at most three; the
 * fourth that a request may have belongs to the instructions, with the tools before them. Marks that the messages
 * came with are taken off.
 */
export function withCacheBreakpoints(messages: readonly ModelMessage[]): ModelMessage[] {
  const places = breakpointsOf(messages);
  return messages.map((message, index): ModelMessage => {
    const mark = <T extends Marked>(part: T, at: number): T => remark(part, places.has(placeOf(index, at)));
    if (message.role === 'user') return { role: message.role, content: message.content.map(mark) };
    if (message.role === 'assistant') return { role: message.role, content: message.content.map(mark) };
    return { role: message.role, content: message.content.map(mark) };
  });
}

type Marked = { providerOptions?: ProviderMetadata };

const placeOf = (message: number, part: number): string => `${message}.${part}`;

function breakpointsOf(messages: readonly ModelMessage[]): ReadonlySet<string> {
  const summary = messages[0]?.content.findLastIndex((part) => part.type === 'text' && isFramedSummary(part.text));
  const lastAnswer = messages.findLastIndex(({ role }) => role === 'assistant');
  const ends = [lastAnswer - 1, messages.length - 1].filter((index) => index >= 0);
  return new Set([
    ...(summary === undefined || summary < 0 ? [] : [placeOf(0, summary)]),
    ...ends.map((index) => placeOf(index, (messages[index]?.content.length ?? 0) - 1)),
  ]);
}

function remark<T extends Marked>(part: T, isMarked: boolean): T {
  const { cacheControl, cache_control: otherSpelling, ...others } = part.providerOptions?.['anthropic'] ?? {};
  if (!isMarked && cacheControl === undefined && otherSpelling === undefined) return part;
  const anthropic = { ...others, ...(isMarked && { cacheControl: EPHEMERAL }) };
  return { ...part, providerOptions: { ...part.providerOptions, anthropic } };
}
