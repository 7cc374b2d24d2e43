import { sql } from 'kysely';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { findDueSchedules } from '../../src/store/around/schedules.ts';
import { dispatchDeliveries } from '../../src/store/around/webhook-deliveries.ts';
import { takeDueChildren } from '../../src/store/session/children.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { type Access, openWatchedDatabase } from './plans-access.ts';

/** Due work of one tenant, of each kind. Another tenant has one piece of each. */
const ROWS = 100_000;

const PARENT = '00000000-0000-0000-0000-000000000001';

const stack = new AsyncDisposableStack();
let watched: ReturnType<typeof openWatchedDatabase>;

beforeAll(async () => {
  const { db, connectionString } = stack.use(await createTestDatabase({ isNew: true }));
  await sql`
    insert into webhook_deliveries (id, tenant_id, url, secret, endpoint, type, body)
    select gen_random_uuid(), tenant, 'https://' || n || '.example', 's',
      tenant || ' https://' || case when n % 2 = 0 then 'busy' else n::text end, 'run:completed', '{}'
    from (select n, case when n = 1 then 'small' else 'large' end as tenant from generate_series(1, ${ROWS}::integer) n) as made`.execute(
    db,
  );
  await sql`
    insert into schedules (id, tenant_id, agent_name, cron, timezone, content, session_kind, overlap, catchup, jitter_ms,
      next_fire_at, due_at)
    select gen_random_uuid(), tenant, 'a', '* * * * *', 'UTC', 'Go', 'new', 'skip', 'none', 0, at, at
    from (select case when n = 1 then 'small' else 'large' end as tenant, clock_timestamp() as at
      from generate_series(1, ${ROWS}::integer) n) as made`.execute(db);
  await sql`
    insert into sessions (id, agent_name, agent_version, agent_snapshot, metadata)
    values (${PARENT}, 'a', '1', '{}', '{}')`.execute(db);
  await sql`
    insert into children (message_id, idx, tenant_id, parent_session_id, parent_run_id, tool_name, agent_name, mode, limits,
      max_parallel, session_id, run_id, state, due_at)
    select gen_random_uuid(), 0, case when n = 1 then 'small' else 'large' end, ${PARENT}, gen_random_uuid(), 'a', 'a', 'wait',
      '{}', 4, gen_random_uuid(), gen_random_uuid(), 'asked', clock_timestamp() from generate_series(1, ${ROWS}::integer) n`.execute(
    db,
  );
  await sql`vacuum analyze`.execute(db);
  watched = stack.use(openWatchedDatabase(connectionString));
}, 180_000);
afterAll(() => stack.disposeAsync());

const entriesOf = ({ indexes }: Access): number => Object.values(indexes).reduce((sum, count) => sum + count, 0);

it.each(['auto', 'force_generic_plan'] as const)(
  'a look for due deliveries reads some of each tenant: %s',
  async (mode) => {
    await watched.planWith(mode);
    await sql`update webhook_deliveries set state = 'waiting', due_at = created_at where state = 'sending'`.execute(
      watched.db,
    );
    const { access, result } = await watched.watch((db) => dispatchDeliveries(db, 100));
    expect(access.scannedTables.filter((table) => table === 'webhook_deliveries')).toEqual([]);
    expect(entriesOf(access), JSON.stringify(access.indexes)).toBeLessThan(5_000);
    const { rows } = await sql<{ tenant: string; count: number }>`
    select tenant_id as tenant, count(*) from webhook_deliveries
    where id = any(${result.map(({ deliveryId }) => deliveryId)}::uuid[]) group by tenant_id order by 1`.execute(
      watched.db,
    );
    expect(rows).toEqual([
      { tenant: 'large', count: 25 },
      { tenant: 'small', count: 1 },
    ]);
  },
);

it.each(['auto', 'force_generic_plan'] as const)(
  'a look for due schedules reads some of each tenant: %s',
  async (mode) => {
    await watched.planWith(mode);
    const due = { limit: 100, perTenant: 32, inHand: [] };
    const { access, result } = await watched.watch((db) => findDueSchedules(db, due));
    expect(access.scannedTables).toEqual([]);
    expect(entriesOf(access), JSON.stringify(access.indexes)).toBeLessThan(200);
    expect(result.map(({ tenant_id: of }) => of).toSorted()).toEqual([...Array(32).fill('large'), 'small']);
  },
);

it.each(['auto', 'force_generic_plan'] as const)(
  'a look for due children reads some of each tenant: %s',
  async (mode) => {
    await watched.planWith(mode);
    await sql`update children set due_at = created_at where due_at > created_at`.execute(watched.db);
    const { access, result } = await watched.watch((db) =>
      takeDueChildren(db, { limit: 100, perTenant: 32, full: [] }),
    );
    expect(access.scannedTables).toEqual([]);
    expect(entriesOf(access), JSON.stringify(access.indexes)).toBeLessThan(500);
    expect(result.map(({ tenantId }) => tenantId).toSorted()).toEqual([...Array(32).fill('large'), 'small']);
  },
);
