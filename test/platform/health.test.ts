import pg from 'pg';
import { describe, expect, it } from 'vitest';
import { watchEventLoop } from '../../src/platform/event-loop-watch.ts';
import { atMostEvery, createHealth } from '../../src/platform/health.ts';
import { PRESENCE_APPLICATION } from '../../src/recovery/worker-presence.ts';
import { lintMetrics, parseMetrics, sumOf } from '../metrics/text-format.ts';
import { availableBackends } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import { startTestService } from '../support/service.ts';
import { startWorkerProcess } from '../support/worker-process.ts';

describe('the health of a process', () => {
  it('is that of all its parts, and says what is wrong with which', async () => {
    const health = createHealth();
    health.add('fine', () => undefined);
    const broken = health.add('twice', () => Promise.reject(new Error('gone')));
    health.add('twice', () => undefined);
    expect(await health.readiness()).toEqual({
      ready: false,
      checks: { fine: { ok: true }, twice: { ok: false, message: 'gone' } },
    });
    broken[Symbol.dispose]();
    expect(await health.readiness()).toMatchObject({ ready: true });
  });

  it('is asked for a part no more often than that part allows, once for all who ask meanwhile', async () => {
    let nowMs = 0;
    let asked = 0;
    const answers = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const check = atMostEvery(
      100,
      async () => answers[asked++]?.promise,
      () => nowMs,
    );
    const first = [check(), check()];
    nowMs = 1_000;
    first.push(check());
    expect(asked).toBe(1);
    answers[0]?.reject(new Error('full'));
    expect(await Promise.allSettled(first)).toMatchObject(first.map(() => ({ reason: { message: 'full' } })));
    nowMs = 1_099;
    await expect(check()).rejects.toThrow('full');
    expect(asked).toBe(1);
    nowMs = 1_100;
    const second = check();
    answers[1]?.resolve();
    await second;
    expect(asked).toBe(2);
  });

  it('knows for a while that its event loop was stuck', async () => {
    using loop = watchEventLoop();
    expect(loop.wasStuck()).toBe(false);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2_500);
    await eventually(async () => loop.wasStuck(), 'the late timer is noticed');
  });
});

describe('a worker', () => {
  it('is not ready while the lock that shows that it lives is gone for longer than a lease', async () => {
    await using service = await startTestService({
      backend: 'postgres',
      environment: { BATON_LEASE_DURATION_MS: '2000', BATON_HEARTBEAT_INTERVAL_MS: '100' },
    });
    const { health, databaseUrl } = service.deps;
    await service.startWorker();
    expect((await health.readiness()).checks).toMatchObject({ worker_lock: { ok: true }, consumers: { ok: true } });
    const name = new URL(databaseUrl).pathname.slice(1);
    // A connection cannot close its own database, so this client connects to `postgres`.
    const admin = new pg.Client({ connectionString: new URL('/postgres', databaseUrl).href });
    await admin.connect();
    try {
      await admin.query(`alter database "${name}" with allow_connections false`);
      await admin.query(
        'select pg_terminate_backend(pid) from pg_stat_activity where datname = $1 and application_name = $2',
        [name, PRESENCE_APPLICATION],
      );
      await eventually(async () => (await health.readiness()).checks['worker_lock']?.ok === false, 'it is not ready');
      await admin.query(`alter database "${name}" with allow_connections true`);
      await eventually(async () => (await health.readiness()).checks['worker_lock']?.ok === true, 'it is ready again');
    } finally {
      await admin.end();
    }
  });
});

describe.each(availableBackends())('a worker process on %s', (backend) => {
  it('answers for itself on a port of its own, with metrics of its own and of no others', async () => {
    await using service = await startTestService({ backend, environment: { BATON_METRICS_PORT: '0' } });
    await using worker = await startWorkerProcess('steps', service.environment);
    const url = String(worker.logged.find(({ event }) => event === 'process_started')?.['monitorUrl']);
    expect(await (await fetch(`${url}/livez`)).json()).toEqual({ status: 'ok' });
    // A process that starts on a busy machine is not ready while its event loop was stuck.
    const ready = await eventually(async () => {
      const answer = await fetch(`${url}/readyz`);
      return answer.status === 200 ? answer.json() : null;
    }, 'it is ready');
    expect(ready).toMatchObject({
      ready: true,
      checks: {
        postgres: { ok: true },
        queue: { ok: true },
        event_loop: { ok: true },
        worker_lock: { ok: true },
        consumers: { ok: true },
        agent_code: { ok: true },
      },
    });
    expect((await fetch(`${url}/v1/sessions`)).status).toBe(404);
    const session = await service.createSession({ tools: [] });
    service.simulator.script('test', [{ text: 'Done.' }]);
    expect(await service.ended((await service.send(session, 'Go')).runId)).toMatchObject({ error: null });
    const families = await eventually(async () => {
      const scraped = parseMetrics(await (await fetch(`${url}/metrics`)).text());
      return sumOf(scraped, 'baton_runs_ended_total', { status: 'completed' }) === 1 ? scraped : null;
    }, 'its run is counted');
    expect(lintMetrics(families.values())).toEqual([]);
    expect(families.get('baton_runs')).toBeUndefined();
    expect(sumOf(families, 'nodejs_eventloop_lag_seconds')).toBeGreaterThanOrEqual(0);
  });
});
