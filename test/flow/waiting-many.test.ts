import fc from 'fast-check';
import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { findExpiredWaits } from '../../src/store/call-answers.ts';
import type { Db } from '../../src/store/database.ts';
import { findExpiredLeases, findUnclaimed } from '../../src/store/lost-work.ts';
import { openWatchedDatabase } from '../store/plans-access.ts';
import { availableBackends } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import { startTestService } from '../support/service.ts';
import { answer, call, createWaitingTools, keyOf, send, untilWaiting, violations } from './waiting-scenario.ts';

const MANY = 200;

describe.each(availableBackends())('many runs that wait on %s', (backend) => {
  it(`cost nothing: ${MANY} of them have no claim, no lease and no job, and no sweep looks at them`, async () => {
    const { tools, ran } = createWaitingTools();
    await using service = await startTestService({ backend, tools });
    const { db, jobs, databaseUrl } = service.deps;
    service.simulator.script('test', () => ({ toolCalls: [call('deploy')] }));
    const runIds: string[] = [];
    for (let n = 0; n < MANY; n++) runIds.push((await send(service, await service.createSession(), 'Go')).runId);
    const worker = await service.startWorker();
    const waiting = () => db.selectFrom('runs').selectAll().where('status', '=', 'requires_action').execute();
    await eventually(async () => (await waiting()).length === MANY, 'all of them wait');
    const runs = await waiting();
    const held = runs.filter((run) => run.claim_id ?? run.lease_owner ?? run.lease_expires_at ?? run.pending_kind);
    expect(held).toEqual([]);
    const jobOf = { kind: 'step', no: 1 } as const;
    for (const { id: runId, pending_dispatch: last } of runs) {
      const dispatches = Array.from({ length: last }, (_, index) => index + 1);
      // The job that brought it so far is done a moment after its commit.
      await eventually(async () => {
        const states = await Promise.all(dispatches.map((dispatch) => jobs.stateOf({ runId, ...jobOf, dispatch })));
        return states.every((state) => state === 'missing');
      }, 'no job is left');
    }
    // Its own sweeps would be counted.
    await worker[Symbol.asyncDispose]();
    await using watched = openWatchedDatabase(databaseUrl);
    // So small a table would be read from end to end; test/store/plans.test.ts sees to it that a large one is not.
    await sql`set enable_seqscan = off`.execute(watched.db);
    const sweeps: ((each: Db) => Promise<readonly unknown[]>)[] = [
      (each) => findUnclaimed(each, 0, MANY),
      (each) => findExpiredLeases(each, MANY),
      (each) => findExpiredWaits(each, MANY),
    ];
    for (const sweep of sweeps) {
      const { access } = await eventually(async () => {
        // What the runs were before they waited stays in an index until a vacuum that no open transaction keeps from it.
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
              index === 2 ? { output: 'seen' } : { decision: 'approve' },
            );
          }
        };
        await Promise.all([client(mine), client(yours)]);
        expect(await service.ended(runId)).toMatchObject({ status: 'completed', step_count: 2 });
        expect(ran.map(({ callKey }) => callKey).toSorted()).toEqual(actions.slice(0, 2).map(keyOf).toSorted());
      }),
      { numRuns: 10 },
    );
    expect(violations(service)).toEqual([]);
  });
});
