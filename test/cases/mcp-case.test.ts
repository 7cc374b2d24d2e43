import { expect, it } from 'vitest';
import { createServerFiles } from '../tools/mcp-fixture.ts';
import { startCaseFixture } from './support.ts';

it('a case of an agent with an MCP server is played without the server', async () => {
  await using stack = new AsyncDisposableStack();
  const server = stack.use(createServerFiles({ name: 'find', description: 'Finds an order.' }));
  const agent = { name: 'clerk', model: 'simulated/clerk', instructions: 'Help.', tools: [{ mcp: 'shop' }] };
  const yaml = JSON.stringify({ ...agent, mcpServers: { shop: server.config } });
  const fixture = stack.use(await startCaseFixture({ 'clerk.yaml': yaml }));
  fixture.simulator.script('clerk', [
    { toolCalls: [{ id: 'c1', name: 'shop__find', input: { order: '7' } }] },
    { text: 'It was found.' },
  ]);
  const { id } = await fixture.client.sessions.create({ agent: 'clerk' });
  expect((await fixture.client.ask(id, 'Find order 7')).text).toBe('It was found.');
  const { out } = await fixture.baton('record', id);
  const file = await fixture.write('find.json', out);
  const begun = [server.pids().length, server.ledger().length];
  expect(begun).toEqual([1, 1]);

  const offline = await fixture.test(file);
  expect(offline).toMatchObject({ code: 0, err: '' });
  expect([server.pids().length, server.ledger().length]).toEqual(begun);

  server.offer({ name: 'find', description: 'Finds any order.' });
  const live = await fixture.test(file, '--live-tools');
  expect(live.out).toContain('step 1, tool shop__find, description');
  expect(live.code).toBe(1);
});
