import { randomBytes } from 'node:crypto';
import { Redis } from 'ioredis';
import { describe, expect, inject, it } from 'vitest';
import { createCatalogue } from '../../src/agents/load-agents.ts';
import { openDependencies } from '../../src/app/dependencies.ts';
import { loadConfig } from '../../src/platform/config.ts';
import type { LogEvent } from '../../src/platform/log.ts';
import { createJobQueues } from '../../src/queues/bullmq-queues.ts';
import { holdPrefix } from '../../src/queues/prefix-hold.ts';
import { readDatabaseIdentity } from '../../src/store/db/database-identity.ts';
import { createTestDatabase } from '../support/postgres.ts';

const redisUrl = inject('redisUrl') ?? '';

async function startRedis() {
  await using stack = new AsyncDisposableStack();
  const prefix = `baton-test-${randomBytes(6).toString('hex')}`;
  const redis = stack.adopt(new Redis(redisUrl), (it) => it.disconnect());
  stack.defer(async () => {
    const keys = await redis.keys(`${prefix}*`);
    if (keys.length > 0) await redis.del(...keys);
  });
  const jobs = stack.use(createJobQueues({ backend: 'redis', url: redisUrl, prefix, log: () => undefined }));
  const logged: LogEvent[] = [];
  const log = (_level: string, event: LogEvent): void => void logged.push(event);
  const hold = async (databaseId: string, workerId: string) => {
    const held = await holdPrefix(jobs, { prefix, databaseId, workerId, log });
    if (held === null) throw new Error('the queues are not in Redis');
    return held;
  };
  const owned = stack.move();
  return { prefix, redis, hold, logged, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

describe.skipIf(inject('redisUrl') === null)('a prefix in Redis', () => {
  it('is held by any number of processes of one database, and refused to another until the last has ended', async () => {
    await using fixture = await startRedis();
    const { prefix, hold } = fixture;
    const [first, second] = [await hold('a', 'one'), await hold('a', 'two')];
    const refused = {
      code: 'config_invalid',
      message: expect.stringContaining(`BATON_QUEUE_PREFIX (${prefix}): a process`),
    };
    await expect(hold('b', 'three')).rejects.toMatchObject(refused);
    await first[Symbol.asyncDispose]();
    await expect(hold('b', 'three')).rejects.toMatchObject({ message: expect.stringContaining('(two)') });
    await second[Symbol.asyncDispose]();
    await using third = await hold('b', 'three');
    expect(third).toBeDefined();
  });

  it('is free once the processes that died with it are believed no longer', async () => {
    await using fixture = await startRedis();
    await fixture.hold('a', 'killed');
    // The clock of Redis decides, so the test ages the entry.
    await fixture.redis.zadd(`${fixture.prefix}:installation`, 1, 'a killed');
    await using held = await fixture.hold('b', 'next');
    expect(held).toBeDefined();
  });

  it('is held again after Redis was emptied, and a process that finds another one then says so', async () => {
    await using fixture = await startRedis();
    const { redis, prefix, hold, logged } = fixture;
    await using held = await hold('a', 'one');
    await redis.del(`${prefix}:installation`);
    await held.again();
    await expect(hold('b', 'two')).rejects.toMatchObject({ code: 'config_invalid' });
    await redis.del(`${prefix}:installation`);
    await using other = await hold('b', 'two');
    await other.again();
    await held.again();
    expect(logged).toEqual([{ event: 'queue_prefix_shared', prefix, other: 'two' }]);
  });

  it('is refused to a process with another database when it starts', async () => {
    await using stack = new AsyncDisposableStack();
    const { prefix } = stack.use(await startRedis());
    const start = async () => {
      const { connectionString, db } = stack.use(await createTestDatabase());
      const environment = { DATABASE_URL: connectionString, REDIS_URL: redisUrl, BATON_QUEUE_PREFIX: prefix };
      const open = () =>
        openDependencies(loadConfig(environment), {
          migrate: false,
          log: () => undefined,
          agents: createCatalogue([]),
        });
      return { db, open };
    };
    const [one, other] = [await start(), await start()];
    expect(await readDatabaseIdentity(one.db)).toBe(await readDatabaseIdentity(one.db));
    {
      await using first = await one.open();
      await using again = await one.open();
      expect(first.workerId).not.toBe(again.workerId);
      await expect(other.open()).rejects.toThrow('give each database a prefix of its own');
    }
    await using next = await other.open();
    expect(next.jobs.backend).toBe('redis');
  });
});
