/** Overrides of the defaults by an agent or a strategy, as shares of `usable`. */
export type ThresholdShares = Readonly<{
  /** From here on a prune may be due. */
  pruneAt?: number;
  /** From here on a compaction is due even if it does not pay. */
  compactAt?: number;
  /** Newest steps that a compaction keeps verbatim. */
  tail?: number;
}>;

const SHARES = {
  /** Largest tool output that the view shows. */
  toolOutput: 0.2,
  /** Largest sum of the outputs of one parallel batch. */
  toolBatch: 0.3,
  pruneAt: 0.5,
  /** Newest tool outputs that no prune touches. */
  pruneProtect: 0.25,
  /** A prune that frees less is not worth the broken cache. */
  pruneMinimum: 0.1,
  /** From here on a compaction is due where it pays. */
  compactAt: 0.8,
  /** From here on a compaction is due even if it does not pay. */
  compactBy: 0.98,
  /** The same as a share of the window; the lower one counts. */
  compactByOfWindow: 0.85,
  tail: 0.25,
  /** Largest view after a compaction. */
  compactTo: 0.5,
  /** Least reduction by a compaction, as a share of the view before it. */
  compactionReduction: 0.1,
  /** Growth of the view after which a failed compaction is tried again. */
  retryGrowth: 0.1,
  summary: 0.1,
  /** The answer is stopped here while it streams. A share of the window, because the answer counts too. */
  streamStopAt: 0.9,
} as const;

/** Bounds of the shares: of a large window they would protect or demand too much. */
const MAX_PRUNE_PROTECT_TOKENS = 40_000;
const MAX_PRUNE_MINIMUM_TOKENS = 20_000;
const MAX_TAIL_TOKENS = 20_000;
export const MIN_SUMMARY_TOKENS = 400;
export const MAX_SUMMARY_TOKENS = 2_000;
const PRUNE_PROTECT_TURNS = 2;

/** Keeps the prune and the compaction's target below a low trigger of an agent, in the default proportion. */
const PRUNE_BELOW_COMPACT = SHARES.pruneAt / SHARES.compactAt;
/** Latest prune that an agent can set: before the compaction. */
const LATEST_PRUNE_SHARE = 0.95;
const TARGET_BELOW_COMPACT = 0.8;

/** In tokens, unless the name says otherwise. */
export type Thresholds = Readonly<{
  usableTokens: number;
  toolOutputTokens: number;
  toolBatchTokens: number;
  pruneAtTokens: number;
  pruneProtectTokens: number;
  pruneProtectTurns: number;
  pruneMinimumTokens: number;
  compactAtTokens: number;
  /** From here on a compaction is due even if it does not pay: at the latest at the end of `usable`. */
  compactByTokens: number;
  tailTokens: number;
  compactToTokens: number;
  /** Share of the view before the compaction. */
  compactionReductionShare: number;
  retryGrowthTokens: number;
  summaryTokens: number;
  streamStopAtTokens: number;
}>;

/**
 * Derives all thresholds from `usableOf`, so that they work for windows from 8k to 1M.
 * @param contextWindow base of the latest compaction and of the stop while streaming
 */
export function thresholdsOf(usable: number, contextWindow: number, overrides: ThresholdShares = {}): Thresholds {
  const compactAt = overrides.compactAt ?? SHARES.compactAt;
  const latestPrune = compactAt * PRUNE_BELOW_COMPACT;
  const pruneAt = Math.min(overrides.pruneAt ?? Math.min(SHARES.pruneAt, latestPrune), compactAt * LATEST_PRUNE_SHARE);
  // A target at the trigger would compact again at once, forever.
  const compactTo = Math.min(SHARES.compactTo, compactAt * TARGET_BELOW_COMPACT);
  const part = (shareOfUsable: number): number => Math.floor(usable * shareOfUsable);
  const tailTokens = overrides.tail === undefined ? Math.min(part(SHARES.tail), MAX_TAIL_TOKENS) : part(overrides.tail);
  return {
    usableTokens: usable,
    toolOutputTokens: part(SHARES.toolOutput),
    toolBatchTokens: part(SHARES.toolBatch),
    pruneAtTokens: part(pruneAt),
    pruneProtectTokens: Math.min(part(SHARES.pruneProtect), MAX_PRUNE_PROTECT_TOKENS),
    pruneProtectTurns: PRUNE_PROTECT_TURNS,
    pruneMinimumTokens: Math.min(part(SHARES.pruneMinimum), MAX_PRUNE_MINIMUM_TOKENS),
    compactAtTokens: part(compactAt),
    compactByTokens:
      overrides.compactAt === undefined
        ? Math.max(
            part(compactAt),
            Math.min(part(SHARES.compactBy), Math.floor(contextWindow * SHARES.compactByOfWindow)),
          )
        : part(compactAt),
    // A tail as large as the target would leave no room for the summary.
    tailTokens: Math.min(tailTokens, part(compactTo)),
    compactToTokens: part(compactTo),
    compactionReductionShare: SHARES.compactionReduction,
    retryGrowthTokens: part(SHARES.retryGrowth),
    summaryTokens: Math.max(MIN_SUMMARY_TOKENS, Math.min(MAX_SUMMARY_TOKENS, part(SHARES.summary))),
    streamStopAtTokens: Math.floor(contextWindow * SHARES.streamStopAt),
  };
}
