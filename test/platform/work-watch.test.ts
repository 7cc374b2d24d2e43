import { expect, it } from 'vitest';
import { createWorkWatch } from '../../src/platform/work-watch.ts';

function start() {
  const state = { nowMs: 0, isAway: false };
  const ask = async (): Promise<void> => {
    if (state.isAway) throw new Error('away');
  };
  return { state, watch: createWorkWatch({ queue: ask, postgres: ask }, () => state.nowMs) };
}

it('says why a process is stuck once work has failed for 30 s without a success', async () => {
  const { state, watch } = start();
  const report = watch.of('add jobs to steps', 'queue');
  report.failed(new Error('Connection is closed.'));
  state.nowMs = 29_000;
  report.failed(new Error('Connection is closed.'));
  expect(await watch.whyStuck()).toBeNull();
  state.nowMs = 31_000;
  report.failed(new Error('Connection is closed.'));
  expect(await watch.whyStuck()).toMatch(/failed for 31 s to add jobs to steps \(Connection is closed\.\)/);
  report.succeeded();
  expect(await watch.whyStuck()).toBeNull();
});

it('does not hold against the process that a store is away for everybody, nor work that is over', async () => {
  const { state, watch } = start();
  const report = watch.of('sweep', 'postgres');
  report.failed(new Error('no'));
  state.nowMs = 40_000;
  report.failed(new Error('no'));
  state.isAway = true;
  expect(await watch.whyStuck()).toBeNull();
  state.isAway = false;
  expect(await watch.whyStuck()).not.toBeNull();
  state.nowMs = 75_000;
  expect(await watch.whyStuck()).toBeNull();
});
