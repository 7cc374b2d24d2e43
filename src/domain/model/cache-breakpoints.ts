import type { ProviderMetadata } from '../transcript/message.ts';
import { isFramedSummary } from './model-frames.ts';
import type { ModelMessage } from './model-message.ts';

const EPHEMERAL = { type: 'ephemeral' };

/** Marks a part: Anthropic caches the prompt up to and including it. */
export const CACHE_BREAKPOINT: ProviderMetadata = { anthropic: { cacheControl: EPHEMERAL } };

/**
 * Sets the cache marks of the Messages API, at most three of the four that a request may have:
 * - on the summary, which stays until the next compaction;
 * - on the last message;
 * - on that of the previous request: the API looks back only 20 blocks from a mark, and a batch of calls may have more.
 *
 * The fourth belongs to the instructions, with the tools before them. Marks that the messages came with are removed.
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
