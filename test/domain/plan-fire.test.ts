import { describe, expect, it } from 'vitest';
import { type DueFire, planFire } from '../../src/domain/schedules/plan-fire.ts';

const at = (time: string): number => Date.parse(`2026-05-05T${time}:00Z`);
const HOURLY: DueFire = {
  clock: { cron: '0 * * * *', timezone: 'UTC' },
  fireAtMs: at('09:00'),
  dueAtMs: at('09:00'),
  nowMs: at('09:00') + 1_000,
  unwatchedUntilMs: 0,
  sessionKind: 'new',
  overlap: 'skip',
  catchup: 'none',
  isBusy: false,
  wasHeld: false,
};
const next = (time: string) => ({ nextMs: at(time) });

describe('a fire that is due', () => {
  it('fires, and the next one is an hour later', () => {
    expect(planFire(HOURLY)).toEqual({ kind: 'fire', fireAtMs: at('09:00'), ...next('10:00') });
  });

  it('is not late by its jitter', () => {
    const late = { ...HOURLY, dueAtMs: at('09:50'), nowMs: at('09:50') };
    expect(planFire(late)).toEqual({ kind: 'fire', fireAtMs: at('09:00'), ...next('10:00') });
  });

  it.each([
    ['skip', 'new', 'skip'],
    ['skip', 'same', 'skip'],
    ['replace', 'new', 'replace'],
    ['replace', 'same', 'replace'],
    ['queue', 'same', 'fire'],
  ] as const)('while the last run is active: %s with a %s session', (overlap, sessionKind, kind) => {
    const plan = planFire({ ...HOURLY, isBusy: true, overlap, sessionKind });
    expect(plan).toEqual({ kind, fireAtMs: at('09:00'), ...next('10:00') });
  });

  it('waits for the last run where sessions are new, and then is one, the last', () => {
    const busy = { ...HOURLY, overlap: 'queue', isBusy: true } as const;
    expect(planFire(busy)).toEqual({ kind: 'hold' });
    const free = { ...busy, isBusy: false, wasHeld: true, nowMs: at('11:20') };
    expect(planFire(free)).toEqual({ kind: 'fire', fireAtMs: at('11:00'), ...next('12:00') });
  });

  it('that no worker was there for is missed, or the last of them fires late', () => {
    const missed = { ...HOURLY, nowMs: at('12:20'), unwatchedUntilMs: at('12:20') };
    expect(planFire(missed)).toEqual({ kind: 'miss', fireAtMs: at('12:00'), ...next('13:00') });
    const caught = planFire({ ...missed, catchup: 'last' });
    expect(caught).toEqual({ kind: 'fire', fireAtMs: at('12:00'), ...next('13:00') });
  });

  it('is missed after others were, however recent it is', () => {
    const nowMs = at('12:20') + 20_000;
    const everyMinute = { ...HOURLY, clock: { cron: '* * * * *', timezone: 'UTC' }, nowMs, unwatchedUntilMs: nowMs };
    expect(planFire(everyMinute)).toEqual({ kind: 'miss', fireAtMs: at('12:20'), ...next('12:21') });
  });

  it('a minute late is still on time', () => {
    const by = (nowMs: number) => planFire({ ...HOURLY, nowMs, unwatchedUntilMs: nowMs }).kind;
    expect(by(at('09:01'))).toBe('fire');
    expect(by(at('09:01') + 1)).toBe('miss');
  });

  it.each(['none', 'last'] as const)('fires late if a worker was there, with catchup %s', (catchup) => {
    const late = { ...HOURLY, catchup, nowMs: at('11:20'), unwatchedUntilMs: at('08:59') };
    expect(planFire(late)).toEqual({ kind: 'fire', fireAtMs: at('11:00'), ...next('12:00') });
  });
});
