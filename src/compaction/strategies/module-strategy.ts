import { planCompaction } from '../../domain/context/compaction/compaction-plan.ts';
import { DEFAULT_CUTS, serializeMessages } from '../../domain/context/compaction/summary-input.ts';
import { FAULT_MESSAGES, faultOfForm } from '../../domain/context/compaction/summary-validation.ts';
import { BatonError } from '../../domain/errors.ts';
import type { Compactor } from '../load-compactor.ts';
import { replacedTokens } from '../requests.ts';
import type { Strategy } from '../strategy.ts';
import { countReal } from '../work.ts';

const MAX_WORDS_CHARS = 500;

/** The failure in the module's own words, for whoever wrote it. */
function wordsOf(error: unknown): string {
  if (error instanceof BatonError) return `cannot be had: ${error.message}`;
  return `threw ${String(error).slice(0, MAX_WORDS_CHARS)}`;
}

/** A strategy whose text a module writes. A throw, an empty or a too long text fails the round; the view stays. */
export function moduleStrategy(name: `module:${string}`, load: () => Promise<Compactor>): Strategy {
  const strategy: Strategy = {
    name,
    plan: (base) => planCompaction({ ...base, bodyTokens: () => base.thresholds.summaryTokens }),
    execute: async (work, plan) => {
      const failed = (why: string) => {
        return {
          ok: false,
          error: { code: 'summary_invalid', message: `The compaction failed: ${name} ${why}.` },
        } as const;
      };
      const countTokens = countReal(work);
      try {
        const compactor = await load();
        work.signal.throwIfAborted();
        const text = await compactor({
          messages: plan.head,
          transcript: serializeMessages(plan.head, Number.POSITIVE_INFINITY, countTokens, DEFAULT_CUTS).join('\n\n'),
          previousSummary: plan.previousSummary?.body ?? null,
          keptMessages: plan.tail.length,
          maxTokens: plan.bodyTokens,
          countTokens,
          round: work.round,
          sessionId: work.scope.sessionId,
          signal: work.signal,
        });
        if (typeof text !== 'string') return failed('returned no text');
        const answer = { text, finishReason: 'stop', toolCalls: 0, tokens: countTokens(text) } as const;
        const fault = strategy.validate(answer, plan, replacedTokens(work, plan));
        return fault === null
          ? { ok: true, body: text, model: null }
          : failed(`wrote what cannot be used, because ${FAULT_MESSAGES[fault]}`);
      } catch (error) {
        return failed(wordsOf(error).replace(/\.$/, ''));
      }
    },
    validate: (answer, plan, tokens) => faultOfForm(answer, { replacedTokens: tokens, targetTokens: plan.bodyTokens }),
  };
  return strategy;
}
