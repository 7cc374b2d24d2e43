// Vercel's Workflow: a session is a run of a workflow, a step is a step of it (workflow-session.ts). Its Postgres world
// queues each step and each replay, and posts the message to this process: 10 at a time, a pool of 10, as it comes.
import { setTimeout as sleep } from 'node:timers/promises';
import { createWorld } from '@workflow/world-postgres';
import { start } from 'workflow/api';
import { setWorld } from 'workflow/runtime';
import { firstMessage } from '../chain/step.ts';
import { contest, openPool, readSyncCommit } from './contest.ts';
import { buildWorkflows, createTables, readWorkflowIds, serveBundles } from './workflow-build.ts';

/** A step ends without waiting for its last text, so this is promised no sooner. */
const TEXT_DURABLE_MS = 250;
/** A step that fails would be tried again: here none may. */
const FAILURES: readonly string[] = ['run_failed', 'step_failed', 'step_retrying'];

await contest('workflow', async ({ databaseUrl, guarantees, stack }) => {
  const folder = await buildWorkflows(stack);
  await createTables(databaseUrl);
  const world = createWorld({ connectionString: databaseUrl });
  stack.defer(() => world.close?.());
  const endOf = watchEnds(world);
  setWorld(world);
  process.env['WORKFLOW_LOCAL_BASE_URL'] = await serveBundles(folder, stack);
  await world.start();
  const workflowId = (await readWorkflowIds(folder)).get(guarantees === 'equal' ? 'sessionInParts' : 'session') ?? '';
  const pool = openPool(stack, databaseUrl, 1);
  const runIds = new Map<string, string>();
  const runIdsOf = (prefix: string): string[] =>
    [...runIds].flatMap(([session, runId]) => (session.startsWith(prefix) ? [runId] : []));
  return {
    syncCommit: await readSyncCommit(pool),
    async run(sessions, steps) {
      await Promise.all(
        sessions.map(async (session) => {
          const { runId } = await start({ workflowId }, [firstMessage(steps), steps]);
          runIds.set(session, runId);
          await endOf(runId);
        }),
      );
    },
    async countStored(prefix) {
      const { rows } = await pool.query<{ count: number }>(
        `select count(*)::int as count from workflow.workflow_steps
          where run_id = any($1) and status = 'completed' and output_cbor is not null`,
        [runIdsOf(prefix)],
      );
      return rows[0]?.count ?? 0;
    },
    async countTexts(prefix) {
      await sleep(TEXT_DURABLE_MS);
      const { rows } = await pool.query<{ count: number }>(
        'select count(*)::int as count from workflow.workflow_stream_chunks where run_id = any($1) and not eof',
        [runIdsOf(prefix)],
      );
      return rows[0]?.count ?? 0;
    },
  };
});

/**
 * Its own way to wait for a run asks once a second, so the events are watched that its world writes.
 * @returns resolves once the end of a run is stored; rejects when it or a step of it has failed
 */
function watchEnds(world: ReturnType<typeof createWorld>): (runId: string) => Promise<void> {
  const ends = new Map<string, PromiseWithResolvers<void>>();
  const endOf = (runId: string): PromiseWithResolvers<void> => {
    const end = ends.get(runId) ?? Promise.withResolvers<void>();
    ends.set(runId, end);
    return end;
  };
  const { create } = world.events;
  world.events.create = new Proxy(create, {
    async apply(write, _, [runId, event, params]: Parameters<typeof create>) {
      const stored = await write(runId, event, params);
      if (event.eventType === 'run_completed') endOf(runId).resolve();
      if (FAILURES.includes(event.eventType)) endOf(runId).reject(new Error(`${runId}: ${JSON.stringify(event)}`));
      return stored;
    },
  });
  return (runId) => endOf(runId).promise;
}
