import { sql } from 'kysely';
import type { Db } from './database.ts';

/** Resolves when Postgres takes a write for which it needs room on its disk. @throws what Postgres throws */
export async function probeWrite(db: Db): Promise<void> {
  await sql`select baton_probe_write()`.execute(db);
}
