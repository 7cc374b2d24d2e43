import { type PlanBase, planCompaction } from '../../domain/context/compaction/compaction-plan.ts';
import {
  parsePrunedConversation,
  prunedBody,
  pruningOrderText,
} from '../../domain/context/compaction/pruned-conversation.ts';
import { serializeMessages } from '../../domain/context/compaction/summary-input.ts';
import { faultOfForm, type SummaryFault } from '../../domain/context/compaction/summary-validation.ts';
import { toErrorRecord } from '../../domain/errors.ts';
import { askUntilValid } from '../ask-until-valid.ts';
import type { ModelRequest } from '../model-request.ts';
import {
  dataRequest,
  prefixRequest,
  replacedTokens,
  type Summarizer,
  summarizerOf,
  summaryTokensOf,
  transcriptRoom,
} from '../requests.ts';
import { type Draft, noDraft, type Strategy } from '../strategy.ts';
import { summarizeAsData } from '../summarize.ts';
import { type CompactionWork, countReal } from '../work.ts';
import { auto } from './auto.ts';
import { middleRemoval } from './middle-removal.ts';

/** Upper limits of the rewritten conversation: its share of the head, and of the usable tokens. */
const HEAD_SHARE = 0.6;
const USABLE_SHARE = 0.2;
const MAX_RESTARTS = 3;
/** Messages that stay if no answer is usable. */
const FALLBACK_MESSAGES = 5;

type Plan = Parameters<Strategy['execute']>[1];

/** A model rewrites the old part as shorter JSON. A part too large for one request gets the default summary. */
export const pruningAgent: Strategy = {
  name: 'pruning-agent',
  plan: (base) =>
    planCompaction({
      ...base,
      bodyTokens: (headTokens) => Math.floor(Math.min(headTokens * HEAD_SHARE, usableShare(base))),
    }),
  execute: async (work, plan) => {
    let summarizer: Summarizer;
    try {
      summarizer = await summarizerOf(work);
    } catch (error) {
      return { ok: false, error: toErrorRecord(error) };
    }
    const replaced = replacedTokens(work, plan);
    const outcome = await askUntilValid(
      work,
      (reminder) => requestOf(work, plan, summarizer, reminder),
      (answer) => pruningAgent.validate(answer, plan, replaced),
      1 + MAX_RESTARTS,
    );
    // Too large to prune as one conversation: summarize it piece by piece.
    if (outcome === null || outcome.kind === 'too_large') return summarizeAsData(work, plan, auto.validate);
    // No answer came. That may pass, so the messages are not given up for the fallback.
    if (outcome.kind === 'over' || (outcome.kind === 'faulty' && outcome.failedCall !== undefined))
      return noDraft(outcome);
    const pruned = outcome.kind === 'valid' ? parsePrunedConversation(outcome.text) : null;
    if (pruned !== null) return { ok: true, body: prunedBody(pruned), model: summarizer.meter.model };
    return fallback(work);
  },
  validate: (answer, plan, tokens) => {
    const fault = faultOfForm(answer, { replacedTokens: tokens, targetTokens: plan.bodyTokens });
    return fault ?? (parsePrunedConversation(answer.text) === null ? 'invalid_json' : null);
  },
};

const usableShare = ({ thresholds }: PlanBase): number => thresholds.usableTokens * USABLE_SHARE;

/** Null: the old part is too large for one request. */
async function requestOf(
  work: CompactionWork,
  plan: Plan,
  summarizer: Summarizer,
  reminder: SummaryFault | null,
): Promise<ModelRequest | null> {
  const { instructions } = work.meter.policy.compaction.options;
  const order = pruningOrderText({
    round: work.round,
    targetTokens: summaryTokensOf(summarizer.meter, plan),
    instructions,
    reminder,
  });
  const own = await prefixRequest(work, plan, order, plan.bodyTokens);
  if (own !== null) return own;
  const textOf = (transcript: string): string =>
    [
      ...(plan.previousSummary === null
        ? []
        : [`<previous_summary>\n${plan.previousSummary.body}\n</previous_summary>`]),
      `<transcript>\n${transcript}\n</transcript>`,
      order,
    ].join('\n\n');
  const room = transcriptRoom(work, summarizer, textOf(''), plan.bodyTokens);
  const [whole, ...more] = serializeMessages(plan.head, Math.max(1, room), countReal(work, summarizer.meter));
  if (whole === undefined || more.length > 0) return null;
  return dataRequest(work, summarizer, textOf(whole), plan.bodyTokens);
}

/** No answer is usable: keep the last few messages, in whole steps, and a notice for the rest. */
async function fallback(work: CompactionWork): Promise<Draft> {
  const { base } = work;
  const thresholds = { ...base.thresholds, tailTokens: 0 };
  const plan = middleRemoval.plan({ ...base, thresholds, keepRecentMessages: FALLBACK_MESSAGES });
  if (plan.kind !== 'compact') return { ok: false, error: NO_ANSWER };
  const draft = await middleRemoval.execute(work, plan);
  return draft.ok ? { ...draft, plan } : draft;
}

const NO_ANSWER = {
  code: 'summary_invalid',
  message: 'The compaction failed: no pruned conversation could be used.',
} as const;
