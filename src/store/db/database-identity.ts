import { createHash } from 'node:crypto';
import { sql } from 'kysely';
import type { Db } from './database.ts';

/** https://www.postgresql.org/docs/current/errcodes-appendix.html */
const NOT_ALLOWED = new Set(['42501', '42883']);

/**
 * Names the database and the schema in it: the same after a restart or a failover, another one for a copy that a dump
 * was restored into. A physical copy of a whole server cannot be told from it. Where a host hides the identity of the
 * server, only the database's number in it counts.
 */
export async function readDatabaseIdentity(db: Db): Promise<string> {
  const server = await sql<{ id: string }>`select system_identifier::text as id from pg_control_system()`
    .execute(db)
    .catch((error: unknown) => {
      if (NOT_ALLOWED.has(String(Object(error).code))) return { rows: [] };
      throw error;
    });
  const { rows } = await sql<{ oid: string; schema: string }>`
    select oid::text, current_schema()::text as schema from pg_database where datname = current_database()`.execute(db);
  const place = [server.rows[0]?.id, rows[0]?.oid, rows[0]?.schema];
  return createHash('sha256').update(JSON.stringify(place)).digest('hex').slice(0, 32);
}
