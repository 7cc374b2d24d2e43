import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { judgeSizes } from '../../../src/domain/context/compaction/compaction-outcome.ts';
import { readSummary } from '../../../src/domain/context/compaction/summary-document.ts';
import { DEFAULT_CUTS, NARROW_CUTS, serializeMessages } from '../../../src/domain/context/compaction/summary-input.ts';
import { SUMMARY_SECTIONS } from '../../../src/domain/context/compaction/summary-marks.ts';
import { validateSummary } from '../../../src/domain/context/compaction/summary-validation.ts';
import { decideContext } from '../../../src/domain/context/decide.ts';
import { UNKNOWN_MODEL } from '../../../src/domain/context/limits/model-entry.ts';
import { contextPolicySchema } from '../../../src/domain/context/limits/policy.ts';
import { createContextMeter } from '../../../src/domain/context/meter/context-meter.ts';
import { TOKEN_KINDS } from '../../../src/domain/context/meter/measure.ts';
import { NEW_CONTEXT_STATE } from '../../../src/domain/context/meter/state.ts';
import type { ViewMessage } from '../../../src/domain/transcript/message.ts';
import { propertyRuns } from '../../support/property-runs.ts';
import { anyWindow, forAnyCompaction, forAnyPrune, prune } from './any-compaction.ts';
import { compacted, countText, OVERHEAD_TOKENS, plan, sizeOf, thresholdsFor, tokensOf } from './compaction-view.ts';
import { conversation } from './conversation-arbitrary.ts';
import { MODEL } from './measure-view.ts';
import { worthOf } from './small-meter.ts';

const tokens = fc.nat(300_000);

describe('the progress of a compaction', () => {
  it('invariants 5, 6: one that leaves as much, or less than a tenth off, or more than its target, is refused', () => {
    fc.assert(
      fc.property(tokens, tokens, tokens, (tokensBefore, tokensAfter, targetTokens) => {
        const refusal = judgeSizes({ tokensBefore, tokensAfter, targetTokens, reductionShare: 0.1 });
        if (tokensAfter >= tokensBefore) expect(refusal).toBe('not_smaller');
        else if (tokensAfter > 0.9 * tokensBefore) expect(refusal).toBe('too_little');
        else expect(refusal).toBe(tokensAfter > targetTokens ? 'above_target' : null);
      }),
    );
  });

  it('invariants 5, 6, 8: one that is planned is strictly smaller, by a tenth, and at its target, with the longest summary', () => {
    forAnyCompaction(({ view, thresholds, plan: { targetTokens, bodyTokens, tokensBefore }, next }) => {
      expect(tokensBefore).toBe(sizeOf(view));
      expect(bodyTokens).toBe(thresholds.summaryTokens);
      const sizes = { tokensBefore, tokensAfter: sizeOf(next), targetTokens };
      expect(judgeSizes({ ...sizes, reductionShare: thresholds.compactionReductionShare })).toBe(null);
      expect(targetTokens).toBeLessThanOrEqual(thresholds.usableTokens);
    });
  });

  it('invariant 8: the target is half of what can be used, unless what must stay is larger', () => {
    forAnyCompaction(({ thresholds, plan: { targetTokens, tail, carried, head, firstUser } }) => {
      if (targetTokens === thresholds.compactToTokens) return;
      const first = firstUser?.at === 'summary' ? firstUser.text.length / 4 : 0;
      const stays = [...tail, ...(carried.length === 0 ? [] : [{ ...head[0], parts: carried } as ViewMessage])];
      const least = OVERHEAD_TOKENS + first + stays.reduce((sum, message) => sum + tokensOf(message), 0);
      expect(least + 2 * thresholds.summaryTokens + 200).toBeGreaterThan(thresholds.compactToTokens);
    });
  });

  it('invariant 7: none is planned of what one has just left', () => {
    forAnyCompaction(({ thresholds, next }) => {
      expect(plan(next, thresholds).kind).not.toBe('compact');
    });
  });

  it('invariant 7: a prune of what a prune has left clears nothing more', () => {
    forAnyPrune(({ next }, thresholds) => {
      expect(prune(next, thresholds).marks).toEqual([]);
    });
  });
});

describe('what can never fit', () => {
  it('invariant 9: is told by what is too large before any model is asked, and only then', () => {
    fc.assert(
      fc.property(conversation, anyWindow, fc.nat(60_000), (view, contextWindow, overheadTokens) => {
        const thresholds = thresholdsFor(contextWindow);
        const { usableTokens } = thresholds;
        const planned = plan(view, thresholds, { overheadTokens });
        const last = view.findLast(({ role }) => role === 'user');
        const least = overheadTokens + (last === undefined ? 0 : tokensOf(last));
        if (least > usableTokens) {
          const what = overheadTokens > usableTokens ? 'overhead' : 'user_message';
          expect(planned).toMatchObject({ kind: 'too_large', what, usableTokens });
        }
        if (planned.kind === 'too_large') {
          const whole = overheadTokens + view.reduce((sum, message) => sum + tokensOf(message), 0);
          expect(whole).toBeGreaterThan(usableTokens);
        }
      }),
    );
  });

  it('invariant 9: instructions and tools above what can be used end the run, whatever the state, with the numbers', () => {
    const meter = createContextMeter({
      model: MODEL,
      entry: { ...UNKNOWN_MODEL, contextWindow: 16_000, maxOutput: 4_000, isGuessed: false },
      learned: null,
      prior: null,
      policy: contextPolicySchema.parse({}),
      instructions: '',
      tools: [],
      count: countText,
    });
    const { usableTokens } = meter.thresholds;
    fc.assert(
      fc.property(fc.nat(usableTokens * 2), fc.nat(usableTokens * 2), fc.nat(3), (instructions, tools, compactions) => {
        const byKind = {
          ...(Object.fromEntries(TOKEN_KINDS.map((kind) => [kind, 0])) as Record<(typeof TOKEN_KINDS)[number], number>),
          instructions,
          tools,
        };
        const measurement = { total: instructions + tools, byKind, isAnchored: false };
        const state = { ...NEW_CONTEXT_STATE, compactionsSinceStep: compactions };
        const decision = decideContext(meter, measurement, state, { worth: worthOf({ prune: true }) });
        if (instructions + tools > usableTokens) expect(decision.kind).toBe('exhausted');
        if (decision.kind === 'exhausted') {
          expect(decision.error.code).toBe('context_exhausted');
          expect(decision.error.message).toContain(`${instructions + tools} of ${usableTokens} tokens`);
        }
      }),
    );
  });
});

describe('the summary', () => {
  const answer = SUMMARY_SECTIONS.map((section) => `${section}\nnone`).join('\n');

  it('invariant 12: has the same bound in every round of a chain, and a longer answer is refused', () => {
    fc.assert(
      fc.property(fc.array(conversation, { minLength: 3, maxLength: 3 }), anyWindow, (rounds, contextWindow) => {
        const thresholds = thresholdsFor(contextWindow);
        let view: ViewMessage[] = [];
        for (const more of rounds) {
          const from = view.at(-1)?.seq ?? 0;
          view = [...view, ...more.map((message) => ({ ...message, seq: from + message.seq }))];
          const planned = plan(view, thresholds);
          if (planned.kind !== 'compact') continue;
          const { bodyTokens } = planned;
          expect(bodyTokens).toBe(thresholds.summaryTokens);
          const of = (length: number) =>
            validateSummary(
              { text: answer, finishReason: 'stop', toolCalls: 0, tokens: length },
              { replacedTokens: 1_000_000, targetTokens: bodyTokens },
            );
          expect([of(bodyTokens), of(bodyTokens + 1)]).toEqual([null, 'too_long']);
          view = compacted(planned, thresholds, (view.at(-1)?.seq ?? 0) + 1);
          // The model's only text in the chain is the last body: no earlier body is kept beside it.
          expect(countText(readSummary(view)?.body ?? '')).toBeLessThanOrEqual(bodyTokens);
        }
      }),
      { numRuns: propertyRuns(0.8) },
    );
  });

  it('invariant 13: what the summarizer is given fits its window in every piece, and has every message', () => {
    fc.assert(
      fc.property(
        conversation,
        fc.integer({ min: 100, max: 8_000 }),
        fc.constantFrom(DEFAULT_CUTS, NARROW_CUTS),
        (messages, pieceTokens, cuts) => {
          const pieces = serializeMessages(messages, pieceTokens, countText, cuts);
          expect(Math.max(...pieces.map(countText))).toBeLessThanOrEqual(pieceTokens);
          const all = pieces.join('\n');
          for (const { seq } of messages) expect(all).toContain(`[message ${seq}]`);
        },
      ),
    );
  });
});
