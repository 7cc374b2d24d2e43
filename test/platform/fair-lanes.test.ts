import { expect, it } from 'vitest';
import { createFairLanes } from '../../src/platform/fair-lanes.ts';

/** Lanes whose work ends when the test says so, and the names of the work that has begun. */
function open(atOnce: number, perTenant: number) {
  const lanes = createFairLanes({ atOnce, perTenant });
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  return {
    begun,
    add: (tenantId: string, no: number) => {
      const name = `${tenantId}${no}`;
      const { promise, resolve } = Promise.withResolvers<void>();
      ends.set(name, resolve);
      return lanes.run(tenantId, async () => {
        begun.push(name);
        await promise;
      });
    },
    end: (name: string) => ends.get(name)?.(),
  };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

it('a tenant has its share of the lanes, and another one begins while all its work hangs', async () => {
  const { add, begun } = open(4, 2);
  for (let no = 1; no <= 9; no++) void add('evil', no);
  void add('acme', 1);
  await turn();
  expect(begun).toEqual(['evil1', 'evil2', 'acme1']);
});

it('a free lane goes to the tenant with the fewest, and they take turns', async () => {
  const { add, begun, end } = open(2, 2);
  const all = [add('a', 1), add('a', 2), add('a', 3), add('a', 4), add('b', 1), add('b', 2), add('c', 1)];
  await turn();
  expect(begun).toEqual(['a1', 'a2']);
  for (let ended = 0; begun.length < all.length; ended++) {
    end(begun[ended] ?? '');
    await turn();
  }
  expect(begun).toEqual(['a1', 'a2', 'b1', 'a3', 'c1', 'b2', 'a4']);
  for (const name of begun) end(name);
  await Promise.all(all);
});

it('work that fails gives its lane back', async () => {
  const lanes = createFairLanes({ atOnce: 1, perTenant: 1 });
  await expect(lanes.run('a', () => Promise.reject(new Error('broken')))).rejects.toThrow('broken');
  expect(await lanes.run('a', async () => 'done')).toBe('done');
});
