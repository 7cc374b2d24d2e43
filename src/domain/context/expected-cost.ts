import type { ViewMessage } from '../transcript/message.ts';
import { type InputPrices, inputPricesOf } from './limits/cost.ts';
import type { Thresholds } from './limits/thresholds.ts';
import type { ContextMeter } from './meter/context-meter.ts';
import type { ContextState } from './meter/state.ts';

/**
 * Of the steps so far, those that are expected to follow. With a third of them recorded talks that fit their window
 * cost up to 4 % more than unpruned ones, with a quarter nothing; long sessions cost the same with either.
 */
const FURTHER_STEPS_SHARE = 0.25;
/** The longer a session has gone on, the longer it goes on: a Pareto distribution with that mean. */
const PARETO_SHAPE = 1 + 1 / FURTHER_STEPS_SHARE;

/** What the expected cost of a session that goes on is reckoned from. Tokens are real ones, as billed. */
export type Outlook = Readonly<{
  /** Steps that the session has taken. */
  steps: number;
  /** By which its view has grown with each of them, on average. */
  tokensPerStep: number;
  /** Of the next request. */
  usedTokens: number;
  /** Instructions and tools, which no prune and no compaction touches. */
  overheadTokens: number;
  prices: InputPrices;
  thresholds: Pick<
    Thresholds,
    'compactAtTokens' | 'compactByTokens' | 'compactToTokens' | 'tailTokens' | 'summaryTokens'
  >;
}>;

/** What is expected of a session with a view that measures so many tokens. */
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
export function outlookOf(view: readonly ViewMessage[], known: Omit<Outlook, 'steps' | 'tokensPerStep'>): Outlook {
  const answers = view.filter(({ role }) => role === 'assistant').length;
  // Of those that a summary stands for, as many as the rest of the view has.
  const steps = ((view.at(-1)?.seq ?? 0) * answers) / Math.max(1, view.length);
  const tokensPerStep = Math.max(0, known.usedTokens - known.overheadTokens) / Math.max(1, answers);
  return { ...known, steps, tokensPerStep };
}

/**
 * What a compaction by the session's own model costs, in tokens of plain input: the view is read once more from the
 * cache, the summary is written, and what is left of the view is written to the cache again.
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

/** What the steps that are expected to follow save by the smaller view that a compaction leaves, without its cost. */
function savedByCompaction(outlook: Outlook): number {
  const savedTokens = outlook.usedTokens - sizeAfterCompaction(outlook);
  return outlook.prices.read * savedTokens * furtherSteps(outlook) - compactionCost(outlook);
}

/** The size from which the view is compacted: the earlier one where that pays. */
export function compactionDueAt(outlook: Outlook): number {
  const { compactAtTokens, compactByTokens } = outlook.thresholds;
  const usedTokens = Math.max(outlook.usedTokens, compactAtTokens);
  return savedByCompaction({ ...outlook, usedTokens }) > 0 ? compactAtTokens : compactByTokens;
}

/**
 * What a prune that takes so many tokens out of the view is expected to save, in tokens of plain input: they are not
 * read again by the steps that follow, and a compaction comes later or never. Its price is that all messages are written
 * to the cache again: where a provider knows prefixes only by their marks, none but those of instructions and tools are
 * left.
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

/** What it saves that a compaction comes later, or never. One that pays by itself is no loss. */
function savedByPostponing(outlook: Outlook, savedTokens: number): number {
  const usedTokens = Math.max(outlook.usedTokens, compactionDueAt(outlook));
  const roomTokens = usedTokens - outlook.usedTokens;
  const chance = chanceToGrowBy(outlook, roomTokens) - chanceToGrowBy(outlook, roomTokens + savedTokens);
  const then = { ...outlook, usedTokens, steps: outlook.steps + stepsToGrowBy(outlook, roomTokens) };
  return chance * Math.max(0, -savedByCompaction(then));
}

/** Steps that are expected to follow. */
const furtherSteps = ({ steps }: Outlook): number => FURTHER_STEPS_SHARE * steps;

const stepsToGrowBy = ({ tokensPerStep }: Outlook, tokens: number): number => tokens / Math.max(1, tokensPerStep);

function chanceToGrowBy(outlook: Outlook, tokens: number): number {
  const { steps } = outlook;
  return steps === 0 ? 0 : (steps / (steps + stepsToGrowBy(outlook, tokens))) ** PARETO_SHAPE;
}
