import type { MetricValues } from '../metrics/metrics.ts';

/** Asks a child process for its metrics. It answers with `MetricValues`. */
export const METRICS_REQUEST = 'metrics';

/** The process that has started this one. */
export type ParentProcess = Readonly<{
  /** Resolves when that process has ended, however it ended. */
  gone: Promise<'SIGTERM'>;
  tellMetrics: (values: () => Promise<MetricValues>) => void;
}>;

export function connectToParent(): ParentProcess {
  return {
    gone: new Promise((resolve) => {
      process.once('disconnect', () => resolve('SIGTERM'));
      if (!process.connected) resolve('SIGTERM');
    }),
    tellMetrics(values) {
      process.on('message', async (message) => {
        // The parent may be gone by the time of the answer.
        if (message === METRICS_REQUEST) process.send?.(await values(), undefined, undefined, () => undefined);
      });
      // A listener keeps the channel, and the channel would keep a process that has ended its work.
      process.channel?.unref();
    },
  };
}
