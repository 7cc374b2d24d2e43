import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { createWatchdog } from '../../src/model/watchdog.ts';

const TIMEOUTS = { firstChunkMs: 1_000, idleChunkMs: 100, wholeStepMs: 10_000 };

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

it('gives the model its long time before the first sign, and the short one between two', () => {
  using watchdog = createWatchdog(TIMEOUTS);
  vi.advanceTimersByTime(999);
  watchdog.heard();
  vi.advanceTimersByTime(99);
  watchdog.heard();
  vi.advanceTimersByTime(99);
  expect(watchdog.signal.aborted).toBe(false);
  vi.advanceTimersByTime(1);
  expect(watchdog.signal.reason).toMatchObject({ name: 'TimeoutError', message: 'the model was silent for 0.1 s' });
});

// Field bugs: opencode#14769, opencode#21173: busy for ever.
it('gives up a model that never begins', () => {
  using watchdog = createWatchdog(TIMEOUTS);
  vi.advanceTimersByTime(1_000);
  expect(watchdog.signal.reason).toMatchObject({ name: 'TimeoutError', message: 'the model was silent for 1 s' });
});

it('gives up an answer that trickles on without an end', () => {
  using watchdog = createWatchdog(TIMEOUTS);
  for (let elapsedMs = 0; elapsedMs < 9_950; elapsedMs += 50) {
    vi.advanceTimersByTime(50);
    watchdog.heard();
  }
  expect(watchdog.signal.aborted).toBe(false);
  vi.advanceTimersByTime(50);
  expect(watchdog.signal.reason).toMatchObject({ name: 'TimeoutError', message: 'the answer took longer than 10 s' });
});

it('rests once the answer is whole: tools may take as long as they like, whatever is still heard', () => {
  using watchdog = createWatchdog(TIMEOUTS);
  watchdog.heard();
  watchdog.rest();
  watchdog.heard();
  vi.advanceTimersByTime(1_000_000);
  expect(watchdog.signal.aborted).toBe(false);
});

it('leaves no timer behind', () => {
  {
    using _watchdog = createWatchdog(TIMEOUTS);
  }
  expect(vi.getTimerCount()).toBe(0);
});
