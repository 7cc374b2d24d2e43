import { expect, it } from 'vitest';
import { newId } from '../../src/platform/new-id.ts';

it('makes ids that differ, also those of the same millisecond and beyond one draw of random bytes', () => {
  const ids = Array.from({ length: 2_000 }, newId);
  expect(new Set(ids.map((id) => id.slice(14))).size).toBe(ids.length);
});

it('makes ids that sort in the order in which they were made', () => {
  const ids = Array.from({ length: 10_000 }, newId);
  expect(ids).toEqual(ids.toSorted());
});
