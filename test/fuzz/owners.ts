import { sql } from 'kysely';
import type { Db } from '../../src/store/db/database.ts';

const ID = /\b(ses|run|msg|call|blob|key|whk|dlv|sch)_([0-9a-f]{32})(?:_\d+)?/g;

/** Finds all parts of a text that look like an id. `digits`: the 32 digits that the rows have as the id. */
export const idsIn = (text: string): readonly Readonly<{ id: string; prefix: string; digits: string }>[] =>
  [...text.matchAll(ID)].map(([id, prefix = '', digits = '']) => ({ id, prefix, digits }));

const TABLES = [
  'sessions',
  'runs',
  'messages',
  'inbox',
  'blobs',
  'api_keys',
  'webhooks',
  'webhook_deliveries',
  'schedules',
];

/**
 * Those of the ids that name things of another tenant, and none of its own: two tenants may have messages of the same id.
 * A call is found by its message.
 */
export async function foreignIds(db: Db, tenant: string, ids: ReturnType<typeof idsIn>): Promise<readonly string[]> {
  if (ids.length === 0) return [];
  const digits = [...new Set(ids.map((id) => id.digits))];
  const found = TABLES.map(
    (table) =>
      sql`select id, tenant_id <> ${tenant} as "isForeign" from ${sql.table(table)} where id = any(${digits}::uuid[])`,
  );
  const { rows } = await sql<{ id: string }>`
    select id from (${sql.join(found, sql` union all `)}) as owned group by id having bool_and("isForeign")`.execute(
    db,
  );
  const foreign = new Set(rows.map(({ id }) => id.replaceAll('-', '')));
  return [...new Set(ids.flatMap((each) => (foreign.has(each.digits) ? [each.id] : [])))];
}
