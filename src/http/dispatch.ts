import { setTimeout as delay } from 'node:timers/promises';
import type { JobPayload } from '../domain/run/job.ts';
import { toSafeError } from '../platform/log.ts';
import type { AddOptions } from '../queues/job-queue.ts';
import type { HttpDeps } from './http-deps.ts';

/** A queue that takes longer does not hold up callers: their message is in Postgres already. */
const QUEUE_PATIENCE_MS = 1_000;

/**
 * Hands a committed job to the queue. Never rejects: a job that is lost here is added again from the run's row, so the
 * caller's request has succeeded whatever the queue says.
 */
export async function dispatchJob({ jobs, log }: HttpDeps, job: JobPayload, options?: AddOptions): Promise<void> {
  const adding = jobs
    .add([job], options)
    .catch((error: unknown) =>
      log('warn', { event: 'jobs_not_enqueued', runIds: [job.runId], error: toSafeError(error) }),
    );
  const patience = new AbortController();
  const waited = delay(QUEUE_PATIENCE_MS, undefined, { signal: patience.signal, ref: false }).catch(() => undefined);
  await Promise.race([adding, waited]);
  patience.abort();
}
