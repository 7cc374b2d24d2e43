// DBOS: a session is a workflow, a step is a step of it. Each step's result is one row, written after the step and
// awaited before the next one. Everything is as it comes, the pool of 10 connections too: 20 were no faster.
import { DBOS } from '@dbos-inc/dbos-sdk';
import { firstMessage, runModelStep } from '../chain/step.ts';
import { contest, openPool, readSyncCommit } from './contest.ts';

async function session(steps: number): Promise<number> {
  const history = [firstMessage(steps)];
  for (let no = 1; no <= steps; no++) {
    history.push(...(await DBOS.runStep(() => runModelStep(history), { name: 'step' })));
  }
  return history.length;
}

await contest('dbos', async ({ databaseUrl, stack }) => {
  const workflow = DBOS.registerWorkflow(session, { name: 'session' });
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
  };
});
