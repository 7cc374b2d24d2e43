import { randomBytes } from 'node:crypto';
import { Redis } from 'ioredis';
import { inject } from 'vitest';
import type { LiveBus } from '../../src/events/live-bus.ts';
import { createPostgresBus } from '../../src/events/postgres-bus.ts';
import { createRedisBus } from '../../src/events/redis-bus.ts';
import { availableBackends, type Backend } from '../support/backends.ts';
import { runAsAdmin, type TestDatabase } from '../support/postgres.ts';

export type BusFixture = Readonly<{
  name: string;
  /** Another end of the same bus: a process of its own in production. */
  open: (onError?: (error: unknown) => void) => Promise<LiveBus>;
  /** Cuts every connection of the bus at the server. */
  cutConnections: () => Promise<void>;
}>;

export type BusBackend = Readonly<{ name: string; create: (database: TestDatabase) => BusFixture }>;

const CREATE: Readonly<Record<Backend, BusBackend['create']>> = {
  postgres: postgresFixture,
  redis: () => redisFixture(inject('redisUrl') ?? ''),
};

export const busBackends: readonly BusBackend[] = availableBackends().map((name) => ({ name, create: CREATE[name] }));

function postgresFixture({ connectionString }: TestDatabase): BusFixture {
  return {
    name: 'postgres',
    open: (onError) => createPostgresBus({ connectionString, ...(onError === undefined ? {} : { onError }) }),
    cutConnections: () =>
      runAsAdmin(
        connectionString,
        `select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and application_name like 'baton-live-%'`,
      ),
  };
}

function redisFixture(url: string): BusFixture {
  const prefix = `baton-test-${randomBytes(6).toString('hex')}`;
  return {
    name: 'redis',
    open: (onError) => createRedisBus({ url, prefix, ...(onError === undefined ? {} : { onError }) }),
    cutConnections: () => cutRedisConnections(url, prefix),
  };
}

/** Only those of this test: other suites use the same server. */
async function cutRedisConnections(url: string, prefix: string): Promise<void> {
  const admin = new Redis(url);
  const clients = String(await admin.client('LIST'));
  for (const line of clients.split('\n')) {
    const id = /\bid=(\d+)/.exec(line)?.[1];
    if (id !== undefined && line.includes(`name=${prefix}`)) await admin.client('KILL', 'ID', id);
  }
  admin.disconnect();
}
