import { describe, expect, it } from 'vitest';
import { createWindowGuard } from '../../src/step/window-guard.ts';

const count = (text: string): number => Math.ceil(text.length / 4);
/** Hears an answer of so many characters, a few at a time as they are streamed. */
function hear(guard: ReturnType<typeof createWindowGuard>, chars: number, deltaChars = 10): void {
  for (let heard = 0; heard < chars; heard += deltaChars) guard.heard('x'.repeat(deltaChars));
}

describe('the guard of the window', () => {
  it('stops an answer once request and answer together reach the limit', () => {
    const guard = createWindowGuard(9_000, 10_000, 1, count);
    hear(guard, 3_990);
    expect(guard.signal.aborted).toBe(false);
    hear(guard, 10);
    expect(guard.signal.aborted).toBe(true);
  });

  it('counts real tokens: with a ratio of 2 half as much is heard', () => {
    const guard = createWindowGuard(9_000, 10_000, 2, count);
    hear(guard, 1_990);
    expect(guard.signal.aborted).toBe(false);
    hear(guard, 10);
    expect(guard.signal.aborted).toBe(true);
  });

  it('does not round up what comes in single characters: 3 000 of them are 750 tokens', () => {
    const guard = createWindowGuard(9_000, 10_000, 1, count);
    hear(guard, 3_000, 1);
    expect(guard.signal.aborted).toBe(false);
  });

  it('counts one huge delta at once', () => {
    const guard = createWindowGuard(9_000, 10_000, 1, count);
    guard.heard('x'.repeat(8_000));
    expect(guard.signal.aborted).toBe(true);
  });

  it('lets every answer end where there is no limit', () => {
    const guard = createWindowGuard(9_000, Number.POSITIVE_INFINITY, 4, count);
    hear(guard, 1_000_000, 1_000);
    expect(guard.signal.aborted).toBe(false);
  });

  it('does not stop an answer that has said nothing, however full the window is', () => {
    const guard = createWindowGuard(19_000, 10_000, 1, count);
    guard.heard('short');
    expect(guard.signal.aborted).toBe(false);
  });

  it('says why it stopped', () => {
    const guard = createWindowGuard(10_000, 10_000, 1, count);
    hear(guard, 1_000);
    expect(guard.signal.reason).toEqual(new Error('the window is nearly full'));
  });
});
