import { describe, expect, it } from 'vitest';
import { createApp } from '../../src/app/app.ts';
import { startHttpServer } from '../../src/http/server.ts';
import { listApiKeys } from '../../src/store/around/api-keys.ts';
import { listAudit } from '../../src/store/around/audit.ts';
import { runNode } from '../deploy/process.ts';
import { testDeps } from '../http/test-api.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { runHere } from './support/run-here.ts';

const keys = (databaseUrl: string, ...args: string[]) =>
  runNode(['src/cli/baton.ts', 'keys', ...args], { cwd: process.cwd(), environment: { DATABASE_URL: databaseUrl } })
    .ended;

describe('npm run keys', () => {
  it('creates a key that works, shows its secret once, lists it and revokes it', async () => {
    await using api = await testDeps();
    const created = await keys(api.connectionString, 'create', '--name', 'ci', '--tenant', 'acme', '--scopes', 'read');
    expect(created.code).toBe(0);
    const [secret] = /baton_[\w-]{43}/.exec(created.output) ?? [];
    const [id] = /key_[0-9a-f]{32}/.exec(created.output) ?? [];
    await using server = await startHttpServer(createApp(api.deps), { host: '127.0.0.1', port: 0 });
    const ask = async () =>
      (await fetch(`${server.url}/v1/sessions`, { headers: { authorization: `Bearer ${secret}` } })).status;
    expect(await ask()).toBe(200);
    const listed = await keys(api.connectionString, 'list');
    expect(listed.output).toMatch(new RegExp(`^${id}  ${secret?.slice(0, 10)}…  acme  read  used .*Z  ci\n$`));
    expect(listed.output).not.toContain(secret);
    expect(await keys(api.connectionString, 'revoke', id ?? '')).toMatchObject({ code: 0 });
    expect(await ask()).toBe(401);
    expect((await keys(api.connectionString, 'list')).output).toContain('revoked');
    expect(await listAudit(api.db, { tenantId: 'acme', limit: 10 })).toMatchObject([
      { action: 'key:revoke', target: `/v1/keys/${id}`, keyId: null },
      { action: 'key:create', target: `/v1/keys/${id}`, keyId: null },
    ]);
  });

  it('creates a key that expires, and lists when', async () => {
    await using database = await createTestDatabase();
    const { connectionString, db } = database;
    const before = Date.now();
    const created = await keys(connectionString, 'create', '--name', 'ci', '--expires', '30d');
    const [until] = /\d{4}-\d\d-\d\dT\d\d:\d\dZ/.exec(created.output) ?? [];
    const [key] = await listApiKeys(db);
    expect(key?.expiresAt?.getTime()).toBeGreaterThanOrEqual(before + 30 * 86_400_000);
    expect(key?.expiresAt?.toISOString()).toContain(until?.slice(0, -1));
    expect((await keys(connectionString, 'list')).output).toContain(`never used, expires ${until}`);
    await db.updateTable('api_keys').set({ expires_at: new Date() }).execute();
    expect((await keys(connectionString, 'list')).output).toContain('  expired ');
  });

  it.each([
    [['create'], /name/],
    [['create', '--name', 'x', '--expires', 'soon'], /expires/],
    [['create', '--name', 'x', '--expires', '0d'], /expires/],
    [['create', '--name', 'x', '--scopes', 'read,everything'], /scopes/],
    [['create', '--name', 'x', '--tenant', 'a b'], /tenant/],
    [['list', '--name', 'x'], /name/],
    [['revoke', 'ses_1'], /ses_1 is not the id of a key/],
    [['revoke', `key_${'0'.repeat(32)}`], /does not exist/],
    [['destroy'], /command/],
    [['create', 'a', 'b'], /unknown argument b/],
    [['list', '--all'], /--all/],
  ])('refuses %j, says why and changes nothing', async (args, reason) => {
    await using database = await createTestDatabase();
    const environment = { DATABASE_URL: database.connectionString };
    const { code, output } = await runHere(['keys', ...args], environment);
    expect(output).toMatch(reason);
    // Only the database can tell that the key does not exist.
    const isKnownByDatabase = output.includes('does not exist');
    expect(code).toBe(isKnownByDatabase ? 1 : 2);
    if (!isKnownByDatabase) expect(output).toContain('keys create');
    expect(await listApiKeys(database.db)).toEqual([]);
  });

  it('says once what is wrong with the database, by the setting that names it', async () => {
    expect(await keys('postgres://u@127.0.0.1:1/x', 'list')).toMatchObject({
      code: 1,
      output:
        'baton keys: DATABASE_URL: Postgres at 127.0.0.1:1 cannot be reached (connect ECONNREFUSED 127.0.0.1:1)\n',
    });
  });
});
