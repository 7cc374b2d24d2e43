import { afterAll, beforeAll, expect, test } from 'vitest';
import { shareReads } from '../../src/platform/share-reads.ts';
import type { Db } from '../../src/store/db/database.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database[Symbol.asyncDispose]());

/** Reads that stay open until the test resolves each with a number. */
function heldReads() {
  const begun: PromiseWithResolvers<number>[] = [];
  const read = shareReads(
    (_db: Db, _key: string) => {
      const held = Promise.withResolvers<number>();
      begun.push(held);
      return held.promise;
    },
    (key) => key,
  );
  return { begun, read: (key = 'one') => read(database.db, key) };
}

test('callers that ask while a read is under way share one that begins after all of them', async () => {
  const { begun, read } = heldReads();
  const first = read();
  const later = Array.from({ length: 1_000 }, () => read());
  expect(begun).toHaveLength(1);
  begun[0]?.resolve(1);
  expect(await first).toBe(1);
  expect(begun).toHaveLength(2);
  // This caller asks after the second read has begun: that read may miss a change that the caller knows of.
  const last = read();
  begun[1]?.resolve(2);
  expect(new Set(await Promise.all(later))).toEqual(new Set([2]));
  begun[2]?.resolve(3);
  expect(await last).toBe(3);
});

test('what was read once is not kept, and a read of something else does not wait', async () => {
  const { begun, read } = heldReads();
  const [one, other] = [read('one'), read('other')];
  expect(begun).toHaveLength(2);
  for (const held of begun) held.resolve(1);
  await Promise.all([one, other]);
  const again = read('one');
  expect(begun).toHaveLength(3);
  begun[2]?.resolve(2);
  expect(await again).toBe(2);
});

test('a read that fails fails those that share it, and the next one begins', async () => {
  const { begun, read } = heldReads();
  const [first, second] = [read(), read()];
  begun[0]?.reject(new Error('away'));
  await expect(first).rejects.toThrow('away');
  begun[1]?.resolve(2);
  expect(await second).toBe(2);
});
