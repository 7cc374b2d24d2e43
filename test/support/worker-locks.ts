import { sql } from 'kysely';
import { PRESENCE_APPLICATION } from '../../src/recovery/worker-presence.ts';
import type { Db } from '../../src/store/db/database.ts';

/** The key of the lock that each registered worker has, by the worker's id. */
export async function readLockKeys(db: Db): Promise<ReadonlyMap<string, number>> {
  const rows = await db.selectFrom('workers').select(['id', 'lock_key']).execute();
  return new Map(rows.map((row) => [row.id, row.lock_key]));
}

/** Cuts the connection of a worker's lock at the server, or of all of them at once; nothing else of theirs. */
export async function cutLockConnections(db: Db, lockKey?: number): Promise<number> {
  const { rows } = await sql`
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and application_name = ${PRESENCE_APPLICATION}
      and (${lockKey ?? null}::integer is null or pid in (
        select pid from pg_locks where locktype = 'advisory' and objsubid = 2 and objid = ${lockKey ?? 0}
          and database = (select oid from pg_database where datname = current_database())))`.execute(db);
  return rows.length;
}
