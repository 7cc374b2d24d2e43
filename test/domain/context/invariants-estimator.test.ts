import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ViewMessage } from '../../../src/domain/transcript/message.ts';
import { propertyRuns } from '../../support/property-runs.ts';
import { anyWindow } from './any-compaction.ts';
import { continued, conversation } from './conversation-arbitrary.ts';
import { textOf } from './measure-view.ts';
import { type LoopOptions, SessionLoop } from './session-loop.ts';

/** Plays a conversation with a provider that bills `billedPerEstimate` tokens for each estimated one. */
function play(messages: readonly ViewMessage[], options: LoopOptions): SessionLoop {
  const session = new SessionLoop(options);
  for (const { role, parts } of messages) {
    if (role === 'user') session.say(...parts);
    else if (!session.step(...parts)) break;
  }
  return session;
}

/** Only a request that does not fit is compacted: the measure alone keeps requests inside their window. */
const MANUAL = { strategy: 'manual' };

const smallWindow = fc.constantFrom(8_000, 16_000, 32_000, 64_000);
const factor = fc.double({ min: 1, max: 1.4, noNaN: true });

describe('the estimator', () => {
  it('invariant 20: is never negative, and only grows with the view, anchored or not', () => {
    fc.assert(
      fc.property(conversation, factor, (messages, billedPerEstimate) => {
        const session = play(messages, { contextWindow: 200_000, billedPerEstimate });
        for (const state of [session.state, { ...session.state, anchor: null }]) {
          let before = 0;
          const added = continued(session.view, messages.slice(0, 6), (session.view.at(-1)?.seq ?? 0) + 1);
          for (let length = session.view.length; length <= added.length; length++) {
            const { total } = session.meter.measure(added.slice(0, length), state);
            expect(total).toBeGreaterThanOrEqual(before);
            before = total;
          }
        }
        expect(session.meter.measure([], session.state).total).toBeGreaterThanOrEqual(0);
      }),
      { numRuns: propertyRuns(0.3) },
    );
  });

  it('invariant 20: is within 2 % of the bill in every call once it is anchored and calibrated, whatever the tokenizer', () => {
    let calls = 0;
    fc.assert(
      fc.property(conversation, factor, (messages, billedPerEstimate) => {
        const { billed, measured, isSure } = play(messages, { contextWindow: 200_000, billedPerEstimate }).history;
        billed.forEach((real, at) => {
          if (isSure[at] !== true) return;
          calls++;
          expect(Math.abs((measured[at] ?? 0) / real - 1)).toBeLessThan(0.02);
        });
      }),
      { numRuns: propertyRuns(0.4) },
    );
    expect(calls).toBeGreaterThan(0);
  });

  it('invariant 20: is on the safe side with a conversation that it meets as a whole: its first call is not refused', () => {
    let large = 0;
    fc.assert(
      fc.property(conversation, smallWindow, factor, (messages, contextWindow, billedPerEstimate) => {
        const session = new SessionLoop({ contextWindow, billedPerEstimate, policy: { compaction: MANUAL } });
        session.recall(messages);
        session.say(textOf('Go on.'));
        session.step(textOf('Done.'));
        expect(session.history.refused).toBe(0);
        if ((session.history.billed[0] ?? 0) > 0.25 * contextWindow) large++;
      }),
    );
    expect(large).toBeGreaterThan(0);
  });

  it('invariant 20: is on the safe side from the first call on: none is refused by the window', () => {
    let calls = 0;
    fc.assert(
      fc.property(conversation, anyWindow, factor, (messages, contextWindow, billedPerEstimate) => {
        const { history } = play(messages, { contextWindow, billedPerEstimate });
        expect(history.refused).toBe(0);
        calls += history.billed.length;
      }),
      { numRuns: propertyRuns(0.6) },
    );
    expect(calls).toBeGreaterThan(0);
  });
});
