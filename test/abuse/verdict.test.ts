import { describe, expect, it } from 'vitest';
import { type Evidence, type Felt, judge, limitFor, timed } from './verdict.ts';

const FELT: Felt = {
  quiet: { n: 100, p50: 5, p99: 30 },
  meanwhile: { n: 100, p50: 6, p99: 140 },
  limitMs: limitFor(30),
  failed: 0,
};

/** Evidence of a row in which all went well, with changes. */
const evidence = (changes: Partial<Evidence> = {}): Evidence => ({
  felt: { read: FELT, create: FELT, run: FELT },
  spares: ['read', 'create', 'run'],
  failures: [],
  ended: [],
  lost: [],
  stuck: [],
  breaches: [],
  done: { requests: 7 },
  brokenOff: null,
  ...changes,
});

describe('the judge of the abuse suite', () => {
  it('finds nothing where all went well', () => {
    expect(judge(evidence())).toEqual({ faults: [], slow: [], mayBeNoise: false });
  });

  it.each<[string, Partial<Evidence>, RegExp]>([
    ['a process that ended', { ended: ['api ended by itself: exit code 134'] }, /^api ended by itself: exit code 134$/],
    [
      'an accepted message that is nowhere',
      { lost: ['message m1', 'message m2'] },
      /^accepted and lost: 2, such as message m1 \| message m2$/,
    ],
    [
      'a run that never ended',
      { stuck: ['run r1: running'] },
      /^accepted and never ended: 1, such as run r1: running$/,
    ],
    ['a breach', { breaches: ['a key that was made up was let in'] }, /made up/],
    [
      'requests that were not served',
      { failures: ['503 away', '503 away'] },
      /^not served to the other tenant: 2, such as 503 away$/,
    ],
    ['an attack that broke off', { brokenOff: 'the attack broke off: no session' }, /no session/],
    ['an attack that did nothing', { done: {} }, /^nothing was done$/],
    ['an attack that counted nothing', { done: { requests: 0 } }, /^nothing was done$/],
  ])('no second look excuses %s', (_what, changes, reason) => {
    expect(judge(evidence(changes))).toEqual({ faults: [expect.stringMatching(reason)], slow: [], mayBeNoise: false });
  });

  it('compares the p99 with its value in quiet', () => {
    const slow = { ...FELT, meanwhile: { n: 100, p50: 6, p99: 150.1 } };
    expect(judge(evidence({ felt: { read: FELT, create: FELT, run: slow } }))).toEqual({
      faults: [],
      slow: ['run: p99 150.1 ms, in quiet 30 ms, at most 150 ms are ok'],
      mayBeNoise: true,
    });
  });

  it('tries a row again that was a little too slow, but not one with four times its limit or with faults', () => {
    const felt = (p99: number): Evidence['felt'] => ({
      read: FELT,
      create: FELT,
      run: { ...FELT, meanwhile: { n: 100, p50: 6, p99 } },
    });
    const verdicts = [{ felt: felt(599) }, { felt: felt(600) }, { felt: felt(599), lost: ['message m1'] }];
    expect(verdicts.map((changes) => judge(evidence(changes)).mayBeNoise)).toEqual([true, false, false]);
  });

  it('holds nothing against the requests of a kind that cannot be served', () => {
    const refused = { ...FELT, meanwhile: { n: 3, p50: 900, p99: 9_000 }, failed: 3 };
    expect(judge(evidence({ felt: { read: FELT, create: FELT, run: refused }, spares: ['read', 'create'] }))).toEqual({
      faults: [],
      slow: [],
      mayBeNoise: false,
    });
  });

  it.each(['quiet', 'meanwhile'] as const)('does not judge a p99 of too few requests: %s', (when) => {
    const few = { ...FELT, [when]: { n: 99, p50: 1, p99: 2 } };
    expect(judge(evidence({ felt: { read: few, create: FELT, run: FELT } })).faults).toEqual([
      'only 99 requests of the kind read were measured',
    ]);
  });

  it('does not compare with a quiet value of which five times says nothing, but tries the row again', () => {
    const felt = (p99: number): Evidence['felt'] => {
      const loud = { ...FELT, quiet: { n: 100, p50: 50, p99 }, limitMs: limitFor(p99) };
      return { read: FELT, create: FELT, run: loud };
    };
    expect(judge(evidence({ felt: felt(300) }))).toEqual({ faults: [], slow: [], mayBeNoise: false });
    expect(judge(evidence({ felt: felt(301) }))).toEqual({
      faults: [],
      slow: ['run: p99 301 ms in quiet, of which five times says nothing'],
      mayBeNoise: true,
    });
    expect(judge(evidence({ felt: felt(301), spares: ['read', 'create'] })).slow).toEqual([]);
  });

  it('allows five times the quiet value, and 100 ms where that is less', () => {
    expect([limitFor(3), limitFor(20), limitFor(50)]).toEqual([100, 100, 250]);
    expect(timed(Array.from({ length: 200 }, (_, at) => at + 1))).toEqual({ n: 200, p50: 100, p99: 198 });
  });
});
