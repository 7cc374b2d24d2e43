import type { ErrorRecord } from '../errors.ts';
import type { OverflowNumbers } from '../model/overflow-limit.ts';
import type { PendingKind } from '../run/run.ts';
import { MAX_COMPACTIONS_WITHOUT_STEP } from './decide.ts';
import { isStartedBy } from './limits/policy.ts';
import type { ContextMeter } from './meter/context-meter.ts';
import type { CompactionReason, ContextState } from './meter/state.ts';

/** Overflows that one step survives; the next one ends the run. */
const MAX_OVERFLOWS_PER_STEP = 2;

/** What helps against the overflow; see `REMEDIES`. */
export type OverflowRemedy = 'compact' | 'shrink_output' | 'strip_media';

export type StepPlace = Readonly<{ runId: string; stepNo: number }>;

/** What follows an overflow that the provider reported: the same step again, after a compaction or a prune, or the end of the run. */
export type OverflowPlan = Readonly<
  | { kind: 'retry'; after: PendingKind; contextState: ContextState }
  | { kind: 'exhausted'; error: ErrorRecord }
  /** There is nothing in the view that this remedy could take out. */
  | { kind: 'helpless' }
>;

export type OverflowInput = Readonly<{
  meter: ContextMeter;
  state: ContextState;
  place: StepPlace;
  remedy: OverflowRemedy;
  numbers: OverflowNumbers | null;
  /** What the refused request allowed for the answer. */
  maxOutputTokens: number;
  /** The view holds images or files. */
  hasMedia: boolean;
  /** What was refused, in words. */
  message: string;
}>;

/** With less room than this for an answer it is the history that must shrink. */
const MIN_OUTPUT_TOKENS = 256;

/** Decides what follows an overflow. Bounded: on whatever route, a step overflows at most twice before the run ends. */
export function planOverflow(input: OverflowInput): OverflowPlan {
  const { state, place, remedy } = input;
  const { policy } = input.meter;
  const count = (isAt(state.overflow, place) ? state.overflow.count : 0) + 1;
  const counted: ContextState = { ...state, overflow: { ...place, count }, pending: null };
  if (remedy === 'strip_media' && !input.hasMedia) return { kind: 'helpless' };
  if (count > MAX_OVERFLOWS_PER_STEP) return refusal(input, `${MAX_OVERFLOWS_PER_STEP} attempts at it did not help`);
  if (remedy === 'strip_media') {
    const pending = { reason: 'overflow', force: true, stripMedia: true } as const;
    return { kind: 'retry', after: 'prune', contextState: { ...counted, anchor: null, pending } };
  }
  const tokens = input.numbers?.outputRoomTokens ?? Math.floor(input.maxOutputTokens / 2);
  if (remedy === 'shrink_output' && !isAt(state.outputCap, place) && tokens >= MIN_OUTPUT_TOKENS) {
    return { kind: 'retry', after: 'step', contextState: { ...counted, outputCap: { ...place, tokens } } };
  }
  if (!isStartedBy(policy, 'overflow')) return refusal(input, 'nothing is compacted unasked (strategy: manual)');
  if (state.compactionsSinceStep >= MAX_COMPACTIONS_WITHOUT_STEP) {
    return refusal(input, `${state.compactionsSinceStep} compactions in a row did not help`);
  }
  return { kind: 'retry', after: 'compaction', contextState: withPending(counted, 'overflow') };
}

/** The state with a compaction before it that must be made, whatever the thresholds say. */
export function withPending(state: ContextState, reason: CompactionReason, force = true): ContextState {
  return { ...state, pending: { reason, force, stripMedia: false } };
}

/** Whether something was noted for this very step. */
export function isAt<T extends StepPlace>(noted: T | null, place: StepPlace): noted is T {
  return noted !== null && noted.runId === place.runId && noted.stepNo === place.stepNo;
}

function refusal({ meter, numbers, message }: OverflowInput, why: string): OverflowPlan {
  const told =
    numbers === null
      ? `window ${meter.limits.contextWindow} tokens`
      : `requested ${numbers.requestedTokens ?? 'unknown'}, limit ${numbers.limitTokens ?? 'unknown'} tokens`;
  const error: ErrorRecord = { code: 'context_exhausted', message: `${message} (${told}); ${why}.` };
  return { kind: 'exhausted', error };
}
