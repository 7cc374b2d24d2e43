import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { describe, expect, inject, it } from 'vitest';
import { createMonitorApp } from '../../src/app/monitor-app.ts';
import { defineAgent } from '../../src/library/baton.ts';
import { hasRedisServer, startOwnRedis } from '../faults/world/services.ts';
import { startInProcess } from '../library/support.ts';
import { availableBackends } from '../support/backends.ts';
import { startTestService } from '../support/service.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';

const skip = !availableBackends().includes('redis') || !hasRedisServer();

type Refusal = Readonly<{
  /** Start of its replies. */
  reply: string;
  begin: (admin: Redis, folder: string) => Promise<unknown>;
  end: (admin: Redis) => Promise<unknown>;
}>;

const REFUSALS: readonly Refusal[] = [
  {
    reply: 'READONLY',
    begin: (admin) => admin.replicaof('127.0.0.1', 1),
    end: (admin) => admin.replicaof('NO', 'ONE'),
  },
  {
    reply: 'OOM',
    begin: (admin) => admin.config('SET', 'maxmemory', '1'),
    end: (admin) => admin.config('SET', 'maxmemory', '0'),
  },
  {
    reply: 'NOREPLICAS',
    begin: (admin) => admin.config('SET', 'min-replicas-to-write', '1'),
    end: (admin) => admin.config('SET', 'min-replicas-to-write', '0'),
  },
  {
    reply: 'MISCONF',
    async begin(admin, folder) {
      await rm(folder, { recursive: true });
      await admin.config('SET', 'save', '3600 1');
      await admin.bgsave().catch(() => undefined);
      await expect.poll(() => admin.info('persistence')).toContain('rdb_last_bgsave_status:err');
    },
    end: (admin) => admin.config('SET', 'stop-writes-on-bgsave-error', 'no'),
  },
];

/** After a reconnect ioredis sends the script itself, not its hash. */
const SCRIPT = /\r\neval(sha)?\r\n/i;

/** Errors that this Redis has sent, by INFO. */
async function refused(admin: Redis, reply: string): Promise<number> {
  const counted = new RegExp(`errorstat_${reply}:count=(\\d+)`).exec(await admin.info('errorstats'));
  return Number(counted?.[1] ?? 0);
}

describe.skipIf(skip)('a Redis that answers but refuses', () => {
  it.each(REFUSALS)(
    '$reply is tried with pauses, said rarely, and queued runs go on',
    async ({ reply, begin, end }) => {
      await using stack = new AsyncDisposableStack();
      const folder = await mkdtemp(join(tmpdir(), 'baton-redis-'));
      stack.defer(() => rm(folder, { recursive: true, force: true }));
      const own = stack.use(await startOwnRedis(['--dir', folder]));
      const redisUrl = `redis://127.0.0.1:${own.port}`;
      const admin = stack.adopt(new Redis(redisUrl), (redis) => redis.disconnect());
      const started = stack.use(
        await startInProcess((model) => ({
          agents: [defineAgent({ name: 'clerk', model })],
          ...{ redisUrl, queuePrefix: 'refused', requestsPerMinute: 100_000 },
        })),
      );
      const { baton, simulator, logged } = started;
      simulator.script('test', () => ({ text: 'Done.' }));
      await baton.startWorker();
      const session = (await baton.client.sessions.create({ agent: 'clerk' })).id;
      const first = await baton.client.send(session, 'Before.');
      expect((await baton.client.runs.result(first.runId)).text).toBe('Done.');

      await begin(admin, folder);
      const [saidBefore, refusedBefore, sinceMs] = [logged.length, await refused(admin, reply), performance.now()];
      const queued = await baton.client.send(session, 'Meanwhile.');
      await expect.poll(async () => (await refused(admin, reply)) - refusedBefore).toBeGreaterThan(25);
      const seconds = (performance.now() - sinceMs) / 1_000;
      // Four queues, each of which is asked for work and given work; the API; and one try of each at once.
      expect((await refused(admin, reply)) - refusedBefore).toBeLessThan(25 * (seconds + 2));
      expect(logged.length - saidBefore).toBeLessThan(40);

      await end(admin);
      expect((await baton.client.runs.result(queued.runId)).text).toBe('Done.');
    },
  );
});

describe.skipIf(skip)('a process that cannot work although Redis answers others', () => {
  it('says so in /livez, until it can', async () => {
    await using stack = new AsyncDisposableStack();
    let isBroken = false;
    const redisUrl = inject('redisUrl') ?? '';
    const proxy = stack.use(
      await startTcpProxy(redisUrl, (client) => {
        // What queues and workers do is done by scripts. All else works, on this connection and on new ones.
        client.on('data', (bytes) => void (isBroken && SCRIPT.test(bytes.toString('latin1')) && client.destroy()));
        return (bytes) => void client.write(bytes);
      }),
    );
    const service = stack.use(
      await startTestService({ backend: 'redis', environment: { REDIS_URL: proxy.via(redisUrl) } }),
    );
    const app = createMonitorApp({ ...service.deps, readiness: service.deps.health.readiness });
    const livez = async () => (await app.request('/livez')).status;
    await service.startWorker();
    const session = await service.createSession();
    isBroken = true;
    expect(await livez()).toBe(200);
    await service.send(session, 'Meanwhile.').catch(() => undefined);
    await expect.poll(livez, { interval: 500 }).toBe(503);
    expect(await (await app.request('/livez')).json()).toMatchObject({
      status: 'stuck',
      reason: expect.stringMatching(/has failed for 3\d s to (add|take) jobs/),
    });
    isBroken = false;
    await expect.poll(livez).toBe(200);
  });
});
