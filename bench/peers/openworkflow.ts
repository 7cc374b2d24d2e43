// openworkflow: a session is a workflow run, a step is a `step.run`: one row when it begins, one write when it ends, both
// awaited. Everything is as it comes, the pool of postgres.js and the polling of its worker too.
import { OpenWorkflow } from 'openworkflow';
import { BackendPostgres } from 'openworkflow/postgres';
import { callTools, firstMessage, hasCalls, runModelStep } from '../chain/step.ts';
import { contest, openPool, readSyncCommit } from './contest.ts';
import { askModelDurably, countTexts, TEXT_TABLE, writeText } from './durable-text.ts';
import { createEnds } from './step-table.ts';

type Input = Readonly<{ session: string; steps: number }>;

await contest('openworkflow', async ({ databaseUrl, concurrency, guarantees, stack }) => {
  const pool = openPool(stack, databaseUrl, 10);
  await pool.query(TEXT_TABLE);
  const ends = createEnds();
  const backend = await BackendPostgres.connect(databaseUrl);
  stack.defer(() => backend.stop());
  const ow = new OpenWorkflow({ backend });
  const whole = ow.defineWorkflow<Input, number>({ name: 'session' }, ({ input, step }) =>
    ends.working(async () => {
      const history = [firstMessage(input.steps)];
      for (let no = 1; no <= input.steps; no++) {
        history.push(...(await step.run({ name: `step-${no}` }, () => runModelStep(history))));
      }
      ends.ended(input.session);
      return history.length;
    }),
  );
  /** A step for each model call and each tool call. It has no stream, so the text goes into a table. */
  const inParts = ow.defineWorkflow<Input, number>({ name: 'session-in-parts' }, ({ input, step }) =>
    ends.working(async () => {
      const history = [firstMessage(input.steps)];
      for (let no = 1; no <= input.steps; no++) {
        const ask = () => askModelDurably(history, (text) => writeText(pool, input.session, text));
        const response = await step.run({ name: `model-${no}` }, ask);
        history.push(...response);
        if (hasCalls(response)) history.push(...(await step.run({ name: `tools-${no}` }, () => callTools(response))));
      }
      ends.ended(input.session);
      return history.length;
    }),
  );
  const worker = ow.newWorker({ concurrency });
  await worker.start();
  stack.defer(() => worker.stop());
  const workflow = guarantees === 'equal' ? inParts : whole;
  return {
    syncCommit: await readSyncCommit(pool),
    async run(sessions, steps) {
      // Its own way to wait asks once a second, so the end of each run is told within the process.
      const allEnded = ends.untilEnded(sessions);
      await Promise.all(sessions.map((session) => workflow.run({ session, steps }, { idempotencyKey: session })));
      await allEnded;
    },
    async countStored(prefix) {
      const { rows } = await pool.query<{ count: number }>(
        `select count(*)::int as count from openworkflow.step_attempts s
           join openworkflow.workflow_runs r on r.id = s.workflow_run_id and r.namespace_id = s.namespace_id
          where r.idempotency_key like $1 and s.status in ('completed', 'succeeded')`,
        [`${prefix}%`],
      );
      return rows[0]?.count ?? 0;
    },
    countTexts: (prefix) => countTexts(pool, prefix),
  };
});
