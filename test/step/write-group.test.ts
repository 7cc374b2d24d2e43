import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createWriteGroup } from '../../src/step/write-group.ts';

/** Writes that wait for the test to answer them. */
function heldWrites() {
  const asked: { items: readonly number[]; answer: (answers?: readonly string[]) => void; fail: () => void }[] = [];
  const arrived: PromiseWithResolvers<void>[] = [];
  const arrivalOf = (index: number) => {
    arrived[index] ??= Promise.withResolvers();
    return arrived[index];
  };
  const write = (items: readonly number[]): Promise<readonly string[]> => {
    const { promise, resolve, reject } = Promise.withResolvers<readonly string[]>();
    asked.push({
      items,
      answer: (answers = items.map((item) => `done ${item}`)) => resolve(answers),
      fail: () => reject(new Error(`refused ${items.join()}`)),
    });
    arrivalOf(asked.length - 1).resolve();
    return promise;
  };
  const nth = async (index: number) => {
    await arrivalOf(index).promise;
    const found = asked[index];
    if (found === undefined) throw new Error('nothing was asked');
    return found;
  };
  return { write, nth, count: () => asked.length };
}

describe('writes that come together', () => {
  it('are one, and so are those that come while it is under way', async () => {
    const { write, nth, count } = heldWrites();
    const group = createWriteGroup(write);
    const first = [1, 2, 3].map(group);
    const one = await nth(0);
    expect(one.items).toEqual([1, 2, 3]);
    const second = [4, 5].map(group);
    one.answer();
    expect(await Promise.all(first)).toEqual(['done 1', 'done 2', 'done 3']);
    const two = await nth(1);
    expect(two.items).toEqual([4, 5]);
    two.answer();
    expect(await Promise.all(second)).toEqual(['done 4', 'done 5']);
    expect(count()).toBe(2);
  });

  it('are written in as many groups at a time as may be, each no larger than it may be', async () => {
    const { write, nth, count } = heldWrites();
    const group = createWriteGroup(write, { items: 2, groups: 2 });
    const all = [1, 2, 3, 4, 5, 6].map(group);
    const [one, two] = [await nth(0), await nth(1)];
    expect([one.items, two.items]).toEqual([
      [1, 2],
      [3, 4],
    ]);
    await new Promise(setImmediate);
    expect(count()).toBe(2);
    two.answer();
    const three = await nth(2);
    expect(three.items).toEqual([5, 6]);
    one.answer();
    three.answer();
    expect(await Promise.all(all)).toEqual([1, 2, 3, 4, 5, 6].map((item) => `done ${item}`));
  });

  it('are told by what they failed together when they are tried one by one', async () => {
    const lost = new Error('the reply was lost');
    const told: unknown[] = [];
    const group = createWriteGroup(async (items: readonly number[], failure?: unknown) => {
      told.push(failure);
      if (items.length > 1) throw lost;
      return items;
    });
    expect(await Promise.all([1, 2].map(group))).toEqual([1, 2]);
    expect(await group(3)).toBe(3);
    expect(told).toEqual([undefined, lost, lost, undefined]);
  });

  it('are tried one by one where they fail together: only who is refused alone fails', async () => {
    const { write, nth } = heldWrites();
    const group = createWriteGroup(write);
    const results = Promise.allSettled([1, 2].map(group));
    (await nth(0)).fail();
    (await nth(1)).fail();
    (await nth(2)).answer();
    expect(await results).toMatchObject([
      { status: 'rejected', reason: { message: 'refused 1' } },
      { status: 'fulfilled', value: 'done 2' },
    ]);
  });

  it('go on after one has failed', async () => {
    const { write, nth } = heldWrites();
    const group = createWriteGroup(write);
    const failed = expect(group(1)).rejects.toThrow('refused 1');
    (await nth(0)).fail();
    await failed;
    const next = group(2);
    (await nth(1)).answer();
    expect(await next).toBe('done 2');
  });

  it('each get their own answer, whatever fails and whenever they come', async () => {
    const writes = fc.array(fc.record({ fails: fc.boolean(), together: fc.integer({ min: 1, max: 4 }) }));
    await fc.assert(
      fc.asyncProperty(writes, async (turns) => {
        const bad = new Set<number>();
        const group = createWriteGroup(async (items: readonly number[]) => {
          if (items.some((item) => bad.has(item))) throw new Error(`refused ${items.join()}`);
          return items.map((item) => item * 2);
        });
        let item = 0;
        const asked: Promise<unknown>[] = [];
        for (const { fails, together } of turns) {
          for (let left = together; left > 0; left -= 1) {
            const own = item++;
            if (fails) bad.add(own);
            const answer = group(own);
            asked.push(
              fails ? expect(answer).rejects.toThrow(`refused ${own}`) : expect(answer).resolves.toBe(own * 2),
            );
          }
          await Promise.resolve();
        }
        await Promise.all(asked);
      }),
    );
  });
});
