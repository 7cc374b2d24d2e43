import { describe, expect, it } from 'vitest';
import { gone } from './check/gone.ts';
import type { AcceptedMessage, ModelRequest } from './check/messages.ts';
import { broken, judge, type Observed } from './check/verdict.ts';
import { accepted, answer, call, effect, events, messageId, observed, SESSION, user, withCall } from './observed.ts';

const LOSSES = [{ fromMs: 1_000, untilMs: 2_000 }];
const wallClock = (ms: number): number => performance.timeOrigin + ms;

/** A message that is nowhere. */
const lost = (sentAtMs: number, answeredAtMs: number): AcceptedMessage => ({
  ...accepted(2),
  sentAtMs,
  answeredAtMs,
});

const withLost = (message: AcceptedMessage): Observed =>
  observed({}, { losses: LOSSES, accepted: [accepted(1), message] });

const asking = (changes: Partial<ModelRequest>): Observed =>
  observed(
    {},
    {
      losses: LOSSES,
      requests: [
        { text: 'message-0-1', violations: [] },
        { text: '', violations: [], ...changes },
      ],
    },
  );

/** A reader whose third event came at another time than the one in the log. */
function readAt(createdAt: string): Observed {
  const log = events().map((event) => ({ ...event, createdAt: '2026-01-01T00:00:00.000499+00:00' }));
  const got = log.map(({ seq, type }) => ({
    seq,
    type,
    createdAt: seq === 3 ? createdAt : '2026-01-01T00:00:00.000Z',
  }));
  return observed({ events: log }, { read: new Map([[`ses_${SESSION.replaceAll('-', '')}`, got]]) });
}

describe('the judge, where Postgres has lost commits', () => {
  it.each<[string, Observed]>([
    ['a message that was answered before the loss was over', withLost(lost(1_500, 1_600))],
    ['one that was sent before and answered later', withLost(lost(1_900, 9_000))],
    ['a request that showed in its time what was lost then', asking({ text: 'message-0-9', startedAtMs: 1_500 })],
    [
      'a call whose effect was lost with the commit of its result, and came again',
      {
        ...withCall(
          call('call-1', 'completed', 'done call-1'),
          { ...effect('call-1'), at: wallClock(1_500) },
          { ...effect('call-1'), at: wallClock(90_000) },
        ),
        losses: LOSSES,
      },
    ],
    [
      'an effect of a call that is lost',
      { ...observed({ effects: [{ ...effect('call-9'), at: wallClock(1_500) }] }), losses: LOSSES },
    ],
    ['a reader of the events of the log', readAt('2026-01-01T00:00:00.000Z')],
  ])('has nothing against %s', (_what, given) => {
    expect(broken(judge(given))).toEqual([]);
  });

  it.each<[string, keyof ReturnType<typeof judge>, Observed]>([
    ['a message that was answered before anything was lost', 'lostMessages', withLost(lost(900, 950))],
    ['one that was sent when nothing was lost any more', 'lostMessages', withLost(lost(2_001, 2_100))],
    [
      'a request that showed long after what was lost',
      'ghostRequests',
      asking({ text: 'message-0-9', startedAtMs: 8_000 }),
    ],
    ['one that showed a lost answer', 'ghostRequests', asking({ text: '<answer 7> words', startedAtMs: 8_000 })],
    [
      'an answer in a transcript to what no transcript has',
      'ghostRequests',
      asking({ text: 'message-0-1 message-0-9', startedAtMs: 1_500, answer: 1 }),
    ],
    [
      'an effect that happened twice after the loss',
      'repeatedTools',
      {
        ...withCall(
          call('call-1', 'completed', 'done call-1'),
          { ...effect('call-1'), at: wallClock(80_000) },
          { ...effect('call-1'), at: wallClock(90_000) },
        ),
        losses: LOSSES,
      },
    ],
    ['a reader that keeps an event of a lost history', 'unreset', readAt('2025-12-31T23:59:59.000Z')],
    ['a run that stands still', 'standing', observed({}, { standing: ['run 1'] })],
  ])('finds %s', (_what, kind, given) => {
    expect(broken(judge(given))).toContain(kind);
  });

  it('counts the messages that went with lost commits, and those of them that were answered later', () => {
    const kept = { messages: [user(1, 'Task message-0-1.'), answer(2, 1)], waiting: new Set<string>() };
    const sent = [{ ...accepted(1), sentAtMs: 1_500, answeredAtMs: 1_600 }, lost(1_500, 1_600), lost(1_900, 2_100)];
    expect(gone(kept, sent, LOSSES)).toEqual({ n: 2, answeredLater: 1 });
    const third: AcceptedMessage = { ...lost(3_000, 3_100), messageId: messageId(3) };
    expect(gone(kept, [third], LOSSES)).toEqual({ n: 0, answeredLater: 0 });
  });
});
