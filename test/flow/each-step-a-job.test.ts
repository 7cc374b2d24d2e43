import type { Job } from 'bullmq';
import { describe, expect, it } from 'vitest';
import { queuedJobSchema } from '../../src/domain/run/job.ts';
import type { JobReport } from '../../src/domain/run/job-report.ts';
import type { Tool } from '../../src/tools/tool.ts';
import { availableBackends } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import { startTestService, type TestService } from '../support/service.ts';

const SESSIONS = 5;
const STEPS = 20;

const lookTool: Tool = {
  name: 'look',
  description: 'Looks.',
  inputSchema: { type: 'object', additionalProperties: true },
  execute: async () => ({ type: 'text' as const, value: 'nothing there' }),
};

const nameOf = (job: Job): string => {
  const { runId, no } = queuedJobSchema.parse(job.data);
  return `${runId} step ${no}`;
};

/** The jobs of the steps' queue in this state. A job that ends while they are read has no data. */
async function jobsIn({ deps }: TestService, state: 'active' | 'completed'): Promise<readonly Job[]> {
  const [steps] = deps.jobs.bullQueues();
  const jobs: readonly (Job | undefined)[] = (await steps?.getJobs([state])) ?? [];
  return jobs.filter((job) => job?.data !== undefined) as readonly Job[];
}

describe.each(availableBackends())('each step of a run, on %s', (backend) => {
  it.each([1, 2, 3, 8])(
    'has one job: active while it works, then completed with what it did, with %i workers',
    async (workers) => {
      await using service = await startTestService({ backend, tools: [lookTool] });
      const runOf = new Map<string, string>();
      service.simulator.script('test', async ({ messages }) => {
        const said = messages.findLast(({ role }) => role === 'user')?.text ?? '';
        const no = messages.filter(({ role }) => role === 'assistant').length + 1;
        const step = await eventually(async () => runOf.get(said) ?? null, 'the run is known');
        // The model answers only once the queue shows the step's job at work.
        await eventually(
          async () => (await jobsIn(service, 'active')).some((job) => nameOf(job) === `${step} step ${no}`),
          `the job of step ${no} is active`,
        );
        return no < STEPS ? { toolCalls: [{ id: `c${no}`, name: 'look', input: { no } }] } : { text: 'Done.' };
      });
      for (let begun = 0; begun < workers; begun++) await service.startWorker();
      const runs = [];
      for (let nth = 0; nth < SESSIONS; nth++) {
        const session = await service.createSession();
        const text = `Task ${nth}`;
        const { runId } = await service.send(session, text);
        runOf.set(text, runId);
        runs.push(runId);
      }
      for (const runId of runs)
        expect(await service.ended(runId)).toMatchObject({ status: 'completed', step_count: STEPS });
      await eventually(async () => (await jobsIn(service, 'active')).length === 0, 'no job is active');
      const completed = await jobsIn(service, 'completed');
      const steps = runs.flatMap((runId) => Array.from({ length: STEPS }, (_, at) => `${runId} step ${at + 1}`));
      expect(completed.map(nameOf).toSorted()).toEqual(steps.toSorted());
      for (const job of completed) {
        const { no } = queuedJobSchema.parse(job.data);
        expect(job.returnvalue as JobReport).toMatchObject({
          step: no,
          next: no < STEPS ? `step ${no + 1}` : 'completed',
        });
      }
    },
  );
});
