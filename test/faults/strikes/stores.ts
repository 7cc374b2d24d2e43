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
  {
    name: 'failed-groups',
    about: 'Postgres refuses one of the writes that share a transaction',
    isHarmless: true,
    async strike({ database, strikes }, _random, signal) {
      await database.query(REFUSE_IN_GROUPS);
      await pause(LONGER_THAN_A_ROW_MS, signal);
      const { rows } = await database.query<{ refused: number }>(
        'select last_value::int - 1 as refused from refused_writes',
      );
      strikes.add('refused writes', rows[0]?.refused ?? 0);
    },
  },
];

const LONGER_THAN_A_ROW_MS = 3_600_000;

/**
 * A group has a shorter lock timeout than a write by itself: the trigger recognises groups by it. A sequence keeps its
 * count when the transaction is rolled back.
 */
const REFUSE_IN_GROUPS = `
  create sequence refused_writes;
  select nextval('refused_writes');
  create function refuse_in_group() returns trigger language plpgsql as $$
  begin
    if current_setting('lock_timeout') = '50ms' and random() < 0.1 then
      perform nextval('refused_writes');
      raise exception 'refused on purpose';
    end if;
    return new;
  end $$;
  create trigger refuse_in_group before update on messages for each row execute function refuse_in_group();`;

/** Pause after a restart, so that the recovery is seen before the next restart. */
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
