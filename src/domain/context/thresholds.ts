import { z } from 'zod';

const share = z.number().gt(0).lte(1);

/** Overrides of an agent, as shares of `usable` unless said otherwise. */
export const thresholdSharesSchema = z
  .strictObject({
    /** Largest tool output that the view shows. */
    toolOutput: share,
    /** Largest sum of the outputs of one parallel batch. */
    toolBatch: share,
    pruneAt: share,
    /** Newest tool outputs that no prune touches. */
    pruneProtect: share,
    /** A prune that frees less is not worth the broken cache. */
    pruneMinimum: share,
    compactAt: share,
    /** Newest steps that a compaction keeps verbatim. */
    tail: share,
    /** Largest result of a compaction. */
    compactTo: share,
    /** What a compaction takes off at least, as a share of what it started from. */
    compactionReduction: share,
    /** Growth of the view after which a failed compaction is tried again. */
    retryGrowth: share,
    summary: share,
    /** As a share of the window: here the answer counts too. */
    streamStopAt: share,
  })
  .partial();
export type ThresholdShares = Readonly<z.infer<typeof thresholdSharesSchema>>;

const DEFAULT_SHARES = {
  toolOutput: 0.2,
  toolBatch: 0.3,
  pruneAt: 0.5,
  pruneProtect: 0.25,
  pruneMinimum: 0.1,
  compactAt: 0.8,
  tail: 0.25,
  compactTo: 0.5,
  compactionReduction: 0.1,
  retryGrowth: 0.1,
  summary: 0.1,
  streamStopAt: 0.9,
} as const satisfies Required<ThresholdShares>;

/** Beyond these a share of a large window protects too much, or asks too much. */
const MAX_PRUNE_PROTECT_TOKENS = 40_000;
const MAX_PRUNE_MINIMUM_TOKENS = 20_000;
const MAX_TAIL_TOKENS = 20_000;
const MIN_SUMMARY_TOKENS = 400;
const MAX_SUMMARY_TOKENS = 2_000;
const PRUNE_PROTECT_TURNS = 2;

/** Where the trigger of an agent is low, its prune and its target stay below it by as much as they do by default. */
const PRUNE_BELOW_COMPACT = DEFAULT_SHARES.pruneAt / DEFAULT_SHARES.compactAt;
const TARGET_BELOW_COMPACT = 0.8;

/** Where the context layer acts. Tokens, unless the name says otherwise. */
export type Thresholds = Readonly<{
  usableTokens: number;
  toolOutputTokens: number;
  toolBatchTokens: number;
  pruneAtTokens: number;
  pruneProtectTokens: number;
  pruneProtectTurns: number;
  pruneMinimumTokens: number;
  compactAtTokens: number;
  tailTokens: number;
  compactToTokens: number;
  /** A share of what the compaction started from. */
  compactionReductionShare: number;
  retryGrowthTokens: number;
  summaryTokens: number;
  streamStopAtTokens: number;
}>;

/**
 * Where the context layer acts, all of it in proportion to what can be used, so that it works from 8k to 1M windows.
 * @param usable tokens of a request, from `usableOf`
 * @param contextWindow of the model; the stop while streaming is a share of it
 */
export function thresholdsOf(usable: number, contextWindow: number, overrides: ThresholdShares = {}): Thresholds {
  const shares = withDefaults(overrides);
  const { compactAt } = shares;
  const pruneAt = overrides.pruneAt ?? Math.min(DEFAULT_SHARES.pruneAt, compactAt * PRUNE_BELOW_COMPACT);
  // A target at the trigger would compact again at once, for ever.
  const compactTo = Math.min(shares.compactTo, compactAt * TARGET_BELOW_COMPACT);
  const part = (shareOfUsable: number): number => Math.floor(usable * shareOfUsable);
  return {
    usableTokens: usable,
    toolOutputTokens: part(shares.toolOutput),
    toolBatchTokens: part(shares.toolBatch),
    pruneAtTokens: part(pruneAt),
    pruneProtectTokens: capped(part(shares.pruneProtect), MAX_PRUNE_PROTECT_TOKENS, overrides.pruneProtect),
    pruneProtectTurns: PRUNE_PROTECT_TURNS,
    pruneMinimumTokens: capped(part(shares.pruneMinimum), MAX_PRUNE_MINIMUM_TOKENS, overrides.pruneMinimum),
    compactAtTokens: part(compactAt),
    // A tail as large as the target would leave no room for the summary.
    tailTokens: Math.min(capped(part(shares.tail), MAX_TAIL_TOKENS, overrides.tail), part(compactTo)),
    compactToTokens: part(compactTo),
    compactionReductionShare: shares.compactionReduction,
    retryGrowthTokens: part(shares.retryGrowth),
    summaryTokens: Math.max(MIN_SUMMARY_TOKENS, Math.min(MAX_SUMMARY_TOKENS, part(shares.summary))),
    streamStopAtTokens: Math.floor(contextWindow * shares.streamStopAt),
  };
}

type Shares = Record<keyof typeof DEFAULT_SHARES, number>;

function withDefaults(overrides: ThresholdShares): Shares {
  const given = Object.entries(overrides).filter(([, value]) => value !== undefined);
  return { ...DEFAULT_SHARES, ...Object.fromEntries(given) };
}

/** A share that an agent asked for is meant as it is. */
const capped = (value: number, maximum: number, override: number | undefined): number =>
  override === undefined ? Math.min(value, maximum) : value;
