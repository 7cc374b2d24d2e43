import type { ViewMessage } from '../transcript/message.ts';
import { type InputPrices, inputPricesOf } from './limits/cost.ts';
import type { Thresholds } from './limits/thresholds.ts';
import type { ContextMeter } from './meter/context-meter.ts';
import type { ContextState } from './meter/state.ts';

/**
 * Expected further steps, as a share of the steps so far. With a third, recorded sessions that fit their window cost up
 * to 4 % more than unpruned ones, with a quarter no more; long sessions cost the same with either.
 */
const FURTHER_STEPS_SHARE = 0.25;
/** Shape of a Pareto distribution with that mean: the longer a session has lasted, the longer it will last. */
const PARETO_SHAPE = 1 + 1 / FURTHER_STEPS_SHARE;

/** Basis for the expected cost of a session. Tokens are real ones, as billed. */
export type Outlook = Readonly<{
  steps: number;
  /** Average growth of the view per step. */
  tokensPerStep: number;
  usedTokens: number;
  /** Instructions and tools, which no prune or compaction touches. */
  overheadTokens: number;
  prices: InputPrices;
  thresholds: Pick<
    Thresholds,
    'compactAtTokens' | 'compactByTokens' | 'compactToTokens' | 'tailTokens' | 'summaryTokens'
  >;
}>;

export function outlookFor(
  meter: ContextMeter,
  state: ContextState,
  view: readonly ViewMessage[],
  usedTokens: number,
): Outlook {
  const { instructions, tools } = meter.overheadTokens;
  const overheadTokens = Math.ceil(meter.ratioOf(state) * (instructions + tools));
  const prices = inputPricesOf(meter.entry, usedTokens);
  return outlookOf(view, { usedTokens, overheadTokens, prices, thresholds: meter.thresholds });
}

/** @param view that measures `usedTokens` */
export function outlookOf(view: readonly ViewMessage[], facts: Omit<Outlook, 'steps' | 'tokensPerStep'>): Outlook {
  const answers = view.filter(({ role }) => role === 'assistant').length;
  // Messages behind a summary are assumed to have as large a share of answers as the rest of the view.
  const steps = ((view.at(-1)?.seq ?? 0) * answers) / Math.max(1, view.length);
  const tokensPerStep = Math.max(0, facts.usedTokens - facts.overheadTokens) / Math.max(1, answers);
  return { ...facts, steps, tokensPerStep };
}

/**
 * Cost of a compaction by the session's own model, in tokens of plain input: the view is read once more from the cache,
 * the summary is written, and the remaining view goes into the cache again.
 */
function compactionCost(outlook: Outlook): number {
  const { prices, thresholds, usedTokens, overheadTokens } = outlook;
  const rewrittenTokens = Math.max(0, sizeAfterCompaction(outlook) - overheadTokens);
  return (
    prices.read * usedTokens + prices.output * thresholds.summaryTokens + (prices.write - prices.read) * rewrittenTokens
  );
}

function sizeAfterCompaction({ thresholds, overheadTokens }: Outlook): number {
  return Math.min(thresholds.compactToTokens, overheadTokens + thresholds.tailTokens + thresholds.summaryTokens);
}

/** Saving of the expected further steps by the smaller view after a compaction, less the cost of the compaction. */
function savedByCompaction(outlook: Outlook): number {
  const savedTokens = outlook.usedTokens - sizeAfterCompaction(outlook);
  return outlook.prices.read * savedTokens * furtherSteps(outlook) - compactionCost(outlook);
}

/** Size from which the view is compacted: `compactAtTokens` if that pays, else `compactByTokens`. */
export function compactionDueAt(outlook: Outlook): number {
  const { compactAtTokens, compactByTokens } = outlook.thresholds;
  const usedTokens = Math.max(outlook.usedTokens, compactAtTokens);
  return savedByCompaction({ ...outlook, usedTokens }) > 0 ? compactAtTokens : compactByTokens;
}

/**
 * Expected saving by a prune, in tokens of plain input: further steps read less, and a compaction comes later or never.
 * The price is one rewrite of all messages to the cache, because a provider that finds prefixes only by cache marks
 * keeps no more than instructions and tools.
 */
export function savedByPrune(outlook: Outlook, savedTokens: number): number {
  const { prices, usedTokens, overheadTokens } = outlook;
  const rewrittenTokens = Math.max(0, usedTokens - overheadTokens - savedTokens);
  return (
    prices.read * savedTokens * furtherSteps(outlook) +
    savedByPostponing(outlook, savedTokens) -
    (prices.write - prices.read) * rewrittenTokens
  );
}

/** Saving by a compaction that comes later or never. Putting off one that pays by itself saves nothing. */
function savedByPostponing(outlook: Outlook, savedTokens: number): number {
  const usedTokens = Math.max(outlook.usedTokens, compactionDueAt(outlook));
  const roomTokens = usedTokens - outlook.usedTokens;
  const chance = chanceToGrowBy(outlook, roomTokens) - chanceToGrowBy(outlook, roomTokens + savedTokens);
  const then = { ...outlook, usedTokens, steps: outlook.steps + stepsToGrowBy(outlook, roomTokens) };
  return chance * Math.max(0, -savedByCompaction(then));
}

const furtherSteps = ({ steps }: Outlook): number => FURTHER_STEPS_SHARE * steps;

const stepsToGrowBy = ({ tokensPerStep }: Outlook, tokens: number): number => tokens / Math.max(1, tokensPerStep);

function chanceToGrowBy(outlook: Outlook, tokens: number): number {
  const { steps } = outlook;
  return steps === 0 ? 0 : (steps / (steps + stepsToGrowBy(outlook, tokens))) ** PARETO_SHAPE;
}
