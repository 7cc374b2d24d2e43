import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { judgeSizes } from '../../../src/domain/context/compaction-outcome.ts';
import type { CompactPlan } from '../../../src/domain/context/compaction-plan.ts';
import { readSummary, userText } from '../../../src/domain/context/summary-document.ts';
import type { Thresholds } from '../../../src/domain/context/thresholds.ts';
import { mergeResources, touchedResources } from '../../../src/domain/context/touched-files.ts';
import type { ViewMessage } from '../../../src/domain/message.ts';
import { toModelMessages } from '../../../src/domain/model-messages.ts';
import { anthropicProblems, encodeForAnthropic } from '../valid-for-anthropic.ts';
import { after, OVERHEAD_TOKENS, plan, sizeOf, thresholdsFor, tokensOf } from './compaction-view.ts';
import { continued, conversation } from './conversation-arbitrary.ts';
import { MODEL } from './measure-view.ts';

const WINDOWS = [8_000, 16_000, 32_000, 64_000, 128_000, 200_000] as const;
const window = fc.constantFrom(...WINDOWS);
const options = fc.record({
  keepRecentMessages: fc.constantFrom(undefined, undefined, 5, 30),
  preserveLastNTurns: fc.constantFrom(undefined, undefined, 1, 3),
  mayRepeat: fc.boolean(),
});

const RUNS = 150;

type Compacted = Readonly<{
  view: readonly ViewMessage[];
  thresholds: Thresholds;
  plan: CompactPlan;
  next: readonly ViewMessage[];
}>;

/** Checks every compaction that is planned of a conversation. */
function forAnyCompaction(check: (compacted: Compacted) => void): void {
  let checked = 0;
  fc.assert(
    fc.property(conversation, window, options, (view, contextWindow, rest) => {
      const thresholds = thresholdsFor(contextWindow);
      const planned = plan(view, thresholds, rest);
      if (planned.kind !== 'compact') return;
      const seq = (view.at(-1)?.seq ?? 0) + 1;
      checked++;
      check({ view, thresholds, plan: planned, next: after(planned, thresholds, seq) });
    }),
    { numRuns: RUNS },
  );
  // Otherwise the generator makes conversations that need none.
  expect(checked).toBeGreaterThan(RUNS / 2);
}

const wireText = (view: readonly ViewMessage[]): string => JSON.stringify(toModelMessages(view, { model: MODEL }));
const inWire = (text: string): string => JSON.stringify(text).slice(1, -1);

describe('any compaction', () => {
  it('cuts between two messages: head and tail are the view, and calls stay with their results', () => {
    forAnyCompaction(({ view, plan: { head, tail, fromSeq, uptoSeq, viewStartSeq }, next }) => {
      expect([...head, ...tail]).toEqual(view);
      expect(fromSeq).toBe(view[0]?.seq);
      expect(uptoSeq).toBe(head.at(-1)?.seq);
      expect(viewStartSeq).toBe(uptoSeq + 1);
      expect(anthropicProblems(encodeForAnthropic(toModelMessages(next, { model: MODEL })))).toEqual([]);
    });
  });

  it('keeps the last user message and those of the tail verbatim, and the first one up to its bound', () => {
    forAnyCompaction(({ view, thresholds, plan: { tail }, next }) => {
      const text = wireText(next);
      const users = view.filter(({ role }) => role === 'user');
      for (const { parts } of [...users.slice(-1), ...tail.filter(({ role }) => role === 'user')]) {
        expect(text).toContain(inWire(userText(parts) ?? ''));
      }
      const first = userText(users[0]?.parts ?? []) ?? '';
      const bound = Math.min(2_000, thresholds.usableTokens / 4);
      if (first.length / 4 <= bound) expect(text).toContain(inWire(first));
      else expect(text).toContain(inWire(first.slice(0, 200)));
    });
  });

  it('keeps results that no request has shown the model yet', () => {
    forAnyCompaction(({ view, plan: { tail } }) => {
      const newest = view.findLast(({ role }) => role === 'assistant');
      const isFresh = newest?.parts.some(({ type }) => type === 'tool') === true;
      if (isFresh) expect(tail).toContain(newest);
    });
  });

  it('makes the view smaller by a tenth and brings it to its target, whatever summary comes within its bound', () => {
    forAnyCompaction(({ view, thresholds, plan: { targetTokens, bodyTokens, tokensBefore }, next }) => {
      expect(tokensBefore).toBe(sizeOf(view));
      expect(bodyTokens).toBe(thresholds.summaryTokens);
      const sizes = { tokensBefore, tokensAfter: sizeOf(next), targetTokens };
      expect(judgeSizes({ ...sizes, reductionShare: thresholds.compactionReductionShare })).toBe(null);
      expect(targetTokens).toBeLessThanOrEqual(thresholds.usableTokens);
    });
  });

  it('keeps its target of half of what can be used, unless what must stay is larger', () => {
    forAnyCompaction(({ thresholds, plan: { targetTokens, tail, carried, head, firstUser } }) => {
      if (targetTokens === thresholds.compactToTokens) return;
      const first = firstUser?.at === 'summary' ? firstUser.text.length / 4 : 0;
      const stays = [...tail, ...(carried.length === 0 ? [] : [{ ...head[0], parts: carried } as ViewMessage])];
      const least = OVERHEAD_TOKENS + first + stays.reduce((sum, message) => sum + tokensOf(message), 0);
      expect(least + 2 * thresholds.summaryTokens + 200).toBeGreaterThan(thresholds.compactToTokens);
    });
  });

  it('is not planned again for what it has left (no compaction on its own output)', () => {
    forAnyCompaction(({ thresholds, next }) => {
      expect(plan(next, thresholds).kind).not.toBe('compact');
    });
  });

  it('names every file that was edited, until there are more than the list holds', () => {
    forAnyCompaction(({ view, next }) => {
      const edited = touchedResources(view).filter(({ access }) => access === 'edited');
      expect(new Set(readSummary(next)?.resources)).toEqual(new Set(touchedResources(view)));
      for (const { path } of edited) expect(wireText(next)).toContain(path);
    });
  });

  it('never hides an error of the tail', () => {
    forAnyCompaction(({ plan: { tail, marks } }) => {
      for (const { messageId, index } of marks) {
        const part = tail.find(({ id }) => id === messageId)?.parts[index];
        expect(part?.type === 'tool' && part.state === 'error').toBe(false);
      }
    });
  });
});

describe('a view that no compaction can make fit', () => {
  it('is told by what is too large before any model is asked, and only then', () => {
    fc.assert(
      fc.property(conversation, window, fc.integer({ min: 0, max: 60_000 }), (view, contextWindow, overheadTokens) => {
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
      { numRuns: 150 },
    );
  });
});

describe('six rounds in a row', () => {
  it('keep the size bounded, the file list whole, and the first and the last request of the user', () => {
    let compacted = 0;
    fc.assert(
      fc.property(fc.array(conversation, { minLength: 6, maxLength: 6 }), window, (rounds, contextWindow) => {
        const thresholds = thresholdsFor(contextWindow);
        let view: ViewMessage[] = [];
        let seq = 0;
        let touched: ReturnType<typeof touchedResources> = [];
        for (const round of rounds) {
          view = continued(view, round, seq + 1);
          seq = view.at(-1)?.seq ?? seq;
          touched = mergeResources(touchedResources(view), touched);
          const first =
            readSummary(view)?.firstUserText ?? userText(view.find(({ role }) => role === 'user')?.parts ?? []);
          const planned = plan(view, thresholds);
          if (planned.kind !== 'compact') continue;
          seq++;
          compacted++;
          view = after(planned, thresholds, seq);
          const summary = readSummary(view);
          expect(new Set(summary?.resources)).toEqual(new Set(touched));
          expect(sizeOf(view)).toBeLessThanOrEqual(planned.targetTokens);
          const [message] = view;
          const carried = summary?.carried.reduce(
            (sum, part) => sum + (part.type === 'text' ? part.text.length / 4 : 0),
            0,
          );
          const own = tokensOf(message as ViewMessage) - (carried ?? 0);
          expect(own).toBeLessThan(2 * thresholds.summaryTokens + Math.min(2_000, thresholds.usableTokens / 4) + 200);
          if ((first?.length ?? 0) / 4 <= Math.min(2_000, thresholds.usableTokens / 4)) {
            expect(summary?.firstUserText).toBe(first);
          }
        }
      }),
      { numRuns: 40 },
    );
    expect(compacted).toBeGreaterThan(150);
  });
});
