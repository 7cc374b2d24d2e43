import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { createClaimKeeper, StepStopped } from '../../src/claims/claim-keeper.ts';
import { createPostgresBus } from '../../src/events/postgres-bus.ts';
import type { LogEvent } from '../../src/platform/log.ts';
import { newId } from '../../src/platform/new-id.ts';
import { startReconciler } from '../../src/recovery/reconciler.ts';
import { requestCancel } from '../../src/store/changes/cancels.ts';
import { openDatabase } from '../../src/store/db/database.ts';
import { readEvents } from '../../src/store/transcript/events.ts';
import { listMessages } from '../../src/store/transcript/messages.ts';
import { claimRun, requeueRun } from '../../src/store/work/claims.ts';
import type { Tool } from '../../src/tools/tool.ts';
import { eventually } from '../support/eventually.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { startTestService, type TestService } from '../support/service.ts';

/** A tool that reports its start and its signal, and ends when the test tells it to. */
function heldTool() {
  const begun = Promise.withResolvers<AbortSignal>();
  const gate = Promise.withResolvers<void>();
  const execute: Tool['execute'] = async (_input, { signal }) => {
    begun.resolve(signal);
    await gate.promise;
    return 'the result';
  };
  const tool: Tool = { name: 'hold', description: 'holds', inputSchema: { type: 'object' }, execute };
  return { tool, begun: begun.promise, release: gate.resolve };
}

const abortOf = (signal: AbortSignal) =>
  eventually(async () => (signal.aborted ? { reason: signal.reason as unknown } : null), 'the signal is aborted');

/** Of two calls the second starts when the first has ended, and only while the claim holds. */
const ONE_AT_A_TIME = { limits: { toolConcurrency: 1 } };

async function startHeldRun(tool: Tool, environment: Readonly<Record<string, string>>) {
  const service = await startTestService({ backend: 'postgres', tools: [tool], environment });
  const calls = [1, 2].map((no) => ({ name: 'hold', input: { no } }));
  service.simulator.script('test', [{ toolCalls: calls }, { text: 'Done.' }]);
  return service;
}

/** Acts as another worker that has found the first one dead. */
async function takeOver(service: TestService, sessionId: string, runId: string): Promise<void> {
  const { db } = service.deps;
  const job = await db.transaction().execute(async (tx) => {
    await sql`select 1 from sessions where id = ${sessionId} for no key update`.execute(tx);
    return requeueRun(tx, runId);
  });
  if (job === null) throw new Error('nothing was pending');
  const claim = { job, claimId: newId(), workerId: 'other', leaseDurationMs: 600_000, messageId: newId() };
  expect(await claimRun(db, claim)).toMatchObject({ outcome: 'claimed' });
}

describe('the claim of a step', () => {
  it('is renewed for as long as the step takes: nobody takes it over', async () => {
    const { tool, begun, release } = heldTool();
    const lease = { BATON_LEASE_DURATION_MS: '3000', BATON_HEARTBEAT_INTERVAL_MS: '100' };
    await using service = await startHeldRun(tool, lease);
    await service.startWorker();
    await service.startWorker();
    const session = await service.createSession(ONE_AT_A_TIME);
    const { runId } = await service.send(session, 'Go');
    const signal = await begun;
    const { db } = service.deps;
    const claim = db.selectFrom('runs').select(['claim_id', 'epoch', 'lease_expires_at']).where('id', '=', runId);
    const first = await claim.executeTakeFirstOrThrow();
    await eventually(async () => {
      const { rows } = await sql<{
        over: boolean;
      }>`select clock_timestamp() > ${first.lease_expires_at} as over`.execute(db);
      return rows[0]?.over === true;
    }, 'the first lease is over');
    await using reconciler = startReconciler({ ...service.deps, leaseDurationMs: 600_000 }, 600_000);
    await reconciler.sweep();
    expect(await claim.executeTakeFirstOrThrow()).toMatchObject({ claim_id: first.claim_id, epoch: first.epoch });
    expect(signal.aborted).toBe(false);
    release();
    expect(await service.ended(runId)).toMatchObject({ status: 'completed', step_count: 2 });
    expect(service.logged.filter(({ event }) => event === 'run_recovered')).toEqual([]);
    const [, answer] = await listMessages(db, 'default', session, { afterSeq: 0, limit: 100 });
    expect(answer?.parts.slice(1)).toMatchObject([{ state: 'completed' }, { state: 'completed' }]);
  });

  it('is found lost by the next heartbeat when another worker has the run: the step stops and writes nothing', async () => {
    const { tool, begun, release } = heldTool();
    await using service = await startHeldRun(tool, { BATON_HEARTBEAT_INTERVAL_MS: '100' });
    const worker = await service.startWorker();
    const session = await service.createSession(ONE_AT_A_TIME);
    const { runId } = await service.send(session, 'Go');
    const signal = await begun;
    await takeOver(service, session, runId);
    const { db } = service.deps;
    const state = async () => ({
      events: await readEvents(db, 'default', session, { afterSeq: 0, limit: 1_000 }),
      messages: await listMessages(db, 'default', session, { afterSeq: 0, limit: 100 }),
      run: await db.selectFrom('runs').select(['status', 'epoch', 'claim_id', 'step_count']).execute(),
    });
    const before = await state();
    const { reason } = await abortOf(signal);
    expect(reason).toBeInstanceOf(StepStopped);
    expect(reason).toMatchObject({ kind: 'lost' });
    release();
    await eventually(async () => worker.activeJobs() === 0, 'the step lets go');
    expect(await state()).toEqual(before);
    expect(service.simulator.requests.length).toBe(1);
  });

  it('brings a cancel with its heartbeat when the notice of it got lost', async () => {
    const { tool, begun, release } = heldTool();
    await using service = await startHeldRun(tool, { BATON_HEARTBEAT_INTERVAL_MS: '100' });
    await service.startWorker();
    const { runId } = await service.send(await service.createSession(ONE_AT_A_TIME), 'Go');
    const signal = await begun;
    await requestCancel(service.deps.db, 'default', runId);
    expect(await abortOf(signal)).toMatchObject({ reason: { kind: 'cancelled' } });
    release();
    expect(await service.ended(runId)).toMatchObject({ status: 'cancelled' });
  });
});

describe('the claim keeper', () => {
  async function openKeeper(connectionString: string, busUrl: string, leaseDurationMs: number) {
    await using stack = new AsyncDisposableStack();
    const logged: LogEvent[] = [];
    const db = openDatabase({ connectionString });
    stack.defer(() => db.destroy());
    const bus = stack.use(await createPostgresBus({ connectionString: busUrl }));
    const log = (_level: string, event: LogEvent) => void logged.push(event);
    const keeper = stack.use(await createClaimKeeper({ db, bus, log, leaseDurationMs, heartbeatIntervalMs: 20 }));
    const owned = stack.move();
    return { keeper, bus, logged, [Symbol.asyncDispose]: () => owned.disposeAsync() };
  }

  it('starts nothing once its lease may be over, but stops no step while Postgres is merely away', async () => {
    await using database = await createTestDatabase();
    const nowhere = 'postgres://postgres@127.0.0.1:1/nowhere';
    await using opened = await openKeeper(nowhere, database.connectionString, 500);
    using held = opened.keeper.hold(newId(), newId());
    held.granted();
    expect(held.mayAct()).toBe(true);
    await eventually(async () => !held.mayAct(), 'the lease may be over');
    expect(held.stopped()).toBe(null);
    expect(held.signal.aborted).toBe(false);
    expect(opened.logged[0]).toMatchObject({ event: 'heartbeat_failed', claims: 1 });
  });

  it('starts nothing under a claim that follows another, once the lease of that one may be over', async () => {
    await using database = await createTestDatabase();
    const nowhere = 'postgres://postgres@127.0.0.1:1/nowhere';
    await using opened = await openKeeper(nowhere, database.connectionString, 500);
    using held = opened.keeper.hold(newId(), newId());
    using early = held.followedBy(newId());
    expect(early.mayAct()).toBe(true);
    await eventually(async () => !held.mayAct(), 'the lease may be over');
    using late = held.followedBy(newId());
    expect([early, late].map((next) => next.mayAct())).toEqual([false, false]);
    expect(opened.keeper.count()).toBe(3);
  });

  it('takes a claim for lost only after it was granted, and only until it lets go of it', async () => {
    await using database = await createTestDatabase();
    await using opened = await openKeeper(database.connectionString, database.connectionString, 60_000);
    using asked = opened.keeper.hold(newId(), newId());
    using taken = opened.keeper.hold(newId(), newId());
    const letGo = opened.keeper.hold(newId(), newId());
    using ending = opened.keeper.hold(newId(), newId());
    letGo.granted();
    letGo[Symbol.dispose]();
    ending.granted();
    ending.lettingGo();
    taken.granted();
    expect(await abortOf(taken.signal)).toMatchObject({ reason: { kind: 'lost' } });
    expect(taken.mayAct()).toBe(false);
    expect([asked, letGo, ending].map((held) => held.stopped())).toEqual([null, null, null]);
    expect(opened.keeper.count()).toBe(3);
  });

  it('passes a cancel on to the run it is meant for, also before the claim is granted', async () => {
    await using database = await createTestDatabase();
    await using opened = await openKeeper(database.connectionString, database.connectionString, 60_000);
    const runId = newId();
    using meant = opened.keeper.hold(runId, newId());
    using other = opened.keeper.hold(newId(), newId());
    opened.bus.requestCancel(runId);
    expect(await abortOf(meant.signal)).toMatchObject({ reason: { kind: 'cancelled' } });
    expect(other.stopped()).toBe(null);
  });

  it('keeps the first reason to stop', async () => {
    await using database = await createTestDatabase();
    await using opened = await openKeeper(database.connectionString, database.connectionString, 60_000);
    using first = opened.keeper.hold(newId(), newId());
    using second = opened.keeper.hold(newId(), newId());
    first.stop('cancelled');
    opened.keeper.stopAll('shutdown');
    expect([first.stopped(), second.stopped()]).toEqual(['cancelled', 'shutdown']);
    expect(first.signal.reason).toMatchObject({ kind: 'cancelled' });
    expect(first.mayAct()).toBe(true);
  });
});
