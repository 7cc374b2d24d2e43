import type { Fault } from '../fault.ts';
import type { World } from '../world/world.ts';
import { pause, repeatedly } from './repeatedly.ts';

const OWN_LOCK = 'baton-worker-presence';

export const STORES: readonly Fault[] = [
  {
    name: 'redis-flush',
    about: 'FLUSHALL',
    backends: ['redis'],
    strike: (world, random, signal) =>
      repeatedly({ random, signal, pauseMs: [300, 1_500] }, async () => {
        if (((await world.redis?.flush()) ?? 0) > 0) world.strikes.add('flushes');
      }),
  },
  {
    name: 'redis-restart',
    about: 'Redis is killed and comes back empty',
    backends: ['redis'],
    strike: (world, random, signal) =>
      repeatedly({ random, signal, pauseMs: [1_000, 2_500] }, async () => {
        await world.redis?.crashAndRestart(random.between(0, 1_000));
        world.strikes.add('crashes of Redis');
      }),
  },
  {
    name: 'postgres-cut',
    about: 'some of all connections to Postgres are terminated',
    killsNobody: true,
    strike: (world, random, signal) =>
      repeatedly({ random, signal, pauseMs: [200, 800] }, () => terminate(world, `random() < ${random.next() / 2}`)),
  },
  {
    name: 'lock-cut',
    about: "only the connections of the workers' locks are terminated: nobody is dead",
    isHarmless: true,
    strike: (world, random, signal) =>
      repeatedly({ random, signal, pauseMs: [100, 1_500] }, () => terminate(world, `application_name = '${OWN_LOCK}'`)),
  },
  {
    name: 'postgres-restart',
    about: 'Postgres is killed with many workers at work and started again',
    workers: 6,
    killsNobody: true,
    strike: (world, random, signal) =>
      repeatedly({ random, signal, pauseMs: [1_500, 3_000] }, async () => {
        await world.postgres.crashAndRestart();
        world.strikes.add('crashes of Postgres');
        world.postgresTap.retarget(world.postgres.port());
        await pause(SETTLED_MS, signal);
      }),
  },
];

/** Recovery after one restart is seen before the next. */
const SETTLED_MS = 3_000;

async function terminate({ database, strikes }: World, condition: string): Promise<void> {
  const { rowCount } = await database
    .query(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where datname = current_database() and pid <> pg_backend_pid() and ${condition}`,
    )
    .catch(() => ({ rowCount: 0 }));
  if (rowCount !== null && rowCount > 0) strikes.add('terminated connections', rowCount);
}
