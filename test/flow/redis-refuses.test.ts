import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { createMonitorApp } from '../../src/app/monitor-server.ts';
import { createClient } from '../../src/client/client.ts';
import { hasRedisServer, type OwnRedis, startOwnRedis } from '../faults/world/services.ts';
import { availableBackends } from '../support/backends.ts';
import { createTestKey } from '../support/keys.ts';
import { startTestService, type TestService } from '../support/service.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';
import { startWorkerProcess, type WorkerProcess } from '../support/worker-process.ts';

const skip = !availableBackends().includes('redis') || !hasRedisServer();

type World = Readonly<{ redis: OwnRedis; admin: Redis; folder: string }>;

type Refusal = Readonly<{
  /** Start of its replies. */
  reply: string;
  /** @returns ends it */
  begin: (world: World) => Promise<() => Promise<unknown>>;
}>;

const setting =
  (name: string, value: string, before: string): Refusal['begin'] =>
  async ({ admin }) => {
    await admin.config('SET', name, value);
    return () => admin.config('SET', name, before);
  };

/** A node of a cluster that knows no other one, so it serves no slot; and one that knows of another one with all slots. */
const ALONE = ['--cluster-enabled', 'yes', '--cluster-config-file', 'alone.conf'];
const WITHOUT_SLOTS = [
  ...['--cluster-enabled', 'yes', '--cluster-config-file', 'without-slots.conf'],
  ...['--cluster-node-timeout', '86400000'],
];
const nodesWithoutSlots = (port: number): string =>
  [
    `${'a'.repeat(40)} 127.0.0.1:${port}@${port + 10_000} myself,master - 0 0 1 connected`,
    `${'b'.repeat(40)} 127.0.0.1:1@10001 master - 0 0 2 connected 0-16383`,
    'vars currentEpoch 2 lastVoteEpoch 0',
    '',
  ].join('\n');

const REFUSALS: readonly Refusal[] = [
  {
    reply: 'READONLY',
    async begin({ admin }) {
      await admin.replicaof('127.0.0.1', 1);
      return () => admin.replicaof('NO', 'ONE');
    },
  },
  {
    // What a wait for work gets from a server that becomes a replica, here again and again.
    reply: 'UNBLOCKED',
    async begin({ admin }) {
      const timer = setInterval(async () => {
        const waiting = String(await admin.client('LIST')).matchAll(/^id=(\d+) .* flags=b /gm);
        for (const [, id] of waiting) await admin.client('UNBLOCK', Number(id), 'ERROR');
      }, 20);
      return async () => clearInterval(timer);
    },
  },
  { reply: 'OOM', begin: setting('maxmemory', '1', '0') },
  { reply: 'NOREPLICAS', begin: setting('min-replicas-to-write', '1', '0') },
  {
    // A server that copies or reads its data.
    reply: 'LOADING',
    async begin({ redis, admin }) {
      await admin.call('DEBUG', 'POPULATE', 100_000);
      await admin.config('SET', 'key-load-delay', '1000');
      const loader = new Redis(redis.port);
      const loading = loader.call('DEBUG', 'RELOAD');
      await expect.poll(() => admin.info('persistence')).toContain('\nloading:1');
      return async () => {
        await admin.config('SET', 'key-load-delay', '0');
        await loading;
        loader.disconnect();
      };
    },
  },
  {
    reply: 'MISCONF',
    async begin({ admin, folder }) {
      await rm(folder, { recursive: true });
      await admin.config('SET', 'save', '3600 1');
      await admin.bgsave().catch(() => undefined);
      await expect.poll(() => admin.info('persistence')).toContain('rdb_last_bgsave_status:err');
      return async () => {
        await admin.config('SET', 'stop-writes-on-bgsave-error', 'no');
        await mkdir(folder);
      };
    },
  },
  {
    reply: 'CLUSTERDOWN',
    async begin({ redis }) {
      await redis.replace(ALONE);
      return () => redis.replace();
    },
  },
  {
    reply: 'MOVED',
    async begin({ redis, folder }) {
      await writeFile(join(folder, 'without-slots.conf'), nodesWithoutSlots(redis.port));
      await redis.replace(WITHOUT_SLOTS);
      return () => redis.replace();
    },
  },
];

/** After a reconnect ioredis sends the script itself, not its hash. */
const SCRIPT = /\r\neval(sha)?\r\n/i;

/** It opens its connection again while the server is replaced. */
function openAdmin(url: string): Redis {
  const admin = new Redis(url);
  admin.on('error', () => undefined);
  return admin;
}

/** How often this Redis has refused anything, and was asked whether it is ready, which every new connection does. */
async function triesOf(admin: Redis): Promise<number> {
  const told = await admin.info('everything');
  const counts = [/total_error_replies:(\d+)/, /cmdstat_info:calls=(\d+)/];
  return counts.reduce((sum, pattern) => sum + Number(pattern.exec(told)?.[1] ?? 0), 0);
}

describe.skipIf(skip)('a Redis that answers but refuses', () => {
  const stack = new AsyncDisposableStack();
  let world: World;
  let service: TestService;
  let processes: readonly WorkerProcess[];
  let send: (text: string) => Promise<() => Promise<string>>;

  beforeAll(async () => {
    const folder = await mkdtemp(join(tmpdir(), 'baton-redis-'));
    stack.defer(() => rm(folder, { recursive: true, force: true }));
    const settings = ['--enable-debug-command', 'yes', '--loading-process-events-interval-bytes', '1024'];
    const redis = stack.use(await startOwnRedis(['--dir', folder, ...settings]));
    const REDIS_URL = `redis://127.0.0.1:${redis.port}`;
    world = { redis, folder, admin: stack.adopt(openAdmin(REDIS_URL), (admin) => admin.disconnect()) };
    service = stack.use(await startTestService({ backend: 'redis', environment: { REDIS_URL } }));
    service.simulator.script('test', () => ({ text: 'Done.' }));
    const key = await createTestKey(service.deps.db);
    const ofAll = { ...service.environment, BATON_MODEL: 'simulated/test', BATON_PORT: '0' };
    const environment = { ...ofAll, BATON_REQUESTS_PER_MINUTE: '100000' };
    const names = ['api', 'steps', 'compactions', 'prunes', 'deliveries'] as const;
    processes = await Promise.all(names.map(async (name) => stack.use(await startWorkerProcess(name, environment))));
    const client = createClient({ baseUrl: processes[0]?.url ?? '', apiKey: key.secret });
    const session = (await client.sessions.create({ agent: 'workspace' })).id;
    send = async (text) => {
      const { runId } = await client.send(session, text);
      return async () => (await client.runs.result(runId)).text;
    };
  });
  afterAll(() => stack.disposeAsync());

  it.each(REFUSALS)('$reply is tried with pauses, said rarely, and queued runs go on', async ({ reply, begin }) => {
    const { admin } = world;
    let queued: () => Promise<string>;
    expect(await (await send('Before.'))()).toBe('Done.');

    const end = await begin(world);
    try {
      const linesBefore = processes.map(({ logged }) => logged.length);
      const [triesBefore, sinceMs] = [await triesOf(admin), performance.now()];
      queued = await send('Meanwhile.');
      const tries = async (): Promise<number> => (await triesOf(admin)) - triesBefore;
      await expect.poll(tries, { interval: 500 }).toBeGreaterThan(40);
      await expect.poll(() => admin.info('errorstats'), { interval: 500 }).toContain(`errorstat_${reply}:`);
      const seconds = (performance.now() - sinceMs) / 1_000;
      // Each connection of the five processes may ask each second, and all at once.
      expect(await tries()).toBeLessThan(50 * (seconds + 2));
      const said = processes.map(({ logged }, index) => logged.slice(linesBefore[index]));
      for (const lines of said) expect(lines.length, JSON.stringify(lines, null, 1)).toBeLessThan(25);
    } finally {
      await end();
    }
    expect(await queued()).toBe('Done.');
  });
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
