// pg-boss: a step is a job, or two at equal guarantees. Its result and the next job are one transaction by the `db` option; LISTEN/NOTIFY wakes the
// worker, as its documentation recommends where latency counts. Jobs come in batches: 50 workers of one job each, the
// other way to work side by side, were slower.
import type { Pool } from 'pg';
import { PgBoss } from 'pg-boss';
import { contest, openPool, readSyncCommit } from './contest.ts';
import { countTexts } from './durable-text.ts';
import { countSteps, createEnds, doJob, type JobResult, STEP_TABLES, type StepJob } from './step-table.ts';

const QUEUE = 'step';

await contest('pg-boss', async ({ databaseUrl, concurrency, guarantees, stack }) => {
  const pool = openPool(stack, databaseUrl, 20);
  await pool.query(STEP_TABLES);
  const ends = createEnds();
  const boss = new PgBoss({ connectionString: databaseUrl, useListenNotify: true });
  boss.on('error', (error) => console.error(error));
  await boss.start();
  stack.defer(() => boss.stop({ graceful: false }));
  await boss.createQueue(QUEUE, { notify: true });
  const work = async (job: StepJob): Promise<void> => {
    const result = await doJob(pool, guarantees, job);
    await save(boss, pool, job, result);
    if (!result.goesOn) ends.ended(job.session);
  };
  await boss.work<StepJob>(QUEUE, { batchSize: concurrency }, async (jobs) => {
    await Promise.all(jobs.map(({ data }) => ends.working(() => work(data))));
  });
  return {
    syncCommit: await readSyncCommit(pool),
    async run(sessions, steps) {
      const allEnded = ends.untilEnded(sessions);
      await Promise.all(sessions.map((session) => boss.send(QUEUE, { session, no: 1, steps })));
      await allEnded;
    },
    countStored: (prefix) => countSteps(pool, prefix),
    countTexts: (prefix) => countTexts(pool, prefix),
  };
});

async function save(
  boss: PgBoss,
  pool: Pool,
  { session, no, steps }: StepJob,
  { messages, goesOn }: JobResult,
): Promise<void> {
  const client = await pool.connect();
  try {
    await client.query('begin');
    const values = [session, no, JSON.stringify(messages)];
    const saved = await client.query({
      name: 'save',
      text: 'insert into steps (session, no, messages) values ($1, $2, $3) on conflict do nothing',
      values,
    });
    const db = { executeSql: (text: string, of?: unknown[]) => client.query(text, of) };
    if (saved.rowCount === 1 && goesOn) await boss.send(QUEUE, { session, no: no + 1, steps }, { db });
    await client.query('commit');
  } catch (error) {
    await client.query('rollback');
    throw error;
  } finally {
    client.release();
  }
}
