import { countText } from '../../simulator/tokens.ts';
import type { RawConversation } from './costs.ts';
import type { StepCall } from './traced-call.ts';

/** From this share of `usable` on a compaction is due where nothing is cleared. Before, clearing has to pay. */
const COMPACTION_SHARE = 0.98;
/** The newest outputs that must stay: the lesser of both. */
const PROTECTED = { share: 0.25, tokens: 40_000 } as const;

/** What a prune must free at least, in tokens: the lesser of 20k and a tenth of `usable`. */
export const pruneMinimum = (usableTokens: number): number => Math.min(20_000, 0.1 * usableTokens);

/**
 * The most tokens of old tool outputs that a prompt of that share of `usable` or more showed beyond the newest ones, which
 * stay: reckoned from what was sent alone, by the provider's own count. 0 where no prompt was that large.
 */
export function prunableTokens(
  calls: readonly StepCall[],
  usableTokens: number,
  factorOf: RawConversation['factorOf'],
): number {
  const protectedTokens = Math.min(PROTECTED.tokens, PROTECTED.share * usableTokens);
  const due = calls.filter(({ promptTokens }) => promptTokens >= COMPACTION_SHARE * usableTokens);
  const prunable = due.map(({ step, request }) => {
    const outputs = request.messages.flatMap(({ toolResults }) => toolResults.map(({ output }) => output));
    return factorOf(step) * countText(outputs.join('')) - protectedTokens;
  });
  return Math.round(Math.max(0, ...prunable));
}
