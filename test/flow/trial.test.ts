import path from 'node:path';
import { expect, it } from 'vitest';
import { z } from 'zod';
import { startApi } from '../../src/app/api-server.ts';
import { runNode } from '../deploy/process.ts';
import { anyBackend } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import { freePort } from '../support/free-port.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { agentOf, childrenOf, startTeam, tasks } from './children-scenario.ts';

const stateSchema = z.object({
  runs: z.record(z.string(), z.string()),
  heard: z.array(z.string()),
  results: z.record(z.string(), z.unknown()),
});
const HOOK_SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';

it('a service that is killed and started again hears of its task, which three children worked on, and reads the result', async () => {
  const environment = { BATON_PORT: '0', BATON_WEBHOOKS_ALLOWED_HOSTS: '127.0.0.1', BATON_SHUTDOWN_GRACE_MS: '0' };
  const agents = [agentOf('lead', { tools: [{ agent: 'pricer' }] }), agentOf('pricer')];
  await using service = await startTeam(anyBackend(), agents, { environment });
  await using api = await startApi(service.deps);
  await using folder = await temporaryFolder();
  const port = await freePort();
  const start = async () => {
    const trial = runNode(['--conditions=baton-source', path.join(import.meta.dirname, 'trial-service.ts')], {
      cwd: path.join(import.meta.dirname, '../..'),
      environment: {
        PORT: String(port),
        BATON_URL: api.url,
        STATE_FILE: path.join(folder.path, 'state.json'),
        HOOK_SECRET,
      },
    });
    await trial.printed('listening');
    return trial;
  };
  const stateOf = async () => stateSchema.parse(await (await fetch(`http://127.0.0.1:${port}/`)).json());
  const { simulator } = service;
  const asked = () => simulator.requests.filter(({ request }) => request?.model === 'pricer');
  simulator.script('lead', ({ messages }) =>
    messages.some(({ role }) => role === 'tool') ? { text: '{"total":12}' } : tasks('pricer', 3),
  );
  simulator.script('pricer', () => ({ text: 'It costs 4.', gates: { beforeFirstChunk: 'held' } }));
  const worker = await service.startWorker();
  const first = await start();
  await fetch(`http://127.0.0.1:${port}/orders`, { method: 'POST', body: '7' });
  await eventually(async () => asked().length === 3, 'three children are at work');
  await first[Symbol.asyncDispose]();
  await worker[Symbol.asyncDispose]();
  await using _next = await service.startWorker();
  simulator.gate('held').release();
  // The first delivery attempt fails, because the service is down. The next one comes 5 s later.
  await eventually(async () => {
    const row = await service.deps.db.selectFrom('webhook_deliveries').select('attempts').executeTakeFirst();
    return row !== undefined && row.attempts > 0;
  }, 'the service was told while it was away');
  await using _second = await start();
  const heard = await eventually(async () => {
    const state = await stateOf();
    return Object.keys(state.results).length > 0 ? state : null;
  }, 'the service has heard');
  const children = await childrenOf(service.deps.db);
  expect(children.map(({ state }) => state)).toEqual(['delivered', 'delivered', 'delivered']);
  expect(heard).toMatchObject({ results: { 7: { total: 12 } }, heard: [expect.stringMatching(/^dlv_/)] });
  // The same order after the restart is still the same task.
  await fetch(`http://127.0.0.1:${port}/orders`, { method: 'POST', body: '7' });
  expect(Object.keys((await stateOf()).runs)).toHaveLength(1);
});
