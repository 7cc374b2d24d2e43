import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { JobPayload } from '../../src/domain/run/job.ts';
import { availableBackends } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import { createQueueFixture } from './queue-fixture.ts';

const WORKERS = 8;
const STEPS = 25;
const RUNS = ['a', 'b', 'c', 'd'].map(() => randomUUID());

describe.each(availableBackends())('the job that another one names as its next one (%s)', (backend) => {
  it('is given to the same worker, however many others wait for jobs', async () => {
    await using fixture = await createQueueFixture(backend);
    const takers = new Map<string, number[]>();
    for (let worker = 0; worker < WORKERS; worker++) {
      const handler = async ({ runId, no }: JobPayload) => {
        takers.set(runId, [...(takers.get(runId) ?? []), worker]);
        const report = { step: no, tokens: 0, ms: 0, next: `step ${no + 1}` };
        const next = { runId, kind: 'step', no: no + 1, dispatch: no + 1 } as const;
        return { outcome: 'done', report, ...(no < STEPS && { next }) } as const;
      };
      await fixture.open().consume('step', handler, { concurrency: 2 });
    }
    const queues = fixture.open();
    await queues.add(RUNS.map((runId) => ({ runId, kind: 'step', no: 1, dispatch: 1 })));
    const [steps] = queues.bullQueues();
    await eventually(async () => (await steps?.getCompletedCount()) === STEPS * RUNS.length, 'all have ended');
    for (const runId of RUNS) {
      const [first] = takers.get(runId) ?? [];
      expect(takers.get(runId)).toEqual(Array(STEPS).fill(first));
    }
    expect((await queues.counts()).step).toEqual({ waiting: 0, delayed: 0, active: 0, failed: 0 });
  });

  it('comes before the jobs that wait, and waits in a paused queue', async () => {
    await using fixture = await createQueueFixture(backend);
    const queues = fixture.open();
    const [steps] = queues.bullQueues();
    const jobOf = (runId: string, no: number) => ({ runId, kind: 'step', no, dispatch: no }) as const;
    const [first = '', second = ''] = RUNS;
    const order: JobPayload[] = [];
    await queues.add([jobOf(first, 1), jobOf(second, 1)]);
    await queues.consume(
      'step',
      async (job) => {
        order.push(job);
        if (job.no === 2) await steps?.pause();
        return { outcome: 'done', ...(job.runId === first && { next: jobOf(first, job.no + 1) }) };
      },
      { concurrency: 1 },
    );
    await eventually(async () => (await queues.stateOf(jobOf(first, 3))) === 'waiting', 'the third one waits');
    expect(order).toEqual([jobOf(first, 1), jobOf(first, 2)]);
  });
});
