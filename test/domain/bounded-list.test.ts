import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { listOf } from '../../src/domain/bounded-list.ts';

/** An item that counts its reads. */
function countedItem() {
  let looks = 0;
  const item = z.custom<number>((value) => {
    looks++;
    return typeof value === 'number';
  });
  return { item, looks: () => looks };
}

describe('a bounded list', () => {
  test('is an array of the items as they are understood', () => {
    const list = z.object({ list: listOf(z.string().transform(Number), 3).min(1) });
    expect(list.parse({ list: ['1', '2'] })).toEqual({ list: [1, 2] });
    expect(list.safeParse({ list: [] }).success).toBe(false);
    expect(list.safeParse({ list: 'x' }).error?.issues).toMatchObject([{ code: 'invalid_type', path: ['list'] }]);
    expect(list.safeParse({ list: ['1', 2] }).error?.issues).toMatchObject([{ path: ['list', 1] }]);
  });

  test('is not looked into where it is too long', () => {
    const { item, looks } = countedItem();
    const { error } = listOf(item, 3).safeParse([1, 2, 3, 4]);
    expect(error?.issues).toMatchObject([{ code: 'too_big', path: [] }]);
    expect(looks()).toBe(0);
  });

  test('is looked into until twenty items were wrong', () => {
    const { item, looks } = countedItem();
    const { error } = listOf(item, 1_000)
      .min(1)
      .safeParse([1, ...Array(999).fill('x')]);
    expect(error?.issues).toHaveLength(20);
    expect(looks()).toBe(21);
  });
});
