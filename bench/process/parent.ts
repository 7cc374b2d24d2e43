import type { FromChild, ToChild } from './child.ts';

/** Sends a message to the parent process. */
export function tellParent(message: FromChild): void {
  process.send?.(message);
}

/** Counters that this process reports. */
type Counters = Readonly<{
  queries?: () => number;
  /** Returns the stretches since the last call. */
  takeStretches?: () => readonly number[];
}>;

/** Answers the parent until it says stop or is gone. */
export function untilParentStops({ queries, takeStretches }: Counters = {}): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  process.on('message', (message: ToChild) => {
    if (message.ask === 'stop') resolve();
    if (message.ask === 'usage') {
      if (message.collected) globalThis.gc?.();
      const { user, system } = process.cpuUsage();
      const { rss, heapUsed, external } = process.memoryUsage();
      tellParent({
        event: 'usage',
        cpuMs: (user + system) / 1_000,
        queries: queries?.() ?? 0,
        rssBytes: rss,
        heapBytes: heapUsed + external,
        stretches: takeStretches?.() ?? [],
      });
    }
  });
  process.on('disconnect', resolve);
  return promise;
}
