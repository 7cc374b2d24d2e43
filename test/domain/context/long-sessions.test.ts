import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readSummary, userText } from '../../../src/domain/context/compaction/summary-document.ts';
import {
  mergeResources,
  type TouchedResource,
  touchedResources,
} from '../../../src/domain/context/compaction/touched-files.ts';
import { toModelMessages } from '../../../src/domain/model/model-messages.ts';
import type { Part, ViewMessage } from '../../../src/domain/transcript/message.ts';
import { propertyRuns } from '../../support/property-runs.ts';
import { anthropicProblems, encodeForAnthropic } from '../valid-for-anthropic.ts';
import { anyWindow, inWire, wireText } from './any-compaction.ts';
import { compacted, plan, sizeOf, thresholdsFor, tokensOf } from './compaction-view.ts';
import { continued, conversation } from './conversation-arbitrary.ts';
import { callOf, MODEL, signedReasoning, textOf } from './measure-view.ts';
import { type LoopOptions, SessionLoop } from './session-loop.ts';

const prose = (tokens: number): string => 'river stone engine letter garden '.repeat(Math.ceil(tokens / 5));
const TASK = 'Port the parser. Never touch the lexer.';

function sessionWith(options: LoopOptions): SessionLoop {
  const session = new SessionLoop(options);
  session.say(textOf(TASK));
  return session;
}

/**
 * Expects that no request was refused, no compaction failed, the run is not exhausted, no call is orphaned, and the
 * task is still there. Every session must end so.
 */
function expectSound(session: SessionLoop): void {
  const { history, view, meter } = session;
  expect(history.exhausted).toBe(null);
  expect(history.refused).toBe(0);
  expect(history.failedRounds).toBe(0);
  expect(anthropicProblems(encodeForAnthropic(toModelMessages(view, { model: meter.model })))).toEqual([]);
  for (let at = 0; at < history.sent.length; at += 25) expect(session.prompt(at).join()).toContain(inWire(TASK));
}

describe('six rounds in a row', () => {
  it('invariant 12: keep the size bounded, the file list whole, and the first and the last request of the user', () => {
    let rounds = 0;
    fc.assert(
      fc.property(fc.array(conversation, { minLength: 6, maxLength: 6 }), anyWindow, (parts, contextWindow) => {
        const thresholds = thresholdsFor(contextWindow);
        let view: readonly ViewMessage[] = [];
        let seq = 0;
        let touched: TouchedResource[] = [];
        for (const part of parts) {
          view = continued(view, part, seq + 1);
          seq = view.at(-1)?.seq ?? seq;
          touched = mergeResources(touchedResources(view), touched);
          const planned = plan(view, thresholds);
          if (planned.kind !== 'compact') continue;
          seq++;
          rounds++;
          view = compacted(planned, thresholds, seq);
          expect(new Set(readSummary(view)?.resources)).toEqual(new Set(touched));
          expect(sizeOf(view)).toBeLessThanOrEqual(planned.targetTokens);
          expectKept(parts, part, view, thresholds.usableTokens);
          expect(ownTokens(view)).toBeLessThan(2 * thresholds.summaryTokens + thresholds.compactToTokens / 4 + 300);
        }
      }),
      { numRuns: propertyRuns(0.3) },
    );
    expect(rounds).toBeGreaterThan(0);
  });

  it('invariant 12: take no more room for the summary of the sixth round than for that of the first', () => {
    const session = sessionWith({ contextWindow: 16_000, policy: { prune: { enabled: false } } });
    for (let step = 0; session.history.rounds.length < 6; step++) {
      expect(session.step(textOf(`Step ${step}.`), callOf({ path: `src/f${step % 9}.ts` }, prose(700)))).toBe(true);
    }
    expectSound(session);
    const [first, ...later] = session.history.rounds;
    for (const round of later) {
      expect(round.summaryTokens).toBeLessThanOrEqual((first?.summaryTokens ?? 0) * 1.05);
      expect(round.tokensAfter).toBeLessThanOrEqual(session.meter.thresholds.compactToTokens);
    }
    const paths = readSummary(session.view)?.resources.map(({ path }) => path);
    expect(new Set(paths)).toEqual(new Set(Array.from({ length: 9 }, (_, at) => `src/f${at}.ts`)));
  });
});

/** Expects the first and the last text of the user to be kept, the first one only if it is not too long. */
function expectKept(
  [first]: readonly (readonly ViewMessage[])[],
  newest: readonly ViewMessage[],
  view: readonly ViewMessage[],
  usableTokens: number,
): void {
  const firstText = userText(first?.[0]?.parts ?? []) ?? '';
  const lastText = userText(newest.findLast(({ role }) => role === 'user')?.parts ?? []) ?? '';
  if (firstText.length / 4 <= usableTokens / 8) {
    const summary = readSummary(view);
    const { firstUser } = summary ?? {};
    expect(firstUser?.at === 'summary' ? firstUser.text : userText(summary?.carried ?? [])).toBe(firstText);
  }
  expect(wireText(view)).toContain(inWire(lastText));
}

/** The tokens of the summary itself, without the user's last words in the same message. */
function ownTokens([summary]: readonly ViewMessage[]): number {
  if (summary === undefined) return 0;
  return tokensOf({ ...summary, parts: summary.parts.filter(({ type }) => type === 'compaction') });
}

describe('a single turn of 500 steps', () => {
  it.each([16_000, 64_000, 200_000])('stays inside a window of %i tokens and keeps its task', (contextWindow) => {
    const session = sessionWith({ contextWindow });
    for (let step = 0; step < 500; step++) {
      const file = `src/f${step % 30}.ts`;
      const call =
        step % 5 === 4
          ? callOf({ path: file, content: prose(150) }, 'ok', { toolName: 'edit_file' })
          : callOf({ path: file }, prose(step % 17 === 0 ? 1_500 : 250));
      expect(session.step(textOf(`Step ${step}.`), { ...call, toolCallId: `call_${step}` })).toBe(true);
    }
    expectSound(session);
    const { rounds, prunes, sent } = session.history;
    expect(sent).toHaveLength(500);
    expect(rounds.length + prunes).toBeGreaterThan(0);
    // Each of them breaks the cache, so none may happen without need.
    expect(rounds.length + prunes).toBeLessThan((500 * 700) / (0.1 * session.meter.thresholds.usableTokens) + 4);
  });
});

describe('eight parallel results of 30k tokens', () => {
  const batch: Part[] = Array.from({ length: 8 }, (_, at) =>
    callOf({ path: `big-${at}.log` }, prose(26_000), { toolCallId: `call_${at}` }),
  );

  it('fit a window that holds them: what is older gives way, and the fresh batch stays whole', () => {
    const session = sessionWith({ contextWindow: 400_000 });
    for (let step = 0; step < 60; step++) {
      session.step(textOf(`Step ${step}.`), callOf({ path: `src/f${step}.ts` }, prose(2_000)));
    }
    expect(session.step(textOf('All of them.'), ...batch)).toBe(true);
    expect(session.step(textOf('Read.'))).toBe(true);
    expectSound(session);
    const shown = session.prompt().join();
    expect(shown.split(inWire(prose(26_000))).length - 1).toBe(8);
  });

  it('that no window holds are shown shorter, all of them, with the ids of the whole', () => {
    const session = sessionWith({ contextWindow: 128_000 });
    for (let step = 0; step < 10; step++) {
      session.step(textOf(`Step ${step}.`), callOf({ path: `src/f${step}.ts` }, prose(2_000)));
    }
    expect(session.step(textOf('All of them.'), ...batch)).toBe(true);
    expect(session.step(textOf('Read.'))).toBe(true);
    expectSound(session);
    const shown = session.prompt().join();
    for (let at = 0; at < 8; at++) expect(shown).toMatch(new RegExp(`read_tool_output, id out_\\d+_${at + 1}\\D`));
    expect(session.history.rounds).toHaveLength(1);
  });
});

describe('a model that reasons much', () => {
  it('is measured with the thinking that goes back to it, and stays inside its window', () => {
    const session = sessionWith({ contextWindow: 64_000 });
    for (let step = 0; step < 120; step++) {
      const thinking = signedReasoning(prose(1_500));
      expect(session.step(thinking, textOf('So.'), callOf({ path: 'a.ts' }, prose(100)))).toBe(true);
    }
    expectSound(session);
    expect(session.history.rounds.length).toBeGreaterThan(2);
    expect(session.meter.measure(session.view, session.state).byKind.reasoning).toBeGreaterThan(5_000);
  });

  it('is not measured with thinking that no request carries: it does not compact for nothing', () => {
    const session = sessionWith({ contextWindow: 64_000 });
    for (let step = 0; step < 120; step++) {
      const unsigned: Part = { type: 'reasoning', text: prose(1_500) };
      expect(session.step(unsigned, textOf('So.'), callOf({ path: 'a.ts' }, prose(100)))).toBe(true);
    }
    expectSound(session);
    expect(session.history.rounds).toHaveLength(0);
  });
});

describe('a change of the model', () => {
  const steps = (session: SessionLoop, count: number): void => {
    for (let step = 0; step < count; step++) {
      const thinking: Part = {
        type: 'reasoning',
        text: `thought for ${session.meter.model}. ${prose(200)}`,
        providerMetadata: { anthropic: { signature: `signed-for-${session.meter.model}` } },
      };
      expect(session.step(thinking, textOf('So.'), callOf({ path: 'a.ts' }, prose(100)))).toBe(true);
    }
  };

  it('sends no foreign thinking, measures anew, and both models keep their own', () => {
    const session = sessionWith({ contextWindow: 64_000 });
    const other = 'anthropic/claude-sonnet-5';
    steps(session, 20);
    const anchoredTokens = session.meter.measure(session.view, session.state).total;
    session.switchTo(other);
    const switched = session.meter.measure(session.view, session.state);
    expect(switched.isAnchored).toBe(false);
    expect(switched.byKind.reasoning).toBe(0);
    expect(switched.total).toBeLessThan(anchoredTokens);
    session.say(textOf('And now?'));
    steps(session, 20);
    expect(session.prompt().join()).not.toContain(`signed-for-${MODEL}`);
    expect(session.prompt().join()).toContain(`signed-for-${other}`);
    session.switchTo(MODEL);
    session.say(textOf('Back again.'));
    steps(session, 1);
    expect(session.prompt().join()).toContain(`signed-for-${MODEL}`);
    expect(session.prompt().join()).not.toContain(`signed-for-${other}`);
    expectSound(session);
  });

  it('to one with a smaller window compacts before the first request to it', () => {
    const session = sessionWith({ contextWindow: 200_000 });
    for (let step = 0; step < 50; step++) session.step(textOf(prose(1_500)), callOf({ path: 'a.ts' }, 'ok'));
    expect(session.history.rounds).toHaveLength(0);
    session.switchTo('anthropic/small', 32_000);
    session.say(textOf('And now?'));
    expect(session.step(textOf('Done.'))).toBe(true);
    expectSound(session);
    expect(session.history.rounds).toHaveLength(1);
    expect(session.prompt().join()).toContain('And now?');
  });
});

describe('a summarizer that fails for ever', () => {
  it('costs no step: the middle goes without a summary, and the run ends neither in a loop nor exhausted', () => {
    const session = sessionWith({
      contextWindow: 16_000,
      summarize: () => null,
      policy: { prune: { enabled: false } },
    });
    for (let step = 0; step < 100; step++) {
      expect(session.step(textOf(`Step ${step}.`), callOf({ path: 'a.ts' }, prose(400)))).toBe(true);
    }
    const { refused, exhausted, rounds, failedRounds } = session.history;
    expect({ refused, exhausted }).toEqual({ refused: 0, exhausted: null });
    expect(rounds.length).toBeGreaterThan(2);
    // Between 80 % and 100 % a failed compaction is tried again only once the view has grown.
    expect(failedRounds).toBeLessThan(4 * rounds.length);
  });
});
