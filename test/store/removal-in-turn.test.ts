import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { newId } from '../../src/platform/new-id.ts';
import { trimAudit } from '../../src/store/around/audit.ts';
import { forgetExpiredKeys } from '../../src/store/around/idempotency.ts';
import { deleteOrphanedBlobs, findTenantsWith } from '../../src/store/around/retention.ts';
import type { Db } from '../../src/store/db/database.ts';
import { insertSession } from '../../src/store/session/sessions.ts';
import { eventually } from '../support/eventually.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { type Access, openWatchedDatabase } from './plans-access.ts';

const MIB = 1_048_576;
const LOUD = 3_000;
const QUIET = 10;
/** The tenant has entries that stay behind those that go. */
const STAYING = 500;

const stack = new AsyncDisposableStack();
let watched: ReturnType<typeof openWatchedDatabase>;
let db: Db;
const before = new Date(Date.now() - 3_600_000);

/** One tenant has a mass of everything, another one a little. */
async function fill(): Promise<void> {
  const tenants = sql`(select case when n <= ${QUIET} then 'quiet' else 'loud' end as tenant, n
    from generate_series(1, ${LOUD + QUIET}) as n) as made`;
  await sql`
    insert into blobs (id, tenant_id, sha256, media_type, size_bytes, bytes, created_at)
      select gen_random_uuid(), tenant, sha256(n::text::bytea), 'text/plain', 1, 'x', 'yesterday' from ${tenants}`.execute(
    db,
  );
  await sql`
    insert into audit_log (tenant_id, action, target, created_at)
      select tenant, 'session:cancel', 'any', case when n > ${LOUD + QUIET - STAYING} then clock_timestamp()
        else 'yesterday' end from ${tenants}`.execute(db);
  await sql`
    insert into idempotency_keys (tenant_id, route, key, request_sha256, response_status, response_body, expires_at)
      select tenant, 'any', n::text, '', 200, '{}', case when n > ${LOUD + QUIET - STAYING} then 'tomorrow'
        else 'yesterday'::timestamptz end from ${tenants}`.execute(db);
  await sql`vacuum analyze`.execute(db);
}

const countOf = async (table: 'blobs' | 'audit_log' | 'idempotency_keys', tenantId: string): Promise<number> => {
  const { rows } = await sql<{ n: number }>`
    select count(*)::int as n from ${sql.table(table)} where tenant_id = ${tenantId}`.execute(db);
  return rows[0]?.n ?? 0;
};

/** Entries that were read of the indexes of a table. */
const entriesOf = ({ indexes }: Access, table: string): number =>
  Object.entries(indexes).reduce((sum, [index, entries]) => sum + (index.startsWith(table) ? entries : 0), 0);

/** The entries of removed rows go once no transaction may see them any more. */
const readsLittle = (table: 'audit_log' | 'idempotency_keys', look: () => Promise<unknown>, most: number) =>
  eventually(async () => {
    await sql`vacuum ${sql.table(table)}`.execute(db);
    const { access } = await watched.watch(look);
    expect(access.scannedTables).toEqual([]);
    return entriesOf(access, table) <= most;
  }, `a look with nothing to remove reads at most ${most} entries of ${table}`);

beforeAll(async () => {
  const database = stack.use(await createTestDatabase({ isNew: true }));
  watched = stack.use(openWatchedDatabase(database.connectionString));
  ({ db } = watched);
  await fill();
});
afterAll(() => stack.disposeAsync());

describe('what one tenant has keeps nothing of another one waiting', () => {
  it('of files: a page is of one tenant, and the next one goes on behind it', async () => {
    expect(await findTenantsWith(db, 'blobs')).toEqual(['loud', 'quiet']);
    const take = (tenantId: string, after: Uint8Array | null) =>
      watched.watch(() => deleteOrphanedBlobs(db, tenantId, { before, after, limit: 100 }));
    const first = await take('loud', null);
    expect(first.access.scannedTables).toEqual([]);
    expect(first.access.indexes['blobs_tenant_id_sha256_key']).toBeLessThanOrEqual(200);
    expect(await take('quiet', null)).toMatchObject({ result: { removed: QUIET } });
    expect([await countOf('blobs', 'loud'), await countOf('blobs', 'quiet')]).toEqual([LOUD - 100, 0]);
    let { removed, last } = first.result;
    while (last !== null) {
      const { result } = await take('loud', last);
      removed += result.removed;
      last = result.last;
    }
    expect([removed, await countOf('blobs', 'loud')]).toEqual([LOUD, 0]);
  });

  it('of audit entries, of which a look reads the oldest alone', async () => {
    expect(await findTenantsWith(db, 'auditEntries')).toEqual(['loud', 'quiet']);
    const first = await watched.watch(() => trimAudit(db, 'loud', before, 100));
    expect(first).toMatchObject({ result: 100, access: { scannedTables: [] } });
    expect(entriesOf(first.access, 'audit_log')).toBeLessThanOrEqual(300);
    expect(await trimAudit(db, 'quiet', before, 100)).toBe(QUIET);
    while ((await trimAudit(db, 'loud', before, 1_000)) > 0);
    expect([await countOf('audit_log', 'loud'), await countOf('audit_log', 'quiet')]).toEqual([STAYING, 0]);
    await readsLittle('audit_log', () => trimAudit(db, 'loud', before, 100), 200);
  });

  it('of expired keys of requests', async () => {
    const { access, result } = await watched.watch(() => forgetExpiredKeys(db, { after: '', perTenant: 100 }));
    expect(result).toEqual({ removed: 100 + QUIET, last: null });
    expect(access.scannedTables).toEqual([]);
    expect(entriesOf(access, 'idempotency_keys')).toBeLessThanOrEqual(500);
    expect(await countOf('idempotency_keys', 'quiet')).toBe(0);
    expect(await forgetExpiredKeys(db, { after: 'loud', perTenant: 100 })).toMatchObject({ removed: 0 });
    while ((await forgetExpiredKeys(db, { after: '', perTenant: 1_000 })).removed > 0);
    expect(await countOf('idempotency_keys', 'loud')).toBe(STAYING);
    await readsLittle('idempotency_keys', () => forgetExpiredKeys(db, { after: '', perTenant: 1_000 }), 10);
  });

  it('of expired keys of more tenants than a look reaches', async () => {
    await sql`
      insert into idempotency_keys (tenant_id, route, key, request_sha256, response_status, response_body, expires_at)
        select 'tenant-' || lpad(n::text, 3, '0'), 'any', 'any', '', 200, '{}', 'yesterday'
        from generate_series(1, 150) as n`.execute(db);
    const first = await forgetExpiredKeys(db, { after: 'quiet', perTenant: 5 });
    expect(first).toEqual({ removed: 100, last: 'tenant-100' });
    expect(await forgetExpiredKeys(db, { after: 'tenant-100', perTenant: 5 })).toEqual({ removed: 50, last: null });
  });
});

describe('a page of files', () => {
  const put = async (sizeBytes: number, createdAt: Date): Promise<string> => {
    const id = newId();
    await sql`
      insert into blobs (id, tenant_id, sha256, media_type, size_bytes, bytes, created_at)
        values (${id}, 'large', sha256(${id}::text::bytea), 'text/plain', ${sizeBytes}, 'x', ${createdAt})`.execute(db);
    return id;
  };

  it('ends where so many bytes are deleted, and leaves what is young or in use', async () => {
    const old = new Date(0);
    for (let n = 0; n < 10; n++) await put(20 * MIB, old);
    const [used, young] = [await put(1, old), await put(1, new Date())];
    const agent = { agentName: 'a', agentVersion: '1', agentSnapshot: {} };
    const session = { id: newId(), tenantId: 'large', ...agent, title: null, metadata: {} };
    const { id } = await insertSession(db, session);
    await db.insertInto('blob_refs').values({ blob_id: used, session_id: id, tenant_id: 'large' }).execute();
    const removed: number[] = [];
    let after: Uint8Array | null = null;
    do {
      const page = await deleteOrphanedBlobs(db, 'large', { before, after, limit: 100 });
      removed.push(page.removed);
      after = page.last;
    } while (after !== null);
    // 64 MiB are reached by the fourth.
    expect(removed).toEqual([4, 4, 2, 0]);
    const kept = await db.selectFrom('blobs').select('id').where('tenant_id', '=', 'large').execute();
    expect(kept.map((row) => row.id).toSorted()).toEqual([used, young].toSorted());
  });
});
