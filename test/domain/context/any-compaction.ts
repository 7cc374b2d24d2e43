import fc from 'fast-check';
import { expect } from 'vitest';
import type { CompactPlan } from '../../../src/domain/context/compaction/compaction-plan.ts';
import { outlookOf } from '../../../src/domain/context/expected-cost.ts';
import { contextPolicySchema } from '../../../src/domain/context/limits/policy.ts';
import type { Thresholds } from '../../../src/domain/context/limits/thresholds.ts';
import { withMarks } from '../../../src/domain/context/prune/prune-job.ts';
import { type PlannedMark, planPrune } from '../../../src/domain/context/prune/prune-plan.ts';
import { toModelMessages } from '../../../src/domain/model/model-messages.ts';
import type { ViewMessage } from '../../../src/domain/transcript/message.ts';
import { compacted, countText, plan, sizeOf, thresholdsFor } from './compaction-view.ts';
import { conversation } from './conversation-arbitrary.ts';
import { assistantOf, callOf, MODEL } from './measure-view.ts';

/** Usual windows, from local models to large hosted ones. */
export const anyWindow = fc.constantFrom(8_000, 16_000, 32_000, 64_000, 128_000, 200_000);

const planOptions = fc.record({
  keepRecentMessages: fc.constantFrom(undefined, undefined, 5, 30),
  preserveLastNTurns: fc.constantFrom(undefined, undefined, 1, 3),
  mayRepeat: fc.boolean(),
});

type FreshResult = Readonly<{ chars: number; failed: boolean }>;
const freshResult: fc.Arbitrary<FreshResult> = fc.record({
  chars: fc.integer({ min: 200, max: 40_000 }),
  failed: fc.integer({ min: 0, max: 3 }).map((chance) => chance === 0),
});

/** Results that the model has not been shown yet: none, a short one, or a batch larger than a small window. */
const freshResults = fc.option(fc.array(freshResult, { minLength: 1, maxLength: 8 }), {
  freq: 2,
  nil: [],
});

function withFreshResults(view: readonly ViewMessage[], results: readonly FreshResult[]): readonly ViewMessage[] {
  if (results.length === 0) return view;
  const calls = results.map(({ chars, failed }, at) => {
    const value = 'fresh '.repeat(chars / 6);
    const error = { state: 'error', output: { type: 'error-text', value } } as const;
    return callOf({ path: `fresh-${at}.ts` }, value, failed ? error : {});
  });
  return [...view, assistantOf((view.at(-1)?.seq ?? 0) + 1, ...calls)];
}

/** A compacted conversation with its plan and sizes. */
export type Compacted = Readonly<{
  view: readonly ViewMessage[];
  thresholds: Thresholds;
  plan: CompactPlan;
  next: readonly ViewMessage[];
}>;

/** Checks every compaction that is planned for a conversation, with and without a prune before. */
export function forAnyCompaction(check: (compacted: Compacted) => void): void {
  let checked = 0;
  fc.assert(
    fc.property(
      conversation,
      freshResults,
      anyWindow,
      planOptions,
      fc.boolean(),
      (said, fresh, contextWindow, rest, isPruned) => {
        const thresholds = thresholdsFor(contextWindow);
        const whole = withFreshResults(said, fresh);
        const view = isPruned ? prune(whole, thresholds).next : whole;
        const planned = plan(view, thresholds, rest);
        if (planned.kind !== 'compact') return;
        checked++;
        check({ view, thresholds, plan: planned, next: compacted(planned, thresholds, (view.at(-1)?.seq ?? 0) + 1) });
      },
    ),
  );
  // Fails if the generator made no conversation that needs a compaction.
  expect(checked).toBeGreaterThan(0);
}

/** A conversation after a prune that cleared everything it may. */
export type Pruned = Readonly<{
  view: readonly ViewMessage[];
  marks: readonly PlannedMark[];
  next: readonly ViewMessage[];
}>;

/** Clears everything that a prune may clear, as if it was asked for. */
export function prune(view: readonly ViewMessage[], thresholds: Thresholds, protectedTools: string[] = []): Pruned {
  const { prune: policy } = contextPolicySchema.parse({ prune: { protectedTools } });
  const prices = { read: 0.1, write: 1.25, output: 5 };
  const outlook = outlookOf(view, { usedTokens: sizeOf(view), overheadTokens: 0, prices, thresholds });
  const planned = planPrune({ view, count: countText, ratio: 1, thresholds, policy, outlook, force: true });
  const marks = planned.kind === 'prune' ? planned.marks : [];
  return { view, marks, next: withMarks(view, marks) };
}

/** Checks every prune that clears something. */
export function forAnyPrune(check: (pruned: Pruned, thresholds: Thresholds) => void): void {
  let checked = 0;
  fc.assert(
    fc.property(conversation, anyWindow, (view, contextWindow) => {
      const thresholds = thresholdsFor(contextWindow);
      const pruned = prune(view, thresholds);
      if (pruned.marks.length === 0) return;
      checked++;
      check(pruned, thresholds);
    }),
  );
  expect(checked).toBeGreaterThan(0);
}

/** The model's messages for a view, as JSON. */
export const wireText = (view: readonly ViewMessage[]): string =>
  JSON.stringify(toModelMessages(view, { model: MODEL }));

/** A text as it stands in `wireText`. */
export const inWire = (text: string): string => JSON.stringify(text).slice(1, -1);
