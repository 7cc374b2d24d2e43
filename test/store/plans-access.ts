import { sql } from 'kysely';
import { type Db, openDatabase } from '../../src/store/db/database.ts';

/** The real access of statements: the tables that were read from end to end, and the entries read of each index. */
export type Access = Readonly<{ scannedTables: readonly string[]; indexes: Readonly<Record<string, number>> }>;

type Watched<T> = Readonly<{ result: T; access: Access }>;

/**
 * Runs real functions of the store on one connection and tells from the server's own counters what they touched. Unlike
 * EXPLAIN it sees the statements inside of functions and the checks of foreign keys, as they were really executed.
 */
export function openWatchedDatabase(connectionString: string) {
  const db = openDatabase({ connectionString: countedAtOnce(connectionString), maxConnections: 1 });
  return {
    db,
    /** `force_generic_plan`: the plan that a function may get after five calls on a connection. */
    async planWith(mode: 'auto' | 'force_custom_plan' | 'force_generic_plan'): Promise<void> {
      await sql`select set_config('plan_cache_mode', ${mode}, false)`.execute(db);
      await sql`discard plans`.execute(db);
    },
    watch: <T>(work: (db: Db) => Promise<T>) => watchAccess(db, work),
    [Symbol.asyncDispose]: () => db.destroy(),
  };
}

/** Without parallel workers, because their counters arrive late. */
export function countedAtOnce(connectionString: string): string {
  const url = new URL(connectionString);
  url.searchParams.set('options', '-c max_parallel_workers_per_gather=0');
  return url.href;
}

/** @param db with one connection */
export async function watchAccess<T>(db: Db, work: (db: Db) => Promise<T>): Promise<Watched<T>> {
  const before = await readCounters(db);
  const result = await work(db);
  return { result, access: compare(before, await readCounters(db)) };
}

type Counter = Readonly<{ name: string; isTable: boolean; scans: number; entries: number }>;

async function readCounters(db: Db): Promise<ReadonlyMap<string, Counter>> {
  // This connection's own counts are sent only now and then.
  await sql`select pg_stat_force_next_flush()`.execute(db);
  const { rows } = await sql<Counter>`
    select relname as name, true as "isTable", seq_scan as scans, seq_tup_read as entries from pg_stat_user_tables
    union all
    select indexrelname, false, idx_scan, idx_tup_read from pg_stat_user_indexes`.execute(db);
  return new Map(rows.map((row) => [row.name, row]));
}

function compare(before: ReadonlyMap<string, Counter>, after: ReadonlyMap<string, Counter>): Access {
  const used = [...after.values()].filter(({ name, scans }) => scans > (before.get(name)?.scans ?? 0));
  const entriesOf = ({ name, entries }: Counter): number => entries - (before.get(name)?.entries ?? 0);
  return {
    scannedTables: used.flatMap((counter) => (counter.isTable ? [counter.name] : [])).sort(),
    indexes: Object.fromEntries(
      used.flatMap((counter) => (counter.isTable ? [] : [[counter.name, entriesOf(counter)] as const])),
    ),
  };
}
