import { expect, it } from 'vitest';
import { inLanes } from '../../src/platform/in-lanes.ts';

/** Work that ends when the test says so, and the items that have begun. */
function open(items: readonly string[], atOnce: number) {
  const begun: string[] = [];
  const ends = new Map<string, PromiseWithResolvers<void>>();
  const done = inLanes(items, atOnce, (item) => {
    begun.push(item);
    const end = Promise.withResolvers<void>();
    ends.set(item, end);
    return end.promise;
  });
  const settle = async (item: string, how: 'resolve' | 'reject'): Promise<void> => {
    ends.get(item)?.[how](new Error(`${item} failed`) as never);
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { begun, done, settle };
}

it('items begin in their order, as many at once as there are lanes', async () => {
  const { begun, done, settle } = open(['a', 'b', 'c'], 2);
  expect(begun).toEqual(['a', 'b']);
  await settle('b', 'resolve');
  expect(begun).toEqual(['a', 'b', 'c']);
  await settle('a', 'resolve');
  await settle('c', 'resolve');
  await done;
});

it('after a failure no other item begins, and those that have begun end first', async () => {
  const { begun, done, settle } = open(['a', 'b', 'c'], 2);
  let error: unknown;
  const failed = done.catch((reason: unknown) => {
    error = reason;
  });
  await settle('a', 'reject');
  expect(error).toBeUndefined();
  await settle('b', 'resolve');
  expect(begun).toEqual(['a', 'b']);
  await failed;
  expect(error).toEqual(new Error('a failed'));
});
