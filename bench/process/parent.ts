import type { FromChild, ToChild } from './child.ts';

/** Tells the parent process. */
export function tellParent(message: FromChild): void {
  process.send?.(message);
}

/** Answers the parent until it says stop or is gone. */
export function untilParentStops(queries: () => number = () => 0): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  process.on('message', (message: ToChild) => {
    if (message.ask === 'stop') resolve();
    if (message.ask === 'usage') {
      const { user, system } = process.cpuUsage();
      const rssBytes = process.memoryUsage.rss();
      tellParent({ event: 'usage', cpuMs: (user + system) / 1_000, queries: queries(), rssBytes });
    }
  });
  process.on('disconnect', resolve);
  return promise;
}
