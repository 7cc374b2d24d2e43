import { expect, test } from 'vitest';
import { BatonError } from '../../src/client/baton-error.ts';
import type { Run } from '../../src/client/contract.ts';
import { untilAtRest } from '../../src/client/wait-for-run.ts';

const running = { status: 'running' } as Run;

const failing = (code: 'unreachable' | 'not_found') => async (): Promise<Run> => {
  throw new BatonError(code, code, { status: code === 'not_found' ? 404 : null });
};

test('a service that is still away when the time is over is told of, and a refusal at once', async () => {
  const soon = performance.now() + 1;
  await expect(untilAtRest(running, failing('unreachable'), soon, undefined)).rejects.toThrow('unreachable');
  await expect(untilAtRest(running, failing('not_found'), Number.POSITIVE_INFINITY, undefined)).rejects.toThrow(
    'not_found',
  );
});

test('the pause before another attempt ends with the signal, by its reason', async () => {
  const stop = new AbortController();
  const away = async (): Promise<Run> => {
    queueMicrotask(() => stop.abort(new Error('enough')));
    return failing('unreachable')();
  };
  await expect(untilAtRest(running, away, Number.POSITIVE_INFINITY, stop.signal)).rejects.toThrow('enough');
});
