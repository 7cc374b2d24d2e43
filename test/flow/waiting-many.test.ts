import fc from 'fast-check';
import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { startJobWorker } from '../../src/app/job-worker.ts';
import { LEASE_DURATION_MS } from '../../src/domain/tunables.ts';
import { startReconciler } from '../../src/recovery/reconciler.ts';
import { findExpiredWaits } from '../../src/store/changes/call-answers.ts';
import type { Db } from '../../src/store/db/database.ts';
import { findExpiredLeases, findUnclaimed } from '../../src/store/work/lost-work.ts';
import { openWatchedDatabase } from '../store/plans-access.ts';
import { availableBackends } from '../support/backends.ts';
import { countStatements } from '../support/count-statements.ts';
import { eventually } from '../support/eventually.ts';
import { propertyRuns } from '../support/property-runs.ts';
import { startTestService } from '../support/service.ts';
import { answer, call, createWaitingTools, keyOf, send, untilWaiting, violations } from './waiting-scenario.ts';

/** A worker brings this many runs to a wait. The others are copies of their rows: a wait consists of rows only. */
const WORKED_ON = 200;
const MANY = 1_000;

/** Copies the rows of waiting runs until there are `MANY` runs. */
async function copyWaits(db: Db): Promise<void> {
  const ids = (...columns: string[]) =>
    sql.join(columns.map((name) => sql`${sql.lit(name)}::text, md5(t.${sql.ref(name)}::text || copy)::uuid`));
  await db.transaction().execute(async (tx) => {
    await sql`set constraints all deferred`.execute(tx);
    for (const [table, columns] of [
      ['sessions', ['id', 'active_run_id']],
      ['runs', ['id', 'session_id']],
      ['messages', ['id', 'session_id', 'run_id']],
      ['parts', ['message_id', 'session_id']],
    ] as const) {
      const stored = await sql<{ column: string }>`
        select column_name as column from information_schema.columns
        where table_schema = current_schema() and table_name = ${table} and is_generated = 'NEVER'`.execute(tx);
      const names = stored.rows.map(({ column }) => column);
      await sql`
        insert into ${sql.table(table)} (${sql.join(names.map((name) => sql.ref(name)))})
        select ${sql.join(names.map((name) => sql`(copied).${sql.ref(name)}`))} from (select
          jsonb_populate_record(t, jsonb_build_object(${ids(...columns)})) as copied
        from ${sql.table(table)} t, generate_series(2, ${sql.lit(MANY / WORKED_ON)}) copy) c`.execute(tx);
    }
  });
}

describe.each(availableBackends())('many runs that wait on %s', (backend) => {
  it(`cost nothing: ${MANY} of them have no claim, no lease and no job, and no sweep looks at them`, async () => {
    const { tools, ran } = createWaitingTools();
    await using service = await startTestService({ backend, tools });
    const { db, jobs, databaseUrl } = service.deps;
    service.simulator.script('test', () => ({ toolCalls: [call('deploy')] }));
    const runIds: string[] = [];
    for (let n = 0; n < WORKED_ON; n++) runIds.push((await send(service, await service.createSession(), 'Go')).runId);
    const worker = await service.startWorker();
    const waiting = () => db.selectFrom('runs').selectAll().where('status', '=', 'requires_action').execute();
    await eventually(async () => (await waiting()).length === WORKED_ON, 'all of them wait');
    const runs = await waiting();
    const held = runs.filter((run) => run.claim_id ?? run.lease_owner ?? run.lease_expires_at ?? run.pending_kind);
    expect(held).toEqual([]);
    const jobOf = { kind: 'step', no: 1 } as const;
    for (const { id: runId, pending_dispatch: last } of runs) {
      const dispatches = Array.from({ length: last }, (_, index) => index + 1);
      // The job that brought the run here is done a moment after its commit.
      await eventually(async () => {
        const states = await Promise.all(dispatches.map((dispatch) => jobs.stateOf({ runId, ...jobOf, dispatch })));
        return states.every((state) => state === 'missing' || state === 'ended');
      }, 'no job is left');
    }
    // The worker's own sweeps would be counted.
    await worker[Symbol.asyncDispose]();
    const sweepOnce = async () => {
      const { db: counted, seen } = countStatements(db);
      const leaseDurationMs = LEASE_DURATION_MS;
      await using reconciler = startReconciler({ ...service.deps, db: counted, leaseDurationMs }, 3_600_000);
      await reconciler.sweep();
      return seen;
    };
    const before = await sweepOnce();
    await copyWaits(db);
    expect(await waiting()).toHaveLength(MANY);
    expect(before.statements).toBeGreaterThan(0);
    expect(await sweepOnce()).toEqual(before);
    const idle = countStatements(db);
    const idleWorker = await startJobWorker({ ...service.deps, db: idle.db });
    await eventually(async () => idle.seen.statements > 5 * before.statements, 'a worker looks for work a few times');
    await idleWorker[Symbol.asyncDispose]();
    expect(idle.seen.rows, 'most of its statements find nothing, or one row').toBeLessThan(2 * idle.seen.statements);
    const { waiting: due, active, delayed } = (await jobs.counts()).step;
    expect({ due, active, delayed }).toEqual({ due: 0, active: 0, delayed: 0 });
    expect((await waiting()).filter((run) => run.claim_id ?? run.pending_kind)).toEqual([]);
    await using watched = openWatchedDatabase(databaseUrl);
    const sweeps: ((each: Db) => Promise<readonly unknown[]>)[] = [
      (each) => findUnclaimed(each, 0, MANY),
      (each) => findExpiredLeases(each, MANY),
      (each) => findExpiredWaits(each, MANY),
    ];
    for (const sweep of sweeps) {
      const { access } = await eventually(async () => {
        // Entries of the runs from before their wait stay in an index until a vacuum that no open transaction holds
        // back.
        await sql`vacuum (analyze) runs`.execute(watched.db);
        const seen = await watched.watch(sweep);
        expect(seen.result).toEqual([]);
        return Object.values(seen.access.indexes).every((entries) => entries === 0) ? seen : null;
      }, 'the sweep reads no entry of any index');
      expect(access.scannedTables).toEqual([]);
    }
    expect(ran).toEqual([]);
  }, 180_000);

  it('are each taken up once, whatever the order of answers from two people, and each approved call runs once', async () => {
    const { tools, ran } = createWaitingTools();
    await using service = await startTestService({ backend, tools });
    service.simulator.script('test', ({ index }) =>
      index === 0 ? { toolCalls: [call('deploy'), call('deploy'), call('browser')] } : { text: 'Done.' },
    );
    await service.startWorker();
    const order = fc.shuffledSubarray([0, 1, 2], { minLength: 3 });
    await fc.assert(
      fc.asyncProperty(order, order, async (mine, yours) => {
        ran.length = 0;
        const { runId } = await send(service, await service.createSession(), 'Go');
        const actions = await untilWaiting(service, runId);
        const client = async (indexes: readonly number[]) => {
          for (const index of indexes) {
            await answer(
              service,
              runId,
              actions[index]?.id,
              index === 2 ? { kind: 'output', output: 'seen' } : { kind: 'approve' },
            );
          }
        };
        await Promise.all([client(mine), client(yours)]);
        expect(await service.ended(runId)).toMatchObject({ status: 'completed', step_count: 2 });
        expect(ran.map(({ callKey }) => callKey).toSorted()).toEqual(actions.slice(0, 2).map(keyOf).toSorted());
      }),
      { numRuns: propertyRuns(0.2) },
    );
    expect(violations(service)).toEqual([]);
  });
});
