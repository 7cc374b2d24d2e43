import type { ErrorRecord } from '../errors.ts';
import type { OverflowNumbers } from '../model/overflow-limit.ts';
import type { PendingKind } from '../run/run.ts';
import { MAX_COMPACTIONS_WITHOUT_STEP } from './decide.ts';
import { isStartedBy } from './limits/policy.ts';
import type { ContextMeter } from './meter/context-meter.ts';
import type { CompactionReason, ContextState } from './meter/state.ts';

/** Overflows that one step survives; the next one ends the run. */
const MAX_OVERFLOWS_PER_STEP = 2;

/** Remedies against an overflow; see `REMEDIES`. */
export type OverflowRemedy = 'compact' | 'shrink_output' | 'strip_media';

export type StepPlace = Readonly<{ runId: string; stepNo: number }>;

export type OverflowPlan = Readonly<
  | { kind: 'retry'; after: PendingKind; contextState: ContextState }
  | { kind: 'exhausted'; error: ErrorRecord }
  /** The view holds nothing that this remedy could remove. */
  | { kind: 'helpless' }
>;

export type OverflowInput = Readonly<{
  meter: ContextMeter;
  state: ContextState;
  place: StepPlace;
  remedy: OverflowRemedy;
  numbers: OverflowNumbers | null;
  /** Limit of the answer in the refused request. */
  maxOutputTokens: number;
  hasMedia: boolean;
  /** Begins the error's message if the run ends. */
  message: string;
}>;

/** With less room than this for an answer, the history must shrink instead. */
const MIN_OUTPUT_TOKENS = 256;

/**
 * Plans the next try of a step that overflowed. A step that overflows more than `MAX_OVERFLOWS_PER_STEP` times ends its
 * run, with any remedy.
 */
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

/** State with a pending compaction or prune. `force`: it is done even below the thresholds. */
export function withPending(state: ContextState, reason: CompactionReason, force = true): ContextState {
  return { ...state, pending: { reason, force, stripMedia: false } };
}

/** The same for what holds for one model alone: a fallback in the same step has ways of its own. */
export function isAtModel<T extends StepPlace & Readonly<{ model: string }>>(
  noted: T | null,
  place: StepPlace & Readonly<{ agent: Readonly<{ model: string }> }>,
): noted is T {
  return isAt(noted, place) && noted.model === place.agent.model;
}

export function isAt<T extends StepPlace>(noted: T | null, place: StepPlace): noted is T {
  return noted !== null && noted.runId === place.runId && noted.stepNo === place.stepNo;
}

function refusal({ meter, numbers, message }: OverflowInput, why: string): OverflowPlan {
  const providerLimit =
    numbers === null
      ? `window ${meter.limits.contextWindow} tokens`
      : `requested ${numbers.requestedTokens ?? 'unknown'}, limit ${numbers.limitTokens ?? 'unknown'} tokens`;
  const error: ErrorRecord = { code: 'context_exhausted', message: `${message} (${providerLimit}); ${why}.` };
  return { kind: 'exhausted', error };
}
