import type { JobPayload } from '../../src/domain/job.ts';
import type { JobOutcome } from '../../src/queues/job-queue.ts';
import type { TestService } from '../support/service.ts';

export type HeldJob = AsyncDisposable & Readonly<{ job: JobPayload }>;

/** A consumer of steps that takes one job, claims nothing, and keeps the job for as long as it is not disposed. */
export async function holdOneJob(service: TestService, workerId: string): Promise<HeldJob> {
  const taken = Promise.withResolvers<void>();
  const end = Promise.withResolvers<JobOutcome>();
  const hold = () => {
    taken.resolve();
    return end.promise;
  };
  const consumer = await service.deps.jobs.consume('step', hold, { concurrency: 1, workerId });
  const { job } = await service.send(await service.createSession(), 'Go');
  if (job === null) throw new Error('a run was active');
  await taken.promise;
  return {
    job,
    async [Symbol.asyncDispose]() {
      end.resolve({ outcome: 'done' });
      await consumer[Symbol.asyncDispose]();
    },
  };
}
