import { sql } from 'kysely';
import { describe, expect, test } from 'vitest';
import { MAX_KEYS_PER_TENANT } from '../../src/domain/access.ts';
import { formatId } from '../../src/domain/ids.ts';
import { createTestKey } from '../support/keys.ts';
import { startTestApi, type TestApi } from './test-api.ts';

const bearer = (secret: unknown) => ({ authorization: `Bearer ${String(secret)}` });

/** Writes keys as if they had been made, all with the same rest. */
const addKeys = (api: TestApi, count: number, revokedAt: string | null) =>
  sql`insert into api_keys (id, name, shown, key_sha256, scopes, revoked_at)
    select gen_random_uuid(), 'many', 'baton_', sha256(random()::text::bytea), '{read}', ${revokedAt}::timestamptz
    from generate_series(1, ${count}::integer)`.execute(api.db);

describe('the keys of a tenant', () => {
  test('are made with scopes that the caller has, and their secret is in one answer alone', async () => {
    await using api = await startTestApi();
    const admin = await createTestKey(api.db, 'acme', ['read', 'admin']);
    const make = (body: object, headers: Record<string, string> = admin.headers) =>
      api.call('POST', '/v1/keys', body, headers);
    const once = { ...admin.headers, 'idempotency-key': 'once' };
    const { status, body } = await make({ name: 'ci', scopes: ['read', 'read'], expiresInSeconds: 60 }, once);
    expect({ status, ...body }).toEqual({
      status: 201,
      id: expect.stringMatching(/^key_/),
      key: expect.stringMatching(/^baton_/),
      expiresAt: expect.any(String),
    });
    const whoami = await api.call('GET', '/v1/whoami', undefined, bearer(body['key']));
    expect(whoami.body).toMatchObject({ keyId: body['id'], tenant: 'acme', scopes: ['read'] });
    const { rows } = await sql<{ text: string }>`
      select string_agg(t::text, ' ') as text from (
        select to_jsonb(a) as t from api_keys a union all select to_jsonb(i) from idempotency_keys i
        union all select to_jsonb(l) from audit_log l) as stored`.execute(api.db);
    expect(rows[0]?.text).toContain('key:create');
    expect(rows[0]?.text).not.toContain(String(body['key']));
    for (const [fields, code] of [
      [{ name: 'op', scopes: ['read', 'operator'] }, 403],
      [{ name: 'by default it writes' }, 403],
      [{ name: '' }, 400],
      [{ name: 'x', scopes: [] }, 400],
    ] as const) {
      expect({ fields, code: (await make(fields)).status }).toEqual({ fields, code });
    }
    const reader = await createTestKey(api.db, 'acme', ['read', 'write', 'operator']);
    expect((await make({ name: 'x' }, reader.headers)).status).toBe(403);
  });

  test('last no longer than the key that makes them', async () => {
    await using api = await startTestApi();
    const admin = await createTestKey(api.db, 'acme', ['admin']);
    const make = (headers: Record<string, string>, expiresInSeconds?: number) =>
      api.call('POST', '/v1/keys', { name: 'x', scopes: ['admin'], expiresInSeconds }, headers);
    const { body } = await make(admin.headers, 3_600);
    const brief = bearer(body['key']);
    expect((await make(brief, 600)).status).toBe(201);
    for (const longer of [undefined, 7_200]) {
      const refused = await make(brief, longer);
      expect([refused.status, refused.body['errors']]).toEqual([
        403,
        [{ path: 'expiresInSeconds', message: expect.stringContaining(String(body['expiresAt'])) }],
      ]);
    }
  });

  test('are revoked at once, but not by themselves, nor by another tenant', async () => {
    await using api = await startTestApi();
    const admin = await createTestKey(api.db, 'acme', ['read', 'admin']);
    const other = await createTestKey(api.db, 'acme');
    const stranger = await createTestKey(api.db, 'beta', ['admin']);
    const revoke = async (id: string, { headers }: typeof admin) =>
      (await api.call('POST', `/v1/keys/${formatId('key', id)}/revoke`, undefined, headers)).status;
    expect(await revoke(other.id, stranger)).toBe(404);
    expect(await revoke(other.id, other)).toBe(403);
    expect(await revoke(admin.id, admin)).toBe(409);
    expect((await api.call('GET', '/v1/sessions', undefined, other.headers)).status).toBe(200);
    expect(await revoke(other.id, admin)).toBe(204);
    expect((await api.call('GET', '/v1/sessions', undefined, other.headers)).status).toBe(401);
    expect(await revoke(other.id, admin)).toBe(409);
  });

  test('have a bound: so many are valid, and of the others as many are kept', async () => {
    await using api = await startTestApi();
    await addKeys(api, MAX_KEYS_PER_TENANT + 5, '2026-01-01T00:00:00Z');
    await addKeys(api, MAX_KEYS_PER_TENANT - 2, null);
    const { headers } = await createTestKey(api.db, 'default', ['admin']);
    const make = () => api.call('POST', '/v1/keys', { name: 'x', scopes: ['admin'] }, headers);
    expect((await make()).status).toBe(201);
    expect(await api.db.selectFrom('api_keys').select('id').execute()).toHaveLength(2 * MAX_KEYS_PER_TENANT);
    const { status, body } = await make();
    expect([status, body['detail']]).toEqual([409, expect.stringContaining('revoke one')]);
  });
});
