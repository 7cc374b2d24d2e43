// DBOS: a session is a workflow, a step is a step of it. Each step's result is one row, written after the step and
// awaited before the next one. Everything is as it comes, the pool of 10 connections too: 20 were no faster.
import { DBOS } from '@dbos-inc/dbos-sdk';
import { callTools, firstMessage, hasCalls, runModelStep } from '../chain/step.ts';
import { contest, openPool, readSyncCommit } from './contest.ts';
import { askModelDurably } from './durable-text.ts';

async function session(steps: number): Promise<number> {
  const history = [firstMessage(steps)];
  for (let no = 1; no <= steps; no++) {
    history.push(...(await DBOS.runStep(() => runModelStep(history), { name: 'step' })));
  }
  return history.length;
}

/** A step for each model call and each tool call; a stream has the text, which a reader resumes by its offset. */
async function sessionInParts(steps: number): Promise<number> {
  const history = [firstMessage(steps)];
  for (let no = 1; no <= steps; no++) {
    const ask = () => askModelDurably(history, (text) => DBOS.writeStream('text', text));
    const response = await DBOS.runStep(ask, { name: 'model' });
    history.push(...response);
    if (hasCalls(response)) history.push(...(await DBOS.runStep(() => callTools(response), { name: 'tools' })));
  }
  return history.length;
}

await contest('dbos', async ({ databaseUrl, guarantees, stack }) => {
  const workflow = DBOS.registerWorkflow(guarantees === 'equal' ? sessionInParts : session, { name: 'session' });
  DBOS.setConfig({ name: 'bench', systemDatabaseUrl: databaseUrl, logLevel: 'error' });
  await DBOS.launch();
  stack.defer(() => DBOS.shutdown());
  const pool = openPool(stack, databaseUrl, 1);
  return {
    syncCommit: await readSyncCommit(pool),
    async run(sessions, steps) {
      const handles = await Promise.all(
        sessions.map((workflowID) => DBOS.startWorkflow(workflow, { workflowID })(steps)),
      );
      await Promise.all(handles.map((handle) => handle.getResult()));
    },
    async countStored(prefix) {
      const { rows } = await pool.query<{ count: number }>(
        'select count(*)::int as count from dbos.operation_outputs where workflow_uuid like $1 and output is not null',
        [`${prefix}%`],
      );
      return rows[0]?.count ?? 0;
    },
    async countTexts(prefix) {
      const { rows } = await pool.query<{ count: number }>(
        'select count(*)::int as count from dbos.streams where workflow_uuid like $1',
        [`${prefix}%`],
      );
      return rows[0]?.count ?? 0;
    },
  };
});
