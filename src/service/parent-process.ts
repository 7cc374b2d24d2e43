import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { z } from 'zod';
import type { MetricValues } from '../metrics/metrics.ts';

/** Asks a child process for its metrics. It answers with `MetricValues`. */
const METRICS_REQUEST = 'metrics';

/** A busy process answers later than that; its series are missing from that scrape. */
const METRICS_WITHIN_MS = 2_000;

/** What a metric of prom-client looks like. A module in code can send the parent anything else. */
const metricsSchema = z.array(
  z.looseObject({
    name: z.string(),
    help: z.string(),
    type: z.enum(['counter', 'gauge', 'histogram', 'summary']),
    values: z.array(
      z.looseObject({ value: z.number(), labels: z.record(z.string(), z.union([z.string(), z.number()])) }),
    ),
  }),
);

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
      process.on('message', (message) => {
        if (message !== METRICS_REQUEST) return;
        // The parent may be gone by the time of the answer, or the values cannot be read: that scrape lacks them.
        values().then(
          (read) => process.send?.(read, undefined, undefined, () => undefined),
          () => undefined,
        );
      });
      // A listener keeps the channel, and the channel would keep a process that has ended its work.
      process.channel?.unref();
    },
  };
}

/** The metrics of a process that `connectToParent` has connected. Null: it did not answer in time, or with others. */
export async function askMetrics(child: ChildProcess): Promise<MetricValues | null> {
  if (!child.connected) return null;
  const answered = once(child, 'message', { signal: AbortSignal.timeout(METRICS_WITHIN_MS) });
  child.send(METRICS_REQUEST, () => undefined);
  try {
    const [values] = await answered;
    return metricsSchema.safeParse(values).success ? values : null;
  } catch {
    return null;
  }
}
