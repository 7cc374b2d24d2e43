import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { formatId } from '../../src/domain/ids.ts';
import type { Db } from '../../src/store/db/database.ts';
import { readEvents } from '../../src/store/transcript/events.ts';
import { listMessages } from '../../src/store/transcript/messages.ts';
import { listWorkers } from '../../src/store/work/workers.ts';
import { availableBackends } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import { runAsAdmin } from '../support/postgres.ts';
import { startTestService, type TestService } from '../support/service.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';
import { cutLockConnections, readLockKeys } from '../support/worker-locks.ts';
import { startWorkerProcess, type WorkerProcess } from '../support/worker-process.ts';

/** A lease that outlives every test: each take-over is due to the lock. */
const LONG_LEASE = { BATON_LEASE_DURATION_MS: '600000', BATON_HEARTBEAT_INTERVAL_MS: '5000' };
/** Long enough for every watcher to have confirmed a death several times over. */
const SEVERAL_LOOKS_SECONDS = 3;

const answerHeldAt = (gate: string) => ({
  text: 'This answer has many chunks.',
  chunkChars: 4,
  gates: { afterChunks: { count: 3, gate } },
});

/** Holds the answer to the first request, and answers each later request with `second`. */
function holdFirst(service: TestService, gate: string, second: string): void {
  service.simulator.script('test', () =>
    service.simulator.requests.length <= 1 ? answerHeldAt(gate) : { text: second },
  );
}

const start = (service: TestService): Promise<WorkerProcess> => startWorkerProcess('steps', service.environment);

const send = async (service: TestService) => {
  const session = await service.createSession({ tools: [] });
  return { session, ...(await service.send(session, 'Go')) };
};

const readRun = (db: Db, runId: string) =>
  db
    .selectFrom('runs')
    .select(['status', 'epoch', 'claim_id', 'lease_owner'])
    .where('id', '=', runId)
    .executeTakeFirstOrThrow();

const logged = (worker: WorkerProcess, event: string) => worker.logged.filter((entry) => entry['event'] === event);

/** The time in seconds by the database server's clock, which also sets `seenAt`; the test's own clock may differ. */
async function databaseClock(db: Db): Promise<number> {
  const { rows } = await sql<{ seconds: number }>`
    select extract(epoch from clock_timestamp())::double precision as seconds`.execute(db);
  return rows[0]?.seconds ?? Number.NaN;
}

describe.each(availableBackends())('worker processes and their locks on %s', (backend) => {
  it('lose nothing to a kill -9 in mid-stream: another worker goes on long before the lease ends', async () => {
    await using service = await startTestService({ backend, environment: LONG_LEASE });
    const { db } = service.deps;
    holdFirst(service, 'middle', 'The whole answer.');
    await using first = await start(service);
    const { session, runId } = await send(service);
    await service.simulator.gate('middle').reached;
    await using second = await start(service);
    expect((await listWorkers(db)).map(({ lockFree }) => lockFree)).toEqual([false, false]);
    await first.kill('SIGKILL');
    expect(await service.ended(runId)).toMatchObject({ status: 'completed', step_count: 1 });
    const messages = await listMessages(db, 'default', session, { afterSeq: 0, limit: 100 });
    expect(messages.map((message) => message.finishReason)).toEqual([null, 'stop']);
    expect(messages[1]?.parts.at(-1)).toMatchObject({ text: 'The whole answer.' });
    await eventually(async () => logged(second, 'worker_dead').length > 0, 'the second one says who is dead');
    expect(logged(second, 'run_recovered')).toMatchObject([{ runId: formatId('run', runId), reason: 'worker_dead' }]);
    await eventually(async () => (await readLockKeys(db)).size === 1, 'the dead worker is forgotten');
  });

  it('leave no trace in the table of workers after an orderly end', async () => {
    await using service = await startTestService({ backend, environment: LONG_LEASE });
    await using worker = await start(service);
    expect((await listWorkers(service.deps.db)).map(({ lockFree }) => lockFree)).toEqual([false]);
    expect(await worker.kill('SIGTERM')).toBe(0);
    expect((await readLockKeys(service.deps.db)).size).toBe(0);
  });
});

describe('a lock that is free without a death', () => {
  const backend = 'postgres';

  it('costs a worker nothing that has lost its connection alone and cannot get another one', async () => {
    await using service = await startTestService({ backend, environment: LONG_LEASE });
    const { db, databaseUrl } = service.deps;
    service.simulator.script('test', [answerHeldAt('middle')]);
    await using first = await start(service);
    const { runId } = await send(service);
    await service.simulator.gate('middle').reached;
    await using second = await start(service);
    // This query keeps the test's connection open: no new one can be made below, and a pool closes one that was idle
    // for 10 s.
    const before = await readRun(db, runId);
    const worker = before.lease_owner ?? '';
    const lockKey = (await readLockKeys(db)).get(worker);
    await setConnectable(databaseUrl, false);
    expect(await cutLockConnections(db, lockKey)).toBe(1);
    const cutAt = await databaseClock(db);
    await eventually(async () => {
      const own = (await listWorkers(db)).find(({ id }) => id === worker);
      return own?.lockFree === true && Number(own.seenAt) > cutAt + SEVERAL_LOOKS_SECONDS;
    }, 'the worker gives signs of life without a lock');
    expect(await readRun(db, runId)).toEqual(before);
    await setConnectable(databaseUrl, true);
    await eventually(async () => (await readLockKeys(db)).get(worker) !== lockKey, 'the worker has another lock');
    service.simulator.gate('middle').release();
    expect(await service.ended(runId)).toMatchObject({ status: 'completed', step_count: 1 });
    expect(service.simulator.requests.length).toBe(1);
    expect([...logged(first, 'run_recovered'), ...logged(second, 'run_recovered')]).toEqual([]);
  });

  it('makes nobody take from anybody when all connections are cut at once', async () => {
    await using service = await startTestService({
      backend,
      environment: { ...LONG_LEASE, BATON_STEP_CONCURRENCY: '1' },
    });
    const { db, databaseUrl } = service.deps;
    service.simulator.script('test', () => answerHeldAt('middle'));
    await using stack = new AsyncDisposableStack();
    const workers = await Promise.all(Array.from({ length: 3 }, async () => stack.use(await start(service))));
    const sent = await Promise.all(workers.map(() => send(service)));
    await eventually(async () => service.simulator.requests.length === workers.length, 'each worker has a run');
    await service.simulator.gate('middle').reached;
    const before = await readLockKeys(db);
    await setConnectable(databaseUrl, false);
    expect(await cutLockConnections(db)).toBe(workers.length);
    const cutAt = await databaseClock(db);
    await eventually(
      async () => (await databaseClock(db)) > cutAt + SEVERAL_LOOKS_SECONDS,
      'everybody has looked at everybody',
    );
    expect((await listWorkers(db)).map(({ lockFree }) => lockFree)).toEqual(workers.map(() => true));
    await setConnectable(databaseUrl, true);
    await eventually(async () => {
      const after = await readLockKeys(db);
      return after.size === workers.length && [...after].every(([id, key]) => before.get(id) !== key);
    }, 'every worker has another lock');
    service.simulator.gate('middle').release();
    for (const { runId } of sent) {
      expect(await service.ended(runId)).toMatchObject({ status: 'completed', step_count: 1 });
    }
    expect(service.simulator.requests.length).toBe(workers.length);
    expect(workers.flatMap((worker) => logged(worker, 'run_recovered'))).toEqual([]);
    expect((await readLockKeys(db)).size).toBe(workers.length);
  });
});

describe('a worker that has just started', () => {
  const backend = 'postgres';

  it('takes nothing from workers that an outage has kept from their locks and leases', async () => {
    const environment = { ...LONG_LEASE, BATON_STEP_CONCURRENCY: '1' };
    await using service = await startTestService({ backend, environment });
    const { db, databaseUrl } = service.deps;
    service.simulator.script('test', () => answerHeldAt('middle'));
    await using proxy = await startTcpProxy(databaseUrl);
    const behind = { ...service.environment, DATABASE_URL: proxy.via(databaseUrl) };
    await using stack = new AsyncDisposableStack();
    const cutOff = [1, 2].map(async () => stack.use(await startWorkerProcess('steps', behind)));
    const workers = await Promise.all(cutOff);
    const sent = await Promise.all(workers.map(() => send(service)));
    await eventually(async () => service.simulator.requests.length === workers.length, 'each worker has a run');
    await service.simulator.gate('middle').reached;
    await proxy.refuse();
    await sql`update runs set lease_expires_at = clock_timestamp() - interval '1 second'`.execute(db);
    await eventually(async () => (await listWorkers(db)).every(({ lockFree }) => lockFree), 'all locks are free');

    await using fresh = await start(service);
    const startedAt = await databaseClock(db);
    await eventually(
      async () => (await databaseClock(db)) > startedAt + SEVERAL_LOOKS_SECONDS,
      'it has looked at the others and at the leases',
    );
    await proxy.restore();
    await eventually(
      async () => (await listWorkers(db)).every(({ lockFree }) => !lockFree),
      'everybody has a lock again',
    );
    service.simulator.gate('middle').release();
    for (const { runId } of sent) expect(await service.ended(runId)).toMatchObject({ status: 'completed' });
    expect([fresh, ...workers].flatMap((worker) => logged(worker, 'run_recovered'))).toEqual([]);
    const burned = await db.selectFrom('runs').select(['resume_count', 'attempt']).execute();
    expect(burned).toEqual(sent.map(() => ({ resume_count: 0, attempt: 1 })));
    expect(service.simulator.requests.length).toBe(workers.length);
  });

  it('goes on at once with what the one before it had in hand, if that was alone', async () => {
    await using service = await startTestService({ backend, environment: LONG_LEASE });
    holdFirst(service, 'middle', 'The whole answer.');
    await using first = await start(service);
    const { runId } = await send(service);
    await service.simulator.gate('middle').reached;
    await first.kill('SIGKILL');
    await using second = await start(service);
    expect(await service.ended(runId)).toMatchObject({ status: 'completed', step_count: 1 });
    expect(logged(second, 'run_recovered')).toMatchObject([{ runId: formatId('run', runId), reason: 'worker_dead' }]);
  });
});

describe.each(availableBackends())('a worker that hangs on %s', (backend) => {
  it('is taken over when its lease ends, and writes nothing when it goes on', async () => {
    const environment = { BATON_LEASE_DURATION_MS: '1500', BATON_HEARTBEAT_INTERVAL_MS: '300' };
    await using service = await startTestService({ backend, environment });
    const { db } = service.deps;
    holdFirst(service, 'middle', 'Of the other one.');
    await using first = await start(service);
    const { session, runId } = await send(service);
    await service.simulator.gate('middle').reached;
    await using second = await start(service);
    process.kill(first.pid, 'SIGSTOP');
    expect(await service.ended(runId)).toMatchObject({ status: 'completed', step_count: 1 });
    await eventually(async () => logged(second, 'step_finished').length === 1, 'the second one says that it is done');
    expect(logged(second, 'run_recovered')).toMatchObject([{ runId: formatId('run', runId), reason: 'lease_expired' }]);
    const state = async () => ({
      events: await readEvents(db, 'default', session, { afterSeq: 0, limit: 1_000 }),
      messages: await listMessages(db, 'default', session, { afterSeq: 0, limit: 100 }),
      chunks: await db.selectFrom('part_chunks').selectAll().execute(),
      run: await readRun(db, runId),
    });
    const before = await state();
    process.kill(first.pid, 'SIGCONT');
    service.simulator.gate('middle').release();
    // The first worker learns of it from the answer to its next heartbeat or from the refusal of a write.
    const fenced = () => [...logged(first, 'claim_lost'), ...logged(first, 'step_fenced')];
    await eventually(async () => fenced().length > 0, 'the first one finds itself fenced');
    expect(before.messages.at(-1)?.parts.at(-1)).toMatchObject({ text: 'Of the other one.' });
    expect(await first.kill('SIGTERM')).toBe(0);
    expect(logged(first, 'step_finished')).toEqual([]);
    expect(await state()).toEqual(before);
  });
});

/** Open connections stay. If `allowed` is false, no new connection is let in, whatever its role. */
async function setConnectable(databaseUrl: string, allowed: boolean): Promise<void> {
  const { pathname } = new URL(databaseUrl);
  const admin = new URL(databaseUrl);
  admin.pathname = '/postgres';
  await runAsAdmin(admin.href, `alter database ${pathname.slice(1)} allow_connections ${allowed}`);
}
