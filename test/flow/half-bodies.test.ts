import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { bodyBudget } from '../../src/domain/body-budget.ts';
import { MIN_BODY_CHARGE_BYTES, STRANGER_BODIES_BYTES } from '../../src/domain/tunables.ts';
import { type HalfBodies, sendHalfBodies } from '../support/half-bodies.ts';
import { createTestKey } from '../support/keys.ts';
import { startTestService } from '../support/service.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { startWorkerProcess } from '../support/worker-process.ts';

/** V8 adds the young generation to the limit that it is told. */
const { tenant } = bodyBudget(768 * 1_048_576);

const CONNECTIONS = 4_000;
const MIB = 1_048_576;

const HOOKS = `
hooks:
  orders:
    agent: workspace
    verify: github
    secretEnv: HOOK_SECRET
    session: "{body.a}"
    content: "{body.a}"
`;

/** Asks until it is stopped. @returns how many were not answered */
function keepAsking(url: string): () => Promise<Readonly<{ unanswered: number }>> {
  let isOver = false;
  let unanswered = 0;
  const asking = (async () => {
    while (!isOver) {
      const { ok } = await fetch(url).catch(() => ({ ok: false }));
      if (!ok) unanswered++;
    }
  })();
  return async () => {
    isOver = true;
    await asking;
    return { unanswered };
  };
}

/** A path, the bytes that a body says it has, its headers, and how many such bodies the process may hold. */
type Attack = readonly [string, number, Readonly<Record<string, string>>, number];

it('an API process with 512 MiB of heap survives 4 000 connections that send half a body each', {
  timeout: 300_000,
}, async () => {
  await using folder = await temporaryFolder();
  const hooksFile = join(folder.path, 'hooks.yaml');
  await writeFile(hooksFile, HOOKS);
  await using service = await startTestService({ backend: 'postgres' });
  const settings = {
    BATON_PORT: '0',
    BATON_MODEL: 'simulated/any',
    BATON_HOOKS_FILE: hooksFile,
    HOOK_SECRET: 'a-secret-of-a-hook',
  };
  const heap = ['--max-old-space-size=512'];
  await using api = await startWorkerProcess('api', { ...service.environment, ...settings }, heap);
  const { url = '' } = api;
  const { headers } = await createTestKey(service.deps.db, 'default');
  const neighbour = await createTestKey(service.deps.db, 'neighbour');
  const attacks: readonly Attack[] = [
    ['/v1/hooks/orders', 262_144, {}, STRANGER_BODIES_BYTES / 262_144],
    ['/console/login', 1_024, {}, STRANGER_BODIES_BYTES / MIN_BODY_CHARGE_BYTES],
    ['/v1/sessions', MIB, headers, tenant / MIB],
  ];
  const stop = keepAsking(`${url}/livez`);
  for (const [path, declared, sentHeaders, most] of attacks) {
    const options = { count: CONNECTIONS, declared, sent: Math.min(declared / 2, MIB / 2), headers: sentHeaders };
    using halves: HalfBodies = await sendHalfBodies(url, path, options);
    // Whoever is not let in is told so; the others wait for the rest of their bodies.
    await expect.poll(halves.open, { message: path }).toBeLessThanOrEqual(most);
    const create = await fetch(`${url}/v1/sessions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...neighbour.headers },
      body: '{"agent":"workspace"}',
    });
    expect(create.status, `${path}: ${await create.text()}`).toBe(201);
  }
  expect(await stop()).toEqual({ unanswered: 0 });
  expect(api.stderr()).not.toContain('FATAL');
});
