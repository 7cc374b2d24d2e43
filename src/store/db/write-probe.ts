import { sql } from 'kysely';
import type { Db } from './database.ts';

/** Resolves if Postgres accepts a write that needs disk space. @throws errors of Postgres */
export async function probeWrite(db: Db): Promise<void> {
  await sql`select baton_probe_write()`.execute(db);
}
