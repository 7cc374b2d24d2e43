import type { Worth } from '../../../src/domain/context/decide.ts';
import { UNKNOWN_MODEL } from '../../../src/domain/context/limits/model-entry.ts';
import { contextPolicySchema } from '../../../src/domain/context/limits/policy.ts';
import {
  type ContextMeter,
  type ContextMeterInput,
  createContextMeter,
} from '../../../src/domain/context/meter/context-meter.ts';
import { type Measurement, TOKEN_KINDS } from '../../../src/domain/context/meter/measure.ts';
import { type ContextState, NEW_CONTEXT_STATE } from '../../../src/domain/context/meter/state.ts';
import { MODEL } from './measure-view.ts';

/**
 * 20k window, 16k usable, 4k reserve: prune from 8k, compaction from 12.8k. A token is four characters, and without a
 * sample one estimated token is one real token.
 */
export function smallMeter(policy: unknown = {}, rest: Partial<ContextMeterInput> = {}): ContextMeter {
  return createContextMeter({
    model: MODEL,
    entry: { ...UNKNOWN_MODEL, contextWindow: 20_000, maxOutput: 4_000, isGuessed: false },
    learned: null,
    prior: 1 / 1.1,
    policy: contextPolicySchema.parse(policy),
    instructions: '',
    tools: [],
    count: (text) => Math.ceil(text.length / 4),
    ...rest,
  });
}

/** A measurement of so many tokens, all of them of the user unless said otherwise. */
export function measured(total: number, kinds: Partial<Measurement['byKind']> = {}): Measurement {
  const given = Object.values(kinds).reduce((sum, tokens) => sum + tokens, 0);
  const byKind = Object.fromEntries(TOKEN_KINDS.map((kind) => [kind, 0])) as Measurement['byKind'];
  return { total, byKind: { ...byKind, user: total - given, ...kinds }, isAnchored: true };
}

/** By default a compaction pays from its threshold on, and a prune does not. */
export const worthOf = ({ prune = false, compaction = true } = {}): Worth => ({
  prune: () => prune,
  compaction: () => compaction,
});

/** The state of a session that the model was asked in before. */
export const stateOf = (state: Partial<ContextState> = {}): ContextState => ({
  ...NEW_CONTEXT_STATE,
  model: MODEL,
  ...state,
});
