import { BatonError } from '../domain/errors.ts';

type Waiting<T, A> = Readonly<{ item: T; settle: PromiseWithResolvers<A> }>;

/**
 * Group commit: items of one round of the event loop are written together, and items that come while as many groups are
 * written as may be form the next one. If a group fails, each item is written again alone, so `write` must be safe to
 * repeat.
 * @param write returns one answer per item, in their order. `failure` is the error of the item's failed group, which
 * may have been committed
 * @param most items of a group, default: no limit; and groups that are written at the same time
 */
export function createWriteGroup<T, A>(
  write: (items: readonly T[], failure?: unknown) => Promise<readonly A[]>,
  most: Readonly<{ items?: number; groups?: number }> = {},
): (item: T) => Promise<A> {
  const waiting: Waiting<T, A>[] = [];
  let groups = 0;

  const writeOne = async ({ item, settle }: Waiting<T, A>, failure?: unknown): Promise<void> => {
    try {
      const [answer] = await write([item], failure);
      if (answer === undefined) throw new BatonError('internal', 'a write has no answer');
      settle.resolve(answer);
    } catch (error) {
      settle.reject(error);
    }
  };
  const writeGroup = async (group: readonly Waiting<T, A>[]): Promise<void> => {
    let answers: readonly A[] = [];
    let failure: unknown;
    try {
      if (group.length > 1) answers = await write(group.map(({ item }) => item));
    } catch (error) {
      failure = error;
    }
    for (const [index, each] of group.entries()) {
      const answer = answers[index];
      if (answer === undefined) await writeOne(each, failure);
      else each.settle.resolve(answer);
    }
  };
  const drain = async (): Promise<void> => {
    while (waiting.length > 0) {
      const group = waiting.splice(0, most.items ?? waiting.length);
      await writeGroup(group);
    }
    groups -= 1;
  };

  return (item) => {
    const settle = Promise.withResolvers<A>();
    waiting.push({ item, settle });
    if (groups < (most.groups ?? 1)) {
      groups += 1;
      setImmediate(() => void drain());
    }
    return settle.promise;
  };
}
