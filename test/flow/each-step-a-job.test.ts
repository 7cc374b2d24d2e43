import type { Job } from 'bullmq';
import { describe, expect, it } from 'vitest';
import { formatId } from '../../src/domain/ids.ts';
import { queuedJobSchema } from '../../src/domain/run/job.ts';
import type { JobReport } from '../../src/domain/run/job-report.ts';
import type { Tool } from '../../src/tools/tool.ts';
import { availableBackends } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import { startTestService, type TestService } from '../support/service.ts';

const SESSIONS = 5;
const STEPS = 20;
/** The model refuses its first call for this step. */
const REFUSED_STEP = 7;

const lookTool: Tool = {
  name: 'look',
  description: 'Looks.',
  inputSchema: { type: 'object', additionalProperties: true },
  execute: async () => ({ type: 'text' as const, value: 'nothing there' }),
};

const nameOf = (job: Job): string => {
  const { runId, no } = queuedJobSchema.parse(job.data);
  return `${formatId('run', runId)} step ${no}`;
};

/** The jobs of the steps' queue in this state. A job that ends while they are read has no data. */
async function jobsIn({ deps }: TestService, state: 'active' | 'completed'): Promise<readonly Job[]> {
  const [steps] = deps.jobs.bullQueues();
  const jobs: readonly (Job | undefined)[] = (await steps?.getJobs([state])) ?? [];
  return jobs.filter((job) => job?.data !== undefined) as readonly Job[];
}

/** Callers that ask while an answer is under way get the next one: its look begins after they asked, and is one for all. */
function shared<T>(ask: () => Promise<T>): () => Promise<T> {
  let current: Promise<unknown> = Promise.resolve();
  let following: Promise<T> | null = null;
  return () => {
    following ??= current.then(() => {
      const answer = ask();
      current = answer.catch(() => undefined);
      following = null;
      return answer;
    });
    return following;
  };
}

/** What the job with this name says came next, without the milliseconds of a pause. */
const nextOf = (job: Job): string => {
  const { step, next } = job.returnvalue as JobReport;
  return `${nameOf(job)} as ${step}: ${next.replace(/ in \d+ ms$/, '')}`;
};

/** By the sessions' logs: each attempt at a step that has ended, as its job should tell it. */
async function endedAttempts({ deps }: TestService): Promise<readonly string[]> {
  const ends = await deps.db
    .selectFrom('events')
    .select(['type', 'data'])
    .where('type', 'in', ['step:completed', 'step:retrying'])
    .execute();
  return ends.map(({ type, data }) => {
    const { runId, step } = data as { runId: string; step: number };
    const goesOn = step < STEPS ? `step ${step + 1}` : 'completed';
    return `${runId} step ${step} as ${step}: ${type === 'step:retrying' ? `step ${step} again,` : goesOn}`;
  });
}

describe.each(availableBackends())('each attempt at a step, on %s', (backend) => {
  it.each([1, 2, 3, 8])(
    'has one job: active while it works, then completed with what it did, with %i workers',
    async (workers) => {
      await using service = await startTestService({ backend, tools: [lookTool] });
      const runOf = new Map<string, string>();
      let refused = 0;
      const look = shared(async () => new Set((await jobsIn(service, 'active')).map(nameOf)));
      service.simulator.script('test', async ({ messages }) => {
        const said = messages.findLast(({ role }) => role === 'user')?.text ?? '';
        const no = messages.filter(({ role }) => role === 'assistant').length + 1;
        const run = await eventually(async () => runOf.get(said) ?? null, 'the run is known');
        // The model answers only once the queue shows the step's job at work.
        await eventually(async () => (await look()).has(`${run} step ${no}`), `the job of step ${no} is active`);
        if (no === REFUSED_STEP && said === 'Task 0' && refused++ === 0) return { fault: { kind: 'server-error' } };
        return no < STEPS ? { toolCalls: [{ id: `c${no}`, name: 'look', input: { no } }] } : { text: 'Done.' };
      });
      for (let begun = 0; begun < workers; begun++) await service.startWorker();
      const runs = [];
      for (let nth = 0; nth < SESSIONS; nth++) {
        const session = await service.createSession();
        const text = `Task ${nth}`;
        const { runId } = await service.send(session, text);
        runOf.set(text, formatId('run', runId));
        runs.push(runId);
      }
      for (const runId of runs)
        expect(await service.ended(runId)).toMatchObject({ status: 'completed', step_count: STEPS });
      await eventually(async () => (await jobsIn(service, 'active')).length === 0, 'no job is active');
      const attempts = await endedAttempts(service);
      expect(attempts.length).toBeGreaterThan(SESSIONS * STEPS);
      expect((await jobsIn(service, 'completed')).map(nextOf).toSorted()).toEqual(attempts.toSorted());
    },
  );
});
