import type { JobPayload } from '../../src/domain/run/job.ts';
import type { JobOutcome } from '../../src/queues/job-queue.ts';
import type { TestService } from '../support/service.ts';

export type HeldJob = AsyncDisposable & Readonly<{ job: JobPayload }>;
export type HeldJobs = AsyncDisposable & Readonly<{ jobs: readonly JobPayload[] }>;

/**
 * A consumer of steps that takes one job, claims nothing, and keeps the job for as long as it is not disposed.
 * @param waiting a job that is in the queue; left out: one of a new session
 */
export async function holdOneJob(service: TestService, workerId: string, waiting?: JobPayload): Promise<HeldJob> {
  await using stack = new AsyncDisposableStack();
  const held = stack.use(await holdJobs(service, workerId, 1, waiting !== undefined));
  const [job] = held.jobs;
  if (job === undefined) throw new Error('no job was taken');
  const owned = stack.move();
  return { job, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** The same with so many jobs, each of a session of its own. */
export async function holdJobs(
  service: TestService,
  workerId: string,
  count: number,
  areWaiting = false,
): Promise<HeldJobs> {
  const jobs: JobPayload[] = [];
  const taken = Promise.withResolvers<void>();
  const end = Promise.withResolvers<JobOutcome>();
  const hold = (job: JobPayload) => {
    jobs.push(job);
    if (jobs.length === count) taken.resolve();
    return end.promise;
  };
  const consumer = await service.deps.jobs.consume('step', hold, { concurrency: count, workerId });
  for (let n = 0; n < count && !areWaiting; n++) await service.send(await service.createSession(), 'Go');
  await taken.promise;
  return {
    jobs,
    async [Symbol.asyncDispose]() {
      end.resolve({ outcome: 'done' });
      await consumer[Symbol.asyncDispose]();
    },
  };
}
