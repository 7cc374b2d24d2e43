import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { loadIncomingHooks } from '../../src/agents/incoming-hooks.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const HOOK = { agent: 'coder', verify: 'github', secretEnv: 'HOOK_SECRET', session: '{body.id}', content: '{body}' };

test.each([
  ['an unknown kind', { verify: 'pgp' }, /issues\.verify/],
  ['hmac without a header', { verify: 'hmac' }, /issues\.signatureHeader: goes with verify: hmac, which needs it/],
  ['a header without hmac', { signatureHeader: 'x-sig' }, /issues\.signatureHeader/],
  ['an id header without hmac', { idHeader: 'x-id' }, /issues\.idHeader/],
  ['no session', { session: '' }, /issues\.session/],
  ['an unknown delivery', { delivery: 'later' }, /issues\.delivery/],
  ['an unknown field', { sesion: 'x' }, /sesion/],
  ['a secret that is not set', { secretEnv: 'NONE' }, /issues\.secretEnv: NONE is not set/],
  ['a secret that is too short', { secretEnv: 'SHORT' }, /issues\.secretEnv: SHORT is too short/],
  ['a short secret of Standard Webhooks', { verify: 'standard' }, /issues\.secretEnv: HOOK_SECRET is too short/],
])('a file of hooks with %s is refused, and the field is named', async (_, changes, names) => {
  await using folder = await temporaryFolder();
  const file = path.join(folder.path, 'hooks.yaml');
  await writeFile(file, JSON.stringify({ hooks: { issues: { ...HOOK, ...changes } } }));
  const environment = { HOOK_SECRET: 'sixteen letters.', SHORT: 'short' };
  expect(() => loadIncomingHooks(file, environment)).toThrow(names);
  await writeFile(file, JSON.stringify({ hooks: { issues: HOOK } }));
  expect(loadIncomingHooks(file, environment).get('issues')).toMatchObject({ tenant: 'default', delivery: 'steer' });
});
