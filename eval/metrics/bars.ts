import type { ContextMetrics } from './context-metrics.ts';
import { pruneMinimum } from './prunable.ts';
import { rounded } from './statistics.ts';

/** A compaction below this utilization came too early: it loses content without need. */
const MIN_UTILIZATION = 0.7;
/** A compaction must have made room for at least this much new content, as a share of `usable`. */
const MIN_ROOM_PER_COMPACTION = 0.4;

/** From this share of `usable` on a compaction is due, and it cannot remove a part of a message. */
const CROWDING_SHARE = 0.8;

/** If the conversation fits its window, the context layer may cost hardly more than an unchanged view. */
const MAX_COST_OF_RAW = 1.02;
/** Of `usable`. From 98 % on a compaction is due at any cost, and a request is measured to within 3 %. */
const FITTING_SHARE = 0.95;

/** The cost of a replay as a share of the unchanged conversation's, and its upper limit. */
export type CostOfRaw = Readonly<{
  share: number;
  /** Null: the conversation is too large for its window. */
  goal: number | null;
}>;

export function costOfRaw({ costUnits, rawPrompt, usable }: CostMetrics): CostOfRaw {
  const share = costUnits.raw === 0 ? 0 : rounded(costUnits.cached / costUnits.raw, 3);
  return { share, goal: rawPrompt < FITTING_SHARE * usable ? MAX_COST_OF_RAW : null };
}

type CostMetrics = Pick<ContextMetrics, 'costUnits' | 'rawPrompt' | 'usable'>;

export function formatCost({ share, goal }: CostOfRaw): string {
  const against = goal === null ? 'more than its window holds' : `fits its window: at most ${goal}`;
  return `cost ${share} of raw (${against})`;
}

/** True: the replay rightly ended early, because one message leaves no room for the content beside it. */
export function wasCrowdedOut({ exhausted, largestMessage, usable }: ContextMetrics): boolean {
  return exhausted > 0 && largestMessage > CROWDING_SHARE * usable;
}

/**
 * The missed bars of a replay; empty: all are met. A replay that had to end early must end once, and without a refused
 * request.
 */
export function missedBars(metrics: ContextMetrics): string[] {
  const isCrowded = wasCrowdedOut(metrics);
  const bars: readonly Bar[] = [
    [metrics.rejectedByWindow === 0, `${metrics.rejectedByWindow} requests were over the window`],
    [metrics.orphans === 0, `${metrics.orphans} requests had calls or results without their other half`],
    [metrics.invalidViews === 0, `${metrics.invalidViews} requests were invalid`],
    [metrics.firstAndLastUserVerbatim, 'the first or the latest user message was not sent as given'],
    [metrics.exhausted <= (isCrowded ? 1 : 0), `the context was exhausted ${metrics.exhausted} times`],
    ...(isCrowded ? [] : wholeBars(metrics)),
  ];
  return bars.flatMap(([isMet, text]) => (isMet ? [] : [text]));
}

type Bar = readonly [isMet: boolean, text: string];

function wholeBars(metrics: ContextMetrics): Bar[] {
  const { compactions, prunes, prunable, breaks, content, usable, utilizationBeforeCompaction: utilization } = metrics;
  const mostCompactions = Math.ceil(content / (MIN_ROOM_PER_COMPACTION * usable));
  const cost = costOfRaw(metrics);
  const lost = Object.entries(metrics.needles).filter(([, kept]) => kept < 1);
  return [
    [metrics.editedFileRecall === 1, `edited files: only ${metrics.editedFileRecall} recalled`],
    [lost.length === 0, `needles lost: ${lost.map(([kind, kept]) => `${kind} ${kept}`).join(', ')}`],
    [compactions <= mostCompactions, `${compactions} compactions, where ${mostCompactions} are enough`],
    [prunes > 0 || prunable < pruneMinimum(usable), `no prune, where ${prunable} tokens could be cleared`],
    [cost.goal === null || cost.share <= cost.goal, formatCost(cost)],
    [utilization === null || utilization >= MIN_UTILIZATION, `compacted at ${utilization} of what is usable`],
    [
      breaks <= prunes + compactions + 1,
      `${breaks} breaks of the prefix by ${prunes} prunes and ${compactions} compactions`,
    ],
  ];
}
