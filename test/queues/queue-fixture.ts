import { randomBytes } from 'node:crypto';
import { type BackendFactory, createPostgresBackend, type IQueueBackend, Queue } from 'bullmq';
import { Redis } from 'ioredis';
import { sql } from 'kysely';
import { inject } from 'vitest';
import { QUEUE_NAMES } from '../../src/domain/run/job.ts';
import type { LogEvent } from '../../src/platform/log.ts';
import { createJobQueues } from '../../src/queues/bullmq-queues.ts';
import type { QueueOptions } from '../../src/queues/bullmq-transport.ts';
import type { JobQueues } from '../../src/queues/job-queue.ts';
import { QUEUE_SCHEMA } from '../../src/queues/migrate.ts';
import type { Backend } from '../support/backends.ts';
import { createTestDatabase, runAsAdmin } from '../support/postgres.ts';

export type QueueFixture = AsyncDisposable &
  Readonly<{
    /** Where the server is. */
    url: string;
    /** Opens the same queues once more, as another process does in production: @param via changes the URL */
    open: (via?: (url: string) => string) => JobQueues;
    logged: readonly LogEvent[];
    /** Adds a job to the steps' queue directly, without the port. */
    addRaw: (jobId: string, data: unknown) => Promise<void>;
    /** Cuts every connection of the queues at the server. */
    cutConnections: () => Promise<void>;
    /** Everything that the backend still holds of jobs, as text: keys in Redis, rows in Postgres. */
    remains: () => Promise<string[]>;
  }>;

/** Queues of the test's own on a backend. At the end all opened ones are closed, and nothing is left on the server. */
export function createQueueFixture(backend: Backend): Promise<QueueFixture> {
  return backend === 'redis' ? redisFixture(inject('redisUrl') ?? '') : postgresFixture();
}

async function redisFixture(redisUrl: string): Promise<QueueFixture> {
  await using stack = new AsyncDisposableStack();
  const prefix = `baton-test-${randomBytes(6).toString('hex')}`;
  const admin = stack.adopt(new Redis(redisUrl), (redis) => redis.disconnect());
  stack.defer(async () => {
    const keys = await admin.keys(`${prefix}*`);
    if (keys.length > 0) await admin.del(...keys);
  });
  // The name tells the connections of this test from those of others on the same server.
  const url = `${redisUrl}?connectionName=${prefix}`;
  const raw = stack.adopt(new Queue(QUEUE_NAMES.step, { connection: { url: redisUrl }, prefix }), (it) => it.close());
  return finish(stack, raw, url, (via, log) => ({ backend: 'redis', url: via, prefix, log }), {
    async cutConnections() {
      for (const line of String(await admin.client('LIST')).split('\n')) {
        const id = /\bid=(\d+)/.exec(line)?.[1];
        if (id !== undefined && line.includes(`name=${prefix}`)) await admin.client('KILL', 'ID', id);
      }
    },
    remains: () => admin.keys(`${prefix}*`),
  });
}

async function postgresFixture(): Promise<QueueFixture> {
  await using stack = new AsyncDisposableStack();
  const { db, connectionString } = stack.use(await createTestDatabase());
  // BullMQ finds its tables by the same kind of option, which it sets itself, and does not know of other options.
  const plain = new URL(connectionString);
  plain.search = '';
  const raw = stack.adopt(
    new Queue(
      QUEUE_NAMES.step,
      { connection: { connectionString: plain.href, schema: QUEUE_SCHEMA } as never },
      createPostgresBackend as BackendFactory<IQueueBackend, never>,
    ),
    (it) => it.close(),
  );
  raw.on('error', () => undefined);
  return finish(stack, raw, connectionString, (via, log) => ({ backend: 'postgres', connectionString: via, log }), {
    cutConnections: () =>
      runAsAdmin(
        connectionString,
        `select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and pid <> pg_backend_pid()`,
      ),
    async remains() {
      const { rows } = await sql<{ job: string }>`select j::text as job from bullmq.job j`.execute(db);
      return rows.map((row) => row.job);
    },
  });
}

function finish(
  stack: AsyncDisposableStack,
  raw: Pick<Queue, 'add'>,
  url: string,
  optionsWith: (url: string, log: QueueOptions['log']) => QueueOptions,
  server: Pick<QueueFixture, 'cutConnections' | 'remains'>,
): QueueFixture {
  const logged: LogEvent[] = [];
  const opened = stack.use(new AsyncDisposableStack());
  const owned = stack.move();
  return {
    ...server,
    url,
    logged,
    open: (via = (same) => same) =>
      opened.use(createJobQueues(optionsWith(via(url), (_level, event) => void logged.push(event)))),
    addRaw: async (jobId, data) => void (await raw.add('step', data, { jobId, attempts: 1, removeOnFail: true })),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
