import { expect, it } from 'vitest';
import { defineAgent } from '../../src/library/baton.ts';
import { startInProcess } from './support.ts';

it('a program makes keys, lists them and revokes them, each in the audit log of its tenant', async () => {
  await using started = await startInProcess((model) => ({ agents: [defineAgent({ name: 'clerk', model })] }));
  const { baton } = started;
  const { keys } = baton;
  const ann = await keys.create({ name: 'ann', tenantId: 'shop' });
  const { id } = await keys.create({ name: 'ops', scopes: ['operator'], expiresAt: new Date(0) });
  const ask = async (key: string) => {
    const request = new Request('http://localhost/v1/whoami', { headers: { authorization: `Bearer ${key}` } });
    const response = await baton.fetch(request);
    return [response.status, await response.json()];
  };
  expect(await ask(ann.key)).toMatchObject([200, { tenant: 'shop', keyId: ann.id, scopes: ['read', 'write'] }]);
  expect(await keys.list()).toMatchObject([{ id, name: 'ops', scopes: ['operator'], expiresAt: new Date(0) }]);
  await keys.revoke(ann.id);
  expect(await ask(ann.key)).toMatchObject([401, { detail: 'The API key was revoked: send another one' }]);
  expect(await keys.list({ tenantId: 'shop' })).toMatchObject([{ id: ann.id, revokedAt: expect.any(Date) }]);
  const { entries } = await baton.clientOf('shop').audit();
  expect(entries.map(({ action }) => action)).toEqual(['key:revoke', 'key:create']);
  await expect(keys.revoke(ann.id)).rejects.toMatchObject({ code: 'conflict' });
  await expect(keys.revoke('ann')).rejects.toMatchObject({ code: 'invalid_request' });
});

it('a key that cannot be made is refused by the name of its field', async () => {
  await using started = await startInProcess((model) => ({ agents: [defineAgent({ name: 'clerk', model })] }));
  for (const [options, words] of [
    [{ name: '' }, 'name: '],
    [{ name: 'a', scopes: ['root'] }, 'scopes.0: '],
    [{ name: 'a', scopes: [] }, 'scopes: '],
    [{ name: 'a', tenantId: 'a b' }, 'tenantId: '],
    [{ name: 'a', tenant: 'b' }, 'unknown key "tenant"'],
  ] as const) {
    await expect(started.baton.keys.create(options as never)).rejects.toMatchObject({
      code: 'invalid_request',
      message: expect.stringContaining(words),
    });
  }
});
