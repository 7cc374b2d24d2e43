/**
 * Works on each item in their order, `atOnce` at a time. After a failure no other item begins.
 * @throws the first error, once the work that had begun has ended
 */
export async function inLanes<T>(
  items: Iterable<T>,
  atOnce: number,
  work: (item: T) => Promise<unknown>,
): Promise<void> {
  const left = Iterator.from(items);
  let hasFailed = false;
  const lane = async (): Promise<void> => {
    for (let next = left.next(); next.done !== true && !hasFailed; next = left.next()) {
      try {
        await work(next.value);
      } catch (error) {
        hasFailed = true;
        throw error;
      }
    }
  };
  for (const ended of await Promise.allSettled(Array.from({ length: atOnce }, lane))) {
    if (ended.status === 'rejected') throw ended.reason;
  }
}
