import { sql } from 'kysely';
import type { ConnectionRoom } from '../../domain/connection-budget.ts';
import type { Db } from './database.ts';

/** The connections that the server allows, and those in use now. The connection of this query does not count. */
export async function readConnectionRoom(db: Db): Promise<ConnectionRoom> {
  const { rows } = await sql<ConnectionRoom>`
    select current_setting('max_connections')::integer as "maxConnections",
      current_setting('superuser_reserved_connections')::integer
        + coalesce(current_setting('reserved_connections', true), '0')::integer as "reservedConnections",
      (select count(*) from pg_stat_activity
        where backend_type = 'client backend' and pid <> pg_backend_pid()) as "inUse"`.execute(db);
  return rows[0] ?? { maxConnections: 0, reservedConnections: 0, inUse: 0 };
}
