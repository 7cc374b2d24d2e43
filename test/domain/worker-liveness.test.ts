import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  checkIntervalMs,
  judgeWorkers,
  type LivenessWatch,
  NEW_WATCH,
  type WorkerSight,
  withoutSuspects,
} from '../../src/domain/liveness/worker-liveness.ts';
import {
  DEATH_CONFIRMED_AFTER_MS,
  LIVENESS_PING_INTERVAL_MS,
  LOSS_WITNESSED_AFTER_MS,
} from '../../src/domain/tunables.ts';

const LEASE_DURATION_MS = 30_000;
const SELF: WorkerSight = { id: 'self', lockKey: 1, lockFree: false, lockedAt: '1', seenAt: '100', lostAlone: false };
const OTHER: WorkerSight = { id: 'other', lockKey: 2, lockFree: true, lockedAt: '2', seenAt: '100', lostAlone: false };

type Look = Readonly<{ nowMs: number; workers: readonly WorkerSight[] }>;

const look = (watch: LivenessWatch, { nowMs, workers }: Look) => {
  const times = { askedAtMs: nowMs, answeredAtMs: nowMs };
  return judgeWorkers(watch, { ownId: SELF.id, workers, ...times, leaseDurationMs: LEASE_DURATION_MS });
};

/** Who was taken for dead at each of several looks. */
function judgeAll(looks: readonly Look[]): string[][] {
  let watch = NEW_WATCH;
  return looks.map((each) => {
    const judged = look(watch, each);
    watch = judged.watch;
    return judged.dead.map(({ id }) => id);
  });
}

describe('a worker is dead', () => {
  it('when its lock is free in two looks that are far enough apart, and at every later one', () => {
    const workers = [SELF, OTHER];
    const looks = [0, DEATH_CONFIRMED_AFTER_MS - 1, DEATH_CONFIRMED_AFTER_MS, 5_000].map((nowMs) => ({
      nowMs,
      workers,
    }));
    expect(judgeAll(looks)).toEqual([[], [], ['other'], ['other']]);
  });

  it.each<[string, WorkerSight]>([
    ['gave a sign of life', { ...OTHER, seenAt: '101' }],
    ['has another lock', { ...OTHER, lockKey: 3 }],
  ])('not when it %s since the first look: that counts as the first one', (_name, changed) => {
    const looks = [
      { nowMs: 0, workers: [SELF, OTHER] },
      { nowMs: 1_000, workers: [SELF, changed] },
      { nowMs: 999 + DEATH_CONFIRMED_AFTER_MS, workers: [SELF, changed] },
      { nowMs: 1_000 + DEATH_CONFIRMED_AFTER_MS, workers: [SELF, changed] },
    ];
    expect(judgeAll(looks)).toEqual([[], [], [], ['other']]);
  });

  it('not when its lock was held in between', () => {
    const looks = [
      { nowMs: 0, workers: [SELF, OTHER] },
      { nowMs: 500, workers: [SELF, { ...OTHER, lockFree: false }] },
      { nowMs: 1_000, workers: [SELF, OTHER] },
    ];
    expect(judgeAll(looks)).toEqual([[], [], []]);
  });

  it('not when the look in between got no answer', () => {
    const { watch } = look(NEW_WATCH, { nowMs: 0, workers: [SELF, OTHER] });
    expect(look(withoutSuspects(watch), { nowMs: 1_000, workers: [SELF, OTHER] }).dead).toEqual([]);
  });

  it('and is looked at again as soon as its death can be confirmed', () => {
    const first = look(NEW_WATCH, { nowMs: 0, workers: [SELF, OTHER] });
    const second = look(first.watch, { nowMs: 500, workers: [SELF, OTHER] });
    expect([first.nextCheckInMs, second.nextCheckInMs]).toEqual([150, DEATH_CONFIRMED_AFTER_MS - 500]);
  });

  it('not when the answers to two looks may have been given at nearly the same moment', () => {
    const times = [
      { askedAtMs: 0, answeredAtMs: 700 },
      { askedAtMs: 800, answeredAtMs: 810 },
      { askedAtMs: 700 + DEATH_CONFIRMED_AFTER_MS - 1, answeredAtMs: 5_000 },
      { askedAtMs: 700 + DEATH_CONFIRMED_AFTER_MS, answeredAtMs: 5_000 },
    ];
    let watch = NEW_WATCH;
    const dead = times.map((time) => {
      const check = { ownId: SELF.id, workers: [SELF, OTHER], ...time, leaseDurationMs: LEASE_DURATION_MS };
      const judged = judgeWorkers(watch, check);
      watch = judged.watch;
      return judged.dead.map(({ id }) => id);
    });
    expect(dead).toEqual([[], [], [], ['other']]);
  });

  it('and its loss is told to those who come later, soon and until it is written down', () => {
    const known = { ...OTHER, lostAlone: true };
    const looks = [
      { nowMs: 0, workers: [SELF, OTHER] },
      { nowMs: LOSS_WITNESSED_AFTER_MS - 1, workers: [SELF, OTHER] },
      { nowMs: LOSS_WITNESSED_AFTER_MS, workers: [SELF, OTHER] },
      { nowMs: LOSS_WITNESSED_AFTER_MS + 1, workers: [SELF, known] },
    ];
    let watch = NEW_WATCH;
    const told = looks.map((each) => {
      const judged = look(watch, each);
      watch = judged.watch;
      return [judged.lostAlone.map(({ id }) => id), judged.nextCheckInMs];
    });
    expect(told).toEqual([
      [[], 150],
      [[], 1],
      [['other'], 150],
      [[], 150],
    ]);
  });

  it('and is looked for the less often by each, the more there are who look', () => {
    expect([0, 2, 3, 10, 100].map(checkIntervalMs)).toEqual([150, 150, 195, 650, 1_000]);
  });
});

describe('whoever lost the own lock takes nobody for dead for a whole lease', () => {
  it.each<[string, readonly WorkerSight[]]>([
    ['it is free', [{ ...SELF, lockFree: true }, OTHER]],
    ['it is another one by now', [{ ...SELF, lockKey: 9 }, OTHER]],
    ['others have removed it', [OTHER]],
  ])('%s', (_name, disturbed) => {
    const { watch } = look(NEW_WATCH, { nowMs: 0, workers: [SELF, OTHER] });
    const cut = look(watch, { nowMs: 1_000, workers: disturbed });
    expect(cut.dead).toEqual([]);
    const self = disturbed.find(({ id }) => id === SELF.id) ?? SELF;
    const workers = [{ ...self, lockFree: false }, OTHER];
    let current = cut.watch;
    const taken: number[] = [];
    for (let nowMs = 2_000; nowMs <= 33_000; nowMs += 1_000) {
      const judged = look(current, { nowMs, workers });
      current = judged.watch;
      if (judged.dead.length > 0) taken.push(nowMs);
    }
    expect(taken).toEqual([32_000, 33_000]);
  });

  it('whatever happened before: at no look, and never itself', () => {
    const workers = fc.array(
      fc.record({
        id: fc.constantFrom('self', 'other', 'third'),
        lockKey: fc.integer({ min: 1, max: 3 }),
        lockFree: fc.boolean(),
        lockedAt: fc.constantFrom('1', '100', '102'),
        seenAt: fc.constantFrom('100', '101'),
        lostAlone: fc.boolean(),
      }),
      { maxLength: 3 },
    );
    const looks = fc.array(fc.record({ afterMs: fc.integer({ min: 0, max: 40_000 }), workers }), { maxLength: 20 });
    fc.assert(
      fc.property(looks, (given) => {
        let watch = NEW_WATCH;
        let nowMs = 0;
        let disturbedAtMs = Number.NEGATIVE_INFINITY;
        let ownKey: number | undefined;
        for (const { afterMs, workers: seen } of given) {
          nowMs += afterMs;
          const own = seen.find(({ id }) => id === SELF.id);
          if (own?.lockFree !== false || own.lockKey !== (ownKey ?? own.lockKey)) disturbedAtMs = nowMs;
          ownKey = own?.lockKey ?? ownKey;
          const judged = look(watch, { nowMs, workers: seen });
          watch = judged.watch;
          if (judged.dead.length === 0) continue;
          expect(nowMs - disturbedAtMs).toBeGreaterThanOrEqual(LEASE_DURATION_MS);
          expect(judged.dead.every(({ lockFree }) => lockFree)).toBe(true);
        }
      }),
    );
  });
});

describe('whoever has just started', () => {
  // A lock is taken at the time that is its key: keys rise.
  const newcomer: WorkerSight = { ...SELF, lockKey: 9, lockedAt: '9' };
  const free = (id: string, lockKey: number, seenAt = lockKey + 0.5): WorkerSight => {
    return { id, lockKey, lockFree: true, lockedAt: `${lockKey}`, seenAt: `${seenAt}`, lostAlone: false };
  };
  const held = (id: string, lockKey: number): WorkerSight => {
    return { id, lockKey, lockFree: false, lockedAt: `${lockKey}`, seenAt: '100', lostAlone: false };
  };
  const LATER_MS = [0, 1_000, 5_000, LEASE_DURATION_MS - 1, LEASE_DURATION_MS, LEASE_DURATION_MS + 1_000];

  it.each<[string, readonly WorkerSight[], readonly string[], readonly string[]]>([
    ['the only other lock is free', [free('a', 1)], ['a'], ['a']],
    ['an older lock is held', [held('a', 1), free('b', 2), free('c', 3)], ['b', 'c'], ['b', 'c']],
    ['all others are free', [free('a', 1), free('b', 2)], [], ['a', 'b']],
    ['one of two is back with another lock', [held('a', 8), free('b', 2)], [], ['b']],
    ['a lock is held that was taken before the other was last heard of', [held('a', 3), free('b', 1, 4)], ['b'], ['b']],
    ['one was heard of since the newcomer came', [free('a', 1, 9.5), free('b', 2)], ['a'], ['a', 'b']],
    ['another one has started as well', [free('a', 1), free('b', 2), held('new', 10)], [], ['a', 'b']],
    [
      'somebody knew that one of them was lost alone',
      [{ ...free('a', 1), lostAlone: true }, free('b', 2)],
      ['a'],
      ['a', 'b'],
    ],
    ['one was lost before an older one, one after it', [free('a', 1), held('b', 2), free('c', 3)], ['c'], ['a', 'c']],
  ])('judges as it should where %s', (_name, others, atOnce, afterALease) => {
    const workers = [newcomer, ...others];
    const dead = judgeAll(LATER_MS.map((nowMs) => ({ nowMs, workers })));
    expect(dead).toEqual([[], atOnce, atOnce, atOnce, atOnce, afterALease]);
  });

  it('believes a lock that it has seen held, however many are free', () => {
    const [before, after] = [held('a', 3), free('a', 3)].map((a) => [newcomer, a, free('b', 1), free('c', 2)]);
    const looks = [before, after, after].map((workers, index) => ({ nowMs: index * 1_000, workers: workers ?? [] }));
    expect(judgeAll(looks)).toEqual([[], [], ['a']]);
  });

  it('believes the free lock that somebody has taken who was doubted before', () => {
    const others = [free('b', 2), free('c', 3)];
    const looks = [free('a', 1), held('a', 10), free('a', 10), free('a', 10)].map((a, index) => ({
      nowMs: index * 1_000,
      workers: [newcomer, a, ...others],
    }));
    expect(judgeAll(looks)).toEqual([[], [], [], ['a']]);
  });

  it('tells nobody of those whom it doubts', () => {
    const workers = [newcomer, free('a', 1), free('b', 2)];
    let watch = NEW_WATCH;
    for (const nowMs of [0, 1_000, 5_000]) {
      const judged = look(watch, { nowMs, workers });
      watch = judged.watch;
      expect(judged.lostAlone).toEqual([]);
    }
  });

  it('takes nobody who lives within a lease after an outage, however the others come back and whoever is dead', () => {
    const back = fc.nat(LEASE_DURATION_MS);
    const workers = fc.uniqueArray(
      fc.record({ key: fc.integer({ min: 1, max: 100 }), isBackAtMs: back, saysSoAtMs: back, isDead: fc.boolean() }),
      { minLength: 2, maxLength: 6, selector: ({ key }) => key },
    );
    const pauses = fc.array(fc.integer({ min: 1, max: 3_000 }), { maxLength: 30 });
    fc.assert(
      fc.property(workers, back, pauses, (others, startedAtMs, pausesMs) => {
        // Keys are given in the order in which locks are taken, before the outage and after it; the outage ends at 0.
        const keyAt = (nowMs: number, key: number): number => 1_000 + nowMs * 1_000 + key;
        const lastSaid = (nowMs: number, sinceMs: number): number =>
          nowMs < sinceMs ? -1 : nowMs - ((nowMs - sinceMs) % LIVENESS_PING_INTERVAL_MS);
        let watch = NEW_WATCH;
        let nowMs = startedAtMs;
        for (const pauseMs of [0, ...pausesMs]) {
          nowMs += pauseMs;
          if (nowMs >= LEASE_DURATION_MS) return;
          const seen = others.map(({ key, isBackAtMs, saysSoAtMs, isDead }) => {
            const isFree = isDead || nowMs < isBackAtMs;
            const lockKey = isFree ? key : keyAt(isBackAtMs, key);
            const seenAt = isDead ? -1 : lastSaid(nowMs, saysSoAtMs);
            const lockedAt = isFree ? -1_000 + key : isBackAtMs;
            return {
              id: `${key}`,
              lockKey,
              lockFree: isFree,
              lockedAt: `${lockedAt}`,
              seenAt: `${seenAt}`,
              lostAlone: false,
            };
          });
          const self = { ...SELF, lockKey: keyAt(startedAtMs, 0), lockedAt: `${startedAtMs}` };
          const judged = look(watch, { nowMs, workers: [self, ...seen] });
          expect(judged.dead).toEqual([]);
          watch = judged.watch;
        }
      }),
    );
  });
});
