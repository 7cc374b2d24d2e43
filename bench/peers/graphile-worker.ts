// graphile-worker: a step is a job, or two at equal guarantees. Its result and the next job are one statement, so one transaction; the pool and the
// batching are those that its documentation gives as a starting point.
import { Logger, run } from 'graphile-worker';
import { contest, openPool, readSyncCommit } from './contest.ts';
import { countTexts } from './durable-text.ts';
import { countSteps, createEnds, doJob, STEP_TABLES, type StepJob } from './step-table.ts';

const SAVE = `with saved as (
    insert into steps (session, no, messages) values ($1, $2, $3) on conflict do nothing returning no
  )
  select graphile_worker.add_job('step', json_build_object('session', $1::text, 'no', no + 1, 'steps', $4::int))
    from saved where $5::boolean`;

await contest('graphile-worker', async ({ databaseUrl, concurrency, guarantees, stack }) => {
  const pool = openPool(stack, databaseUrl, concurrency + 2);
  await pool.query(STEP_TABLES);
  const ends = createEnds();
  const runner = await run({
    pgPool: pool,
    noHandleSignals: true,
    logger: new Logger(() => () => undefined),
    preset: {
      worker: {
        concurrentJobs: concurrency,
        localQueue: { size: concurrency + 1 },
        completeJobBatchDelay: 0,
        failJobBatchDelay: 0,
      },
    },
    taskList: {
      step: (payload) =>
        ends.working(async () => {
          const job = payload as StepJob;
          const { session, no, steps } = job;
          const { messages, goesOn } = await doJob(pool, guarantees, job);
          const values = [session, no, JSON.stringify(messages), steps, goesOn];
          await pool.query({ name: 'save', text: SAVE, values });
          if (!goesOn) ends.ended(session);
        }),
    },
  });
  stack.defer(() => runner.stop());
  return {
    syncCommit: await readSyncCommit(pool),
    async run(sessions, steps) {
      const allEnded = ends.untilEnded(sessions);
      await Promise.all(sessions.map((session) => runner.addJob('step', { session, no: 1, steps })));
      await allEnded;
    },
    countStored: (prefix) => countSteps(pool, prefix),
    countTexts: (prefix) => countTexts(pool, prefix),
  };
});
