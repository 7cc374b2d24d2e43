import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { arrivingBudget } from '../../src/domain/arriving-budget.ts';
import { FREE_RESULT_BYTES, MAX_RESULT_BYTES } from '../../src/domain/tunables.ts';
import { createArrivingBytes, type ResultRoom } from '../../src/platform/arriving-bytes.ts';

const MIB = 1_048_576;
const BUDGET = { all: 4 * MIB, tenant: 2 * MIB };
const never = new AbortController().signal;

/** Takes room for a result of so many bytes, and notes when it has it. */
function taking(room: ResultRoom, mostBytes: number, signal = never) {
  const noted = { isIn: false, done: Promise.resolve() };
  noted.done = room.take(FREE_RESULT_BYTES + 1, mostBytes, signal).then(() => {
    noted.isIn = true;
  });
  return noted;
}

const settle = () => new Promise((resolve) => setImmediate(resolve));

describe('the room for results', () => {
  test.each([
    ['a small heap', 0, 32],
    ['a heap of 1 GiB', 1_024 * MIB, 128],
    ['a large heap', 16_384 * MIB, 256],
  ])('of %s has place for the largest one of each tenant', (_what, heap, mib) => {
    const { all, tenant } = arrivingBudget(heap);
    expect(all).toBe(mib * MIB);
    expect(tenant).toBeGreaterThanOrEqual(MAX_RESULT_BYTES);
    expect(tenant).toBeLessThanOrEqual(all / 2);
  });

  test('is waited for in order, by the share of a tenant and by that of all', async () => {
    const held = createArrivingBytes(BUDGET);
    const [a, b, c, d] = ['a', 'a', 'b', 'c'].map((tenant) => held.open(tenant)) as [
      ResultRoom,
      ResultRoom,
      ResultRoom,
      ResultRoom,
    ];
    const takings = [taking(a, 2 * MIB), taking(b, MIB), taking(c, 2 * MIB), taking(d, MIB)];
    await settle();
    expect(takings.map(({ isIn }) => isIn)).toEqual([true, false, true, false]);
    a[Symbol.dispose]();
    a[Symbol.dispose]();
    await settle();
    expect(takings.map(({ isIn }) => isIn)).toEqual([true, true, true, true]);
    expect(held.heldBytes()).toBe(4 * MIB);
    for (const room of [b, c, d]) room[Symbol.dispose]();
    expect(held.heldBytes()).toBe(0);
  });

  test('is not needed by a small result, and taken once for a large one', async () => {
    const held = createArrivingBytes(BUDGET);
    using room = held.open('a');
    await room.take(FREE_RESULT_BYTES, 2 * MIB, never);
    expect(held.heldBytes()).toBe(0);
    for (const bytes of [FREE_RESULT_BYTES + 1, MIB, 2 * MIB]) await room.take(bytes, 2 * MIB, never);
    expect(held.heldBytes()).toBe(2 * MIB);
  });

  test('is refused when the time of the call is over, in words for the model', async () => {
    const held = createArrivingBytes(BUDGET);
    using first = held.open('a');
    using second = held.open('a');
    await first.take(MIB, 2 * MIB, never);
    const late = new AbortController();
    const waiting = taking(second, MIB, late.signal);
    late.abort();
    await expect(waiting.done).rejects.toThrow(/no room for the answer.*try again in a moment/);
    await expect(second.take(MIB, MIB, late.signal)).rejects.toThrow(/no room/);
    first[Symbol.dispose]();
    expect(held.heldBytes()).toBe(0);
  });

  test('is never more than the budget, and nobody waits for ever, whoever takes how much', async () => {
    const call = fc.record({
      tenant: fc.constantFrom('a', 'b', 'c'),
      sizes: fc.array(fc.integer({ min: 1, max: 9 * MIB })),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(call, { maxLength: 20 }), async (calls) => {
        const held = createArrivingBytes(BUDGET);
        const work = calls.map(async ({ tenant, sizes }) => {
          using room = held.open(tenant);
          for (const size of sizes) {
            await room.take(size, size, never);
            expect(held.heldBytes()).toBeLessThanOrEqual(BUDGET.all);
            await settle();
          }
        });
        await Promise.all(work);
        expect(held.heldBytes()).toBe(0);
      }),
    );
  });
});
