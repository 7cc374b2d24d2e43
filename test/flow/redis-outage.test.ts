import { Redis } from 'ioredis';
import { describe, expect, inject, it } from 'vitest';
import { readEvents } from '../../src/store/transcript/events.ts';
import { eventually } from '../support/eventually.ts';
import { startTestService } from '../support/service.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import { startWorkerProcess } from '../support/worker-process.ts';

const redisUrl = inject('redisUrl');

const OUTAGES = {
  refused: (proxy: TcpProxy) => proxy.refuse(),
  'black-holed': async (proxy: TcpProxy) => proxy.blackhole(),
} as const;

describe.runIf(redisUrl !== null).each(Object.keys(OUTAGES) as (keyof typeof OUTAGES)[])(
  'a Redis that is %s',
  (kind) => {
    it('costs nothing: what runs goes on, what is accepted is answered 202 and starts when it is back', async () => {
      await using service = await startTestService({ backend: 'redis' });
      await using proxy = await startTcpProxy(redisUrl ?? '');
      service.simulator.script('test', ({ index }) =>
        index === 0
          ? { text: 'A long answer.', chunkChars: 4, gates: { afterChunks: { count: 2, gate: 'middle' } } }
          : { text: 'Here.' },
      );
      const environment = {
        ...service.environment,
        REDIS_URL: proxy.via(redisUrl ?? ''),
        BATON_PORT: '0',
        BATON_MODEL: 'simulated/test',
      };
      await using worker = await startWorkerProcess('all', environment);
      const post = async (route: string, body: object) => {
        const headers = { 'content-type': 'application/json' };
        const response = await fetch(`${worker.url}${route}`, { method: 'POST', headers, body: JSON.stringify(body) });
        return { status: response.status, body: (await response.json()) as Record<string, string> };
      };
      const running = await service.send(await service.createSession({ tools: [] }), 'Go');
      await service.simulator.gate('middle').reached;
      const { body: session } = await post('/v1/sessions', { agent: 'workspace' });

      await OUTAGES[kind](proxy);
      const accepted = await post(`/v1/sessions/${session['id']}/messages`, { content: 'Go' });
      expect(accepted).toMatchObject({ status: 202, body: { status: 'queued' } });
      service.simulator.gate('middle').release();
      expect(await service.ended(running.runId)).toMatchObject({ status: 'completed' });
      expect((await fetch(`${worker.url}/readyz`)).status).toBe(503);
      expect((await fetch(`${worker.url}/livez`)).status).toBe(200);

      await proxy.restore();
      await eventually(async () => {
        const { rows } = {
          rows: await service.deps.db.selectFrom('runs').select(['status', 'resume_count']).execute(),
        };
        return rows.length === 2 && rows.every((run) => run.status === 'completed' && run.resume_count === 0);
      }, 'both runs are completed');
      await eventually(async () => (await fetch(`${worker.url}/readyz`)).status === 200, 'the API is ready again');
      expect(service.simulator.requests.length).toBe(2);
      expect(await worker.kill('SIGTERM')).toBe(0);
    });
  },
);

describe.runIf(redisUrl !== null)('an emptied Redis', () => {
  it('loses no job: those that wait, are delayed or are worked on all come to their end', async () => {
    await using service = await startTestService({ backend: 'redis', environment: { BATON_STEP_CONCURRENCY: '2' } });
    service.simulator.script('active', [{ text: 'Held.', gates: { beforeFirstChunk: 'active' } }]);
    service.simulator.script('delayed', [{ text: 'Here.' }]);
    service.simulator.script('waiting', [{ text: 'Here.' }]);
    service.simulator.fault('delayed', { kind: 'rate-limit', retryAfterMs: 3_000 });
    await service.startWorker();
    const start = async (model: string) => {
      const session = await service.createSession({ model: `simulated/${model}` });
      return { session, ...(await service.send(session, 'Go')) };
    };
    const delayed = await start('delayed');
    await eventually(
      async () =>
        (await readEvents(service.deps.db, 'default', delayed.session, { afterSeq: 0, limit: 100 })).some(
          ({ type }) => type === 'step:retrying',
        ),
      'one waits for its next attempt',
    );
    const active = [await start('active'), await start('active')];
    await eventually(async () => service.simulator.requests.length === 3, 'both places are taken');
    const waiting = [await start('waiting'), await start('waiting')];
    const redis = new Redis(redisUrl ?? '');
    await redis.del(...(await redis.keys(`${service.environment['BATON_QUEUE_PREFIX']}*`)));
    redis.disconnect();
    service.simulator.gate('active').release();
    for (const { runId } of [delayed, ...active, ...waiting]) {
      expect(await service.ended(runId)).toMatchObject({ status: 'completed', step_count: 1 });
    }
    expect(service.simulator.requests.length).toBe(6);
  });
});
