import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { expect, it } from 'vitest';
import { startGateway } from '../../examples/mcp/gateway.ts';
import { eventually } from '../support/eventually.ts';
import { createMcpFixture, createServerFiles } from '../tools/mcp-fixture.ts';
import { EVERYTHING } from '../tools/reference-servers.ts';
import { isRunning } from '../tools/workspace-fixture.ts';

it('each client of the gateway has a process of its own, which ends with the client', async () => {
  using files = createServerFiles({ name: 'find' });
  await using gateway = await startGateway(0, files.config.command, files.config.args);
  const config = { own: { url: gateway.url } };
  await using first = createMcpFixture(config);
  const second = createMcpFixture(config);
  for (const client of [first, second]) {
    expect(await client.call(await client.pin([{ mcp: 'own' }]), 'own__find', { q: 1 })).toBe('find {"q":1}');
  }
  expect(files.pids().map(isRunning)).toEqual([true, true]);
  await second[Symbol.asyncDispose]();
  await eventually(async () => files.pids().filter(isRunning).length === 1, 'the process of the second has ended');
  expect(isRunning(files.pids()[0] ?? 0)).toBe(true);
});

it('a process that dies is another one at the next call', async () => {
  using files = createServerFiles({ name: 'find' });
  await using gateway = await startGateway(0, files.config.command, files.config.args);
  await using client = createMcpFixture({ own: { url: gateway.url } });
  const agent = await client.pin([{ mcp: 'own' }]);
  process.kill(files.pids()[0] ?? 0, 'SIGKILL');
  // Until the gateway has seen the death, a call is lost with the process.
  const answer = await eventually(() => client.call(agent, 'own__find').catch(() => null), 'a call is answered');
  expect(answer).toBe('find {}');
  expect(files.pids().length).toBe(2);
});

it('the gateway brings a call’s progress on the stream of its answer', async () => {
  await using gateway = await startGateway(0, EVERYTHING.command, EVERYTHING.args);
  const post = (message: object, headers: Record<string, string> = {}) =>
    fetch(gateway.url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...headers },
      body: JSON.stringify({ jsonrpc: '2.0', ...message }),
    });
  const clientInfo = { name: 'test', version: '1' };
  const params = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo };
  const opened = await post({ id: 1, method: 'initialize', params });
  const session = { 'mcp-session-id': opened.headers.get('mcp-session-id') ?? '' };
  await opened.text();
  await post({ method: 'notifications/initialized' }, session);
  const call = { name: 'trigger-long-running-operation', arguments: { duration: 0.2, steps: 2 } };
  const answer = await post({ id: 2, method: 'tools/call', params: { ...call, _meta: { progressToken: 2 } } }, session);
  const messages = [...(await answer.text()).matchAll(/^data: (.+)$/gm)].map(([, data = '']) => JSON.parse(data));
  expect(messages.map(({ method, id }) => method ?? id)).toEqual([
    'notifications/progress',
    'notifications/progress',
    2,
  ]);
});

it('the gateway knows no session that it has not opened, and answers no name but its own', async () => {
  await using gateway = await startGateway(0, EVERYTHING.command, EVERYTHING.args);
  const status = async (headers: Record<string, string>) => {
    const request = httpRequest(gateway.url, { method: 'POST', headers });
    request.end();
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    response.resume();
    return response.statusCode;
  };
  expect(await status({ 'mcp-session-id': 'made-up' })).toBe(404);
  expect(await status({ host: 'evil.example' })).toBe(403);
});
