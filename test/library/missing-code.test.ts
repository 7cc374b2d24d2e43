import { expect, it } from 'vitest';
import { z } from 'zod';
import { defineAgent, tool } from '../../src/library/baton.ts';
import { eventually } from '../support/eventually.ts';
import { startInProcess } from './support.ts';

const tools = (names: readonly string[]) =>
  Object.fromEntries(
    names.map((name) => [
      name,
      tool({ description: 'Does it.', inputSchema: z.object({}), execute: () => `${name} done`, readOnly: true }),
    ]),
  );

it('a worker without a tool of the session leaves the run to one that has it, and says what is missing', async () => {
  await using started = await startInProcess((model) => ({
    agents: [defineAgent({ name: 'clerk', model, tools: tools(['look', 'refund']) })],
    databaseConnections: 4,
  }));
  const { baton: newer, simulator, logged } = started;
  simulator.script('test', ({ index }) =>
    index === 0 ? { toolCalls: [{ id: 'a', name: 'refund', input: {} }] } : { text: 'Done.' },
  );
  const models = await newer.client.agents();
  expect(models.agents).toHaveLength(1);
  const { id } = await newer.client.sessions.create({ agent: 'clerk' });
  const older = await started.again({
    agents: [defineAgent({ name: 'clerk', model: 'openai/test', tools: tools(['look']) })],
    openaiApiKey: 'of the program',
    openaiBaseUrl: `${simulator.url}/v1`,
  });
  await older.startWorker();
  const { runId } = await newer.client.send(id, 'Refund order-7.');
  const missing = await eventually(
    async () => logged.find((entry) => (entry as { event: string }).event === 'agent_code_missing') ?? null,
    'the older worker says what it lacks',
  );
  expect(missing).toMatchObject({ tools: ['clerk/refund'] });
  expect(await older.readiness()).toMatchObject({
    ready: true,
    checks: { agent_code: { ok: true, message: 'runs wait for a worker with the tools clerk/refund' } },
  });
  expect((await newer.client.runs.get(runId)).status).toBe('queued');
  await newer.startWorker();
  expect((await newer.client.runs.result(runId)).text).toBe('Done.');
  expect((await newer.readiness()).checks['agent_code']).toEqual({ ok: true });
});
