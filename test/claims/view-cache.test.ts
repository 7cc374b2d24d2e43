import { describe, expect, it } from 'vitest';
import { createViewCache } from '../../src/claims/view-cache.ts';
import type { ViewMessage } from '../../src/domain/transcript/message.ts';

const message = (seq: number, chars: number): ViewMessage => ({
  id: `m${seq}`,
  seq,
  role: 'user',
  model: null,
  parts: [{ type: 'text', text: 'x'.repeat(chars) }],
});

const viewOf = (...messages: ViewMessage[]) => ({
  version: 1,
  next: { messageId: 'next', seq: messages.length + 1 },
  messages,
});

describe('the cache of views', () => {
  it('knows the last view of a run’s session', () => {
    const cache = createViewCache();
    const [first, second] = [message(1, 10), message(2, 10)];
    cache.keep('run', 'session', viewOf(first));
    cache.keep('run', 'session', viewOf(first, second));
    expect(cache.of('run')).toEqual(viewOf(first, second));
    expect(cache.of('another')).toBeUndefined();
  });

  it('has one view of a session, that of its last run', () => {
    const cache = createViewCache();
    cache.keep('run 1', 'session', viewOf(message(1, 10)));
    cache.keep('run 2', 'session', viewOf(message(1, 10), message(2, 10)));
    expect(cache.of('run 1')).toBeUndefined();
    expect(cache.of('run 2')?.messages).toHaveLength(2);
  });

  it('forgets what was used least recently when it has too much, and keeps nothing that is too large for it', () => {
    const cache = createViewCache(10_000);
    const kept = () => ['a', 'b', 'c', 'd', 'e'].filter((name) => cache.of(`run ${name}`) !== undefined);
    for (const name of ['a', 'b', 'c']) cache.keep(`run ${name}`, name, viewOf(message(1, 4_000)));
    expect(kept()).toEqual(['b', 'c']);
    cache.keep('run b', 'b', viewOf(message(1, 4_000)));
    cache.keep('run d', 'd', viewOf(message(1, 4_000)));
    expect(kept()).toEqual(['b', 'd']);
    cache.keep('run e', 'e', viewOf(message(1, 50_000)));
    expect(kept()).toEqual(['b', 'd']);
  });

  it('counts what the smallest views take as well, and forgets those of runs that have ended', () => {
    const cache = createViewCache(100_000);
    for (let no = 0; no < 1_000; no += 1) cache.keep(`run ${no}`, `session ${no}`, viewOf(message(1, 1)));
    const kept = Array.from({ length: 1_000 }, (_, no) => `run ${no}`).filter((run) => cache.of(run) !== undefined);
    expect(kept.length).toBeLessThan(200);
    expect(kept.at(-1)).toBe('run 999');
    cache.forget('run 999');
    expect(cache.of('run 999')).toBeUndefined();
  });
});
