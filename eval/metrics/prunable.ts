import { countText } from '../../simulator/tokens.ts';
import type { RawConversation } from './costs.ts';
import type { StepCall } from './traced-call.ts';

/** Without a prune a compaction is due from this share of `usable` on. Below it a prune has to pay. */
const COMPACTION_SHARE = 0.98;
/** The newest outputs stay, up to the smaller of both limits. */
const PROTECTED = { share: 0.25, tokens: 40_000 } as const;

/** Tokens that a prune must free at least: the smaller of 20k and a tenth of `usable`. */
export const pruneMinimum = (usableTokens: number): number => Math.min(20_000, 0.1 * usableTokens);

/**
 * The most tokens of old tool outputs, without the protected newest ones, in a prompt of at least `COMPACTION_SHARE`.
 * Computed only from the requests, with the provider's count; 0 if no prompt was that large.
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
