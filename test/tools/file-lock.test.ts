import { expect, it } from 'vitest';
import { withFileLock } from '../../src/tools/workspace/file-lock.ts';

const { signal: never } = new AbortController();

it('the writes of a file come one after the other, in their order, also after one that failed', async () => {
  const told: string[] = [];
  const gate = Promise.withResolvers<void>();
  const first = withFileLock('/a', never, async () => {
    told.push('first begins');
    await gate.promise;
    told.push('first ends');
    throw new Error('no space');
  });
  const second = withFileLock('/a', never, async () => void told.push('second'));
  await withFileLock('/b', never, async () => void told.push('another file'));
  expect(told).toEqual(['first begins', 'another file']);
  gate.resolve();
  await expect(first).rejects.toThrow('no space');
  await second;
  expect(told).toEqual(['first begins', 'another file', 'first ends', 'second']);
});

it('one that is aborted while it waits is not run, and the next one still waits for those before', async () => {
  const told: string[] = [];
  const gate = Promise.withResolvers<void>();
  const stop = new AbortController();
  const first = withFileLock('/a', never, async () => {
    await gate.promise;
    told.push('first');
  });
  const aborted = withFileLock('/a', stop.signal, async () => void told.push('aborted'));
  const third = withFileLock('/a', never, async () => void told.push('third'));
  stop.abort(new Error('cancelled'));
  await expect(aborted).rejects.toThrow('cancelled');
  const fourth = withFileLock('/a', never, async () => void told.push('fourth'));
  expect(told).toEqual([]);
  gate.resolve();
  await Promise.all([first, third, fourth]);
  expect(told).toEqual(['first', 'third', 'fourth']);
  await expect(withFileLock('/a', stop.signal, async () => undefined)).rejects.toThrow('cancelled');
});
