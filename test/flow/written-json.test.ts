import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import type { ToolSource } from '../../src/agents/tool-sources.ts';
import { parseExactly } from '../../src/domain/exact-json.ts';
import { findRun } from '../../src/store/session/runs.ts';
import { listMessages } from '../../src/store/transcript/messages.ts';
import { readRequiredActions } from '../../src/store/transcript/open-calls.ts';
import type { ServerTool } from '../../src/tools/tool.ts';
import { eventually } from '../support/eventually.ts';
import { startTestService } from '../support/service.ts';

/** An HTTP tool's endpoint that answers with one text for all calls. */
async function startEndpoint(answer: string) {
  const got: string[] = [];
  const server = createServer(async (request, response) => {
    got.push(await text(request));
    response.writeHead(200, { 'content-type': 'application/json' }).end(answer);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/look`,
    got,
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
    },
  };
}

const ODD = '{"zone":"b","id":2512292042121000001,"7":1.10,"a":{"10":0,"2":[1e3]}}';
const SCHEMA =
  '{"type":"object","required":["zone"],"properties":{"zone":{"type":"string"},"id":{"minimum":1.0},"7":{},"a":{}}}';
const inputSchema = parseExactly(SCHEMA) as { type: 'object' };
const environment = { BATON_HTTP_TOOLS_ALLOWED_HOSTS: '127.0.0.1' };

it('what a model writes and a tool answers is passed on and kept as it is, digit by digit and key by key', async () => {
  await using endpoint = await startEndpoint(ODD);
  await using service = await startTestService({ backend: 'postgres', environment });
  service.simulator.script('test', [
    {
      toolCalls: [
        { name: 'look', input: parseExactly(ODD) },
        { name: 'show', input: parseExactly(ODD) },
      ],
    },
    { text: 'Done.' },
  ]);
  const look = { http: { name: 'look', description: 'Looks.', url: endpoint.url, inputSchema } } as ToolSource;
  const show: ToolSource = { client: { name: 'show', description: 'Shows.', inputSchema } };
  const session = await service.createSession({ tools: [look, show] });
  await service.startWorker();
  const { runId } = await service.send(session, 'Go');
  const action = await eventually(async () => {
    const run = await findRun(service.deps.db, 'default', runId);
    return (await readRequiredActions(service.deps.db, [run])).get(runId)?.[0] ?? null;
  }, 'the client is asked');
  expect(JSON.stringify(action.args)).toBe(ODD);
  expect(endpoint.got[0]).toContain(`"input":${ODD}`);
  const body = service.simulator.requests[0]?.rawBody ?? '';
  expect(body.slice(body.indexOf('"parameters"'))).toContain(SCHEMA);
  const messages = await listMessages(service.deps.db, 'default', session, { afterSeq: 0, limit: 100 });
  const call = messages.flatMap(({ parts }) => parts).find((part) => part.type === 'tool' && part.toolName === 'look');
  expect(JSON.stringify(call)).toContain(`"input":${ODD}`);
  expect(JSON.stringify(call)).toContain(`"output":{"type":"json","value":${ODD}}`);
});

describe('arguments that a tool does not take', () => {
  const ran: unknown[] = [];
  const module: ServerTool = {
    name: 'count',
    description: 'Counts.',
    inputSchema: { type: 'object', required: ['at'], properties: { at: { type: ['number', 'string'] } } },
    execute: async (input) => {
      ran.push(input);
      return 'counted';
    },
  };

  it.each([
    ['[1]', 'have to be an object, and not a list'],
    ['null', 'have to be an object, and not null'],
    ['12', 'have to be an object, and not a number'],
    ['""', 'have to be an object, and not a string'],
    ['"[1]"', 'have to be an object, and not a string'],
    ['{}', 'Invalid input'],
    ['{"at":true}', 'Invalid input'],
    ['{"at":2512292042121000001}', 'at is the number 2512292042121000001'],
  ])('are answered to the model, and nobody is called: %s', async (written, words) => {
    ran.length = 0;
    await using endpoint = await startEndpoint('{}');
    await using service = await startTestService({ backend: 'postgres', environment, tools: [module] });
    // The simulator sends a text as it is.
    const input = written;
    const isForAll = !written.includes('2512');
    const others = isForAll ? ['look', 'show'] : [];
    service.simulator.script('test', [
      { toolCalls: ['count', ...others].map((name) => ({ name, input })) },
      { text: 'Done.' },
    ]);
    const schema = module.inputSchema as { type: 'object' };
    const look = {
      http: { name: 'look', description: 'Looks.', url: endpoint.url, inputSchema: schema },
    } as ToolSource;
    const show: ToolSource = { client: { name: 'show', description: 'Shows.', inputSchema: schema } };
    const session = await service.createSession({ tools: ['test', look, show] });
    await service.startWorker();
    const { runId } = await service.send(session, 'Go');
    expect(await service.ended(runId), 'no client is waited for').toMatchObject({ status: 'completed' });
    const results = service.simulator.requests[1]?.request?.messages.flatMap(({ toolResults }) => toolResults) ?? [];
    expect(results.map(({ output }) => output)).toEqual(['count', ...others].map(() => expect.stringContaining(words)));
    expect([ran, endpoint.got]).toEqual([[], []]);
  });

  it.each([
    ['"{\\"at\\":1}"', { at: 1 }],
    ['{"at":1.0}', { at: 1 }],
  ])('but mean an object are taken: %s', async (written, input) => {
    ran.length = 0;
    await using service = await startTestService({ backend: 'postgres', tools: [module] });
    service.simulator.script('test', [{ toolCalls: [{ name: 'count', input: written }] }, { text: 'Done.' }]);
    const session = await service.createSession();
    await service.startWorker();
    const { runId } = await service.send(session, 'Go');
    expect(await service.ended(runId)).toMatchObject({ status: 'completed' });
    expect(ran).toEqual([input]);
  });
});
