import { expect, it } from 'vitest';
import { createLooker, lookEvery } from '../../src/platform/looker.ts';

const NEVER_MS = Number.POSITIVE_INFINITY;

/** A looker whose looks end when the test says so. `begun`: the ends of the looks that have begun. */
function open(pauseMs: number, firstInMs: number) {
  const begun: (() => void)[] = [];
  const { promise: twice, resolve: lookedTwice } = Promise.withResolvers<void>();
  const looker = createLooker(() => {
    const { promise, resolve } = Promise.withResolvers<number>();
    begun.push(() => resolve(pauseMs));
    if (begun.length === 2) lookedTwice();
    return promise;
  }, firstInMs);
  return { looker, begun, twice };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

it('looks that are asked for during a look follow it as one', async () => {
  const { looker, begun } = open(NEVER_MS, NEVER_MS);
  for (let count = 1; count <= 3; count++) looker.look();
  expect(begun).toHaveLength(1);
  begun[0]?.();
  await turn();
  expect(begun).toHaveLength(2);
  begun[1]?.();
  await turn();
  expect(begun).toHaveLength(2);
});

it('each look names the pause until the next one', async () => {
  const { begun, twice, looker } = open(1, NEVER_MS);
  looker.look();
  begun[0]?.();
  await twice;
  begun[1]?.();
  await looker[Symbol.asyncDispose]();
});

it('its end waits for the look under way, and none begins afterwards', async () => {
  const { begun, looker } = open(0, NEVER_MS);
  looker.look();
  looker.look();
  let hasEnded = false;
  const ended = looker[Symbol.asyncDispose]().then(() => {
    hasEnded = true;
  });
  await turn();
  expect(hasEnded).toBe(false);
  begun[0]?.();
  await ended;
  looker.look();
  await turn();
  expect(begun).toHaveLength(1);
});

it('regular looks begin by themselves', async () => {
  const { promise: looked, resolve } = Promise.withResolvers<void>();
  await using _looker = lookEvery(1, async () => resolve());
  await looked;
});
