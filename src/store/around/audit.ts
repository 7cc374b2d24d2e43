import { sql } from 'kysely';
import { AUDITED_ACTIONS, type AuditedAction } from '../../domain/audit.ts';
import { toText } from '../../domain/storable-json.ts';
import type { Db, Tx } from '../db/database.ts';

export type NewAuditEntry = Readonly<{
  tenantId: string;
  /** Null: the action came from the command line, or before any key existed. */
  keyId: string | null;
  action: AuditedAction;
  /** A path of the API with ids alone. */
  target: string;
}>;

export type AuditEntry = NewAuditEntry & Readonly<{ seq: number; createdAt: Date }>;

const MAX_TARGET_CHARS = 500;

/** Adds an entry. No function changes an entry, and only retention removes one. */
export async function appendAudit(db: Db | Tx, entry: NewAuditEntry): Promise<void> {
  const { tenantId, keyId, action, target } = toStored(entry);
  await db.insertInto('audit_log').values({ tenant_id: tenantId, key_id: keyId, action, target }).execute();
}

/** The entry with a target that fits the column, for SQL functions that insert it themselves. */
export function toStored(entry: NewAuditEntry): NewAuditEntry {
  return { ...entry, target: toText(entry.target.slice(0, MAX_TARGET_CHARS)) };
}

/** The tenant's entries with a smaller number than `before`, newest first. */
export async function listAudit(
  db: Db,
  filter: Readonly<{ tenantId: string; limit: number; before?: number }>,
): Promise<AuditEntry[]> {
  const rows = await db
    .selectFrom('audit_log')
    .selectAll()
    .where('tenant_id', '=', filter.tenantId)
    .where('seq', '<', filter.before ?? Number.MAX_SAFE_INTEGER)
    .orderBy('seq', 'desc')
    .limit(filter.limit)
    .execute();
  return rows.flatMap((row) => {
    const action = AUDITED_ACTIONS.find((known) => known === row.action);
    if (action === undefined) return [];
    const { seq, tenant_id: tenantId, key_id: keyId, target, created_at: createdAt } = row;
    return [{ seq, tenantId, keyId, action, target, createdAt }];
  });
}

/** Removes those of the tenant's `limit` oldest entries that are from before this time. Returns how many. */
export async function trimAudit(db: Db, tenantId: string, before: Date, limit: number): Promise<number> {
  const { numAffectedRows } = await sql`
    with oldest as materialized (
      select seq, created_at from audit_log where tenant_id = ${tenantId} order by seq limit ${limit}
      for update skip locked)
    delete from audit_log where seq = any(array(select seq from oldest where created_at < ${before}))`.execute(db);
  return Number(numAffectedRows ?? 0);
}
