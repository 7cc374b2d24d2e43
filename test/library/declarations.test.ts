import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { readDeclarationFiles } from '../../src/declarations/read-files.ts';
import {
  type BatonOptions,
  type DeclaredSchedule,
  type DeclaredWebhook,
  defineAgent,
} from '../../src/library/baton.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { type InProcess, startInProcess } from './support.ts';

const SECRET = 'x'.repeat(32);
const SHOP: DeclaredWebhook = { key: 'shop', url: 'https://shop.example/', secret: SECRET };
const DAILY: DeclaredSchedule = { key: 'daily', agent: 'clerk', cron: '0 9 * * *', content: 'Good morning' };

const start = (more: Partial<BatonOptions> = {}): Promise<InProcess> =>
  startInProcess((model) => ({ agents: [defineAgent({ name: 'clerk', model })], ...more }));

const auditOf = async ({ database: { db } }: InProcess) => {
  const rows = await db.selectFrom('audit_log').select('action').orderBy('seq').execute();
  return rows.map(({ action }) => action);
};

describe('what a program declares', () => {
  it('is made once, however many start, and a start with an equal list changes nothing', async () => {
    const declared = { webhooks: [SHOP], schedules: [DAILY] };
    await using started = await start();
    const batons = await Promise.all([started.again(declared), started.again(declared), started.again(declared)]);
    const read = async () => {
      const { client } = started.baton;
      return { ...(await client.webhooks.list()), ...(await client.schedules.list()) };
    };
    const made = await read();
    expect(made).toMatchObject({
      webhooks: [{ key: 'shop', declaredBy: 'program', enabled: true }],
      schedules: [{ key: 'daily', declaredBy: 'program', paused: false }],
    });
    for (const baton of batons) await baton.stop();
    await started.again(declared);
    expect(await read()).toEqual(made);
    expect((await auditOf(started)).toSorted()).toEqual(['schedule:create', 'webhook:create']);
  });

  it('is changed by another list, stops when it is gone from it, and goes on when it is back', async () => {
    await using started = await start({ webhooks: [SHOP], schedules: [DAILY] });
    const { webhooks, schedules } = started.baton.client;
    await started.again({ webhooks: [{ ...SHOP, url: 'https://other.example/' }], schedules: [] });
    expect(await webhooks.get('key:shop')).toMatchObject({ url: 'https://other.example/', enabled: true });
    expect(await schedules.get('key:daily')).toMatchObject({ pausedReason: 'no longer declared' });
    await started.again({ webhooks: [] });
    expect(await webhooks.get('key:shop')).toMatchObject({ enabled: false, disabledFor: 'undeclared' });
    await started.again({ webhooks: [SHOP], schedules: [DAILY] });
    expect(await webhooks.get('key:shop')).toMatchObject({ url: SHOP.url, enabled: true });
    expect(await schedules.get('key:daily')).toMatchObject({ paused: false });
  });

  it('leaves alone what is put by hand and what a program of another name declares', async () => {
    await using started = await start({ schedules: [DAILY] });
    const { schedules } = started.baton.client;
    await schedules.put('own', { agent: 'clerk', cron: '0 8 * * *', content: 'Hello' });
    await started.again({ schedules: [{ ...DAILY, key: 'nightly' }], declaredAs: 'reports' });
    const listed = (await schedules.list()).schedules.map(({ key, declaredBy, paused }) => [key, declaredBy, paused]);
    expect(listed.toSorted()).toEqual([
      ['daily', 'program', false],
      ['nightly', 'reports', false],
      ['own', null, false],
    ]);
  });

  it.each([
    [{ webhooks: [{ ...SHOP, url: 'nowhere' }] }, 'webhooks[0]: url: a URL with http:// or https://'],
    [{ webhooks: [SHOP, SHOP] }, 'webhooks[1]: key: webhooks[0] has the key shop, too'],
    [{ webhooks: [{ key: 'shop', url: SHOP.url }] }, 'webhooks[0]: secret: a new webhook needs a secret'],
    [{ webhooks: [{ ...SHOP, url: 'http://127.0.0.1/' }] }, 'webhooks[0]: url'],
    [{ schedules: [{ ...DAILY, cron: 'soon' }] }, 'schedules[0]: '],
    [{ schedules: [{ ...DAILY, agent: 'nobody' }] }, 'schedules[0]: there is no agent "nobody"'],
    [{ schedules: [], declaredAs: 'files' }, 'declaredAs: '],
  ])('is refused with its place where it is wrong: %j', async (options, message) => {
    await expect(start(options)).rejects.toMatchObject({
      code: 'config_invalid',
      message: expect.stringContaining(message),
    });
  });
});

describe('files beside the agents', () => {
  it('declare, with the secret in a variable', async () => {
    await using folder = await temporaryFolder();
    for (const name of ['agents', 'webhooks', 'schedules']) await mkdir(path.join(folder.path, name));
    const agents = path.join(folder.path, 'agents');
    await writeFile(
      path.join(folder.path, 'webhooks/shop.yaml'),
      'key: shop\nurl: https://shop.example/\nsecretEnv: SHOP\n',
    );
    await writeFile(
      path.join(folder.path, 'schedules/daily.yaml'),
      'key: daily\nagent: clerk\ncron: 0 9 * * *\ncontent: Go\n',
    );
    expect(readDeclarationFiles(agents, { SHOP: SECRET })).toMatchObject({
      declaredBy: 'files',
      webhooks: [{ fields: { key: 'shop', url: 'https://shop.example/', secret: SECRET } }],
      schedules: [{ fields: { key: 'daily', cron: '0 9 * * *', overlap: 'skip' } }],
    });
    expect(() => readDeclarationFiles(agents, {})).toThrow(/shop\.yaml: secretEnv: SHOP is not set/);
    await writeFile(
      path.join(folder.path, 'webhooks/shop.yaml'),
      `key: shop\nurl: https://shop.example/\nsecret: ${SECRET}\n`,
    );
    expect(() => readDeclarationFiles(agents, {})).toThrow(/shop\.yaml: expected .* in place of secret/);
  });
});
