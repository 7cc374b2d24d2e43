import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { ToolSource } from '../../src/agents/tool-sources.ts';
import { parseExactly } from '../../src/domain/exact-json.ts';
import { formatId } from '../../src/domain/ids.ts';
import { startChatService } from '../facades/ui-chat-fixture.ts';
import { callApi } from '../http/test-api.ts';
import { eventually } from '../support/eventually.ts';
import { propertyRuns } from '../support/property-runs.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const number = fc.oneof(
  fc.integer().map(String),
  fc.bigInt({ min: -(10n ** 25n), max: 10n ** 25n }).map(String),
  fc.tuple(fc.nat(), fc.nat(999)).map(([whole, part]) => `${whole}.${part}0`),
  fc.constantFrom('1e3', '-0', '1E400', '0.1000000000000000055511151231257827', '9007199254740993'),
);
const word = fc.constantFrom('zeta', 'id', 'a', 'bb', 'of "it"', 'ü', '__proto__', '@json');
const key = fc.oneof(fc.nat(120).map(String), word);
const { json, object } = fc.letrec<{ json: string; object: string }>((tie) => ({
  json: fc.oneof(
    { maxDepth: 3 },
    number,
    fc.string().map((value) => JSON.stringify(value)),
    fc.constantFrom('null', 'true'),
    fc.array(tie('json'), { maxLength: 3 }).map((items) => `[${items.join(',')}]`),
    tie('object'),
  ),
  object: fc
    .uniqueArray(fc.tuple(key, tie('json')), { maxLength: 4, selector: ([name]) => name })
    .map((fields) => `{${fields.map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(',')}}`),
}));

/** Texts of JSON: what the model writes, what others answer, and a keyword of the tools' schemas. */
const conversation = fc.record({
  provider: fc.constantFrom('simulated', 'simulated-chat', 'simulated-anthropic'),
  args: object,
  told: json,
  answered: object,
  structured: object,
  keyword: json,
});

type Said = typeof conversation extends fc.Arbitrary<infer Value> ? Value : never;

/** An HTTP tool and an MCP server, each of which answers with the text that is set. */
async function startOthers() {
  const answers = { http: '{}', mcp: '{}' };
  const got: string[] = [];
  const schema = { text: '{"type":"object"}' };
  const mcp = (body: string): string => {
    const { id, method, params } = JSON.parse(body);
    const results: Record<string, string> = {
      initialize: `{"protocolVersion":"${params?.protocolVersion}","capabilities":{"tools":{}},"serverInfo":{"name":"m","version":"1"}}`,
      'tools/list': `{"tools":[{"name":"get","description":"Gets.","inputSchema":${schema.text}}]}`,
      'tools/call': `{"content":[],"structuredContent":${answers.mcp}}`,
    };
    const result = results[method];
    return `{"jsonrpc":"2.0","id":${id},${result === undefined ? '"error":{"code":-32601,"message":"none"}' : `"result":${result}`}}`;
  };
  const server = createServer(async (request, response) => {
    const body = await text(request);
    got.push(body);
    response.setHeader('content-type', 'application/json');
    response.end(request.url === '/look' ? answers.http : mcp(body));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    answers,
    schema,
    got,
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
    },
  };
}

/** Its characters inside of a JSON text. */
const quoted = (written: string): string => JSON.stringify(written).slice(1, -1);
const RUNS = propertyRuns(0.2);

it('random JSON reaches models, tools, clients and readers digit by digit and key by key', async () => {
  await using others = await startOthers();
  await using folder = await temporaryFolder();
  // Each conversation has a server of its own, because lists of tools are kept for a minute.
  const servers = Array.from({ length: RUNS * 20 }, (_, no) => [`m${no}`, { url: `${others.url}/m${no}` }]);
  const environment = {
    BATON_MCP_FILE: path.join(folder.path, 'mcp.json'),
    BATON_HTTP_TOOLS_ALLOWED_HOSTS: '127.0.0.1',
  };
  writeFileSync(environment.BATON_MCP_FILE, JSON.stringify({ mcpServers: Object.fromEntries(servers) }));
  await using chat = await startChatService([{ name: 'plain', models: ['*'] }], [], { environment });
  const { service, url } = chat;
  const get = async (at: string): Promise<string> => (await callApi(url, 'GET', at)).text;
  let no = 0;

  async function holds({ provider, args, told, answered, structured, keyword }: Said): Promise<void> {
    const model = `talk-${no}`;
    const schemaText = `{"type":"object","properties":{"unused":{"enum":[${keyword}],"minimum":12345678901234567890},"7":{},"2":{}}}`;
    others.schema.text = schemaText;
    Object.assign(others.answers, { http: answered, mcp: structured });
    others.got.length = 0;
    const inputSchema = parseExactly(schemaText) as { type: 'object' };
    const server = `m${no++}`;
    const look = { http: { name: 'look', description: 'Looks.', url: `${others.url}/look`, inputSchema } };
    const show: ToolSource = { client: { name: 'show', description: 'Shows.', inputSchema } };
    const calls = ['look', 'show', `${server}__get`].map((name) => ({ name, input: parseExactly(args) }));
    service.simulator.script(model, [{ toolCalls: calls }, { text: 'Done.' }, { text: 'Again.' }]);
    const asked = (at: number): string =>
      service.simulator.requests.filter((request) => request.model === model)[at]?.rawBody ?? '';

    const tools = [look as ToolSource, show, { mcp: server }];
    const id = await service.createSession({ model: `${provider}/${model}`, tools });
    const session = formatId('session', id);
    const { runId } = await service.send(id, 'Go');
    const run = `/v1/runs/${formatId('run', runId)}`;
    const waiting = await eventually(async () => {
      const { requiredActions } = JSON.parse(await get(run));
      return requiredActions[0]?.id ?? null;
    }, 'the client is asked');
    expect(await get(run)).toContain(`"args":${args}`);
    expect(asked(0).split(schemaText)).toHaveLength(4);
    expect(others.got.some((body) => body.includes(`"input":${args}`))).toBe(true);
    expect(others.got.some((body) => body.includes(`"arguments":${args}`))).toBe(true);
    await callApi(url, 'POST', `${run}/tool-calls/${waiting}`, `{"output":${told}}`);
    expect(await service.ended(runId)).toMatchObject({ status: 'completed' });
    const forked = JSON.parse((await callApi(url, 'POST', `/v1/sessions/${session}/fork`, {})).text).id;
    const again = JSON.parse((await callApi(url, 'POST', `/v1/sessions/${forked}/messages`, { content: 'On' })).text);
    await get(`/v1/runs/${again.runId}/wait`);

    const written = provider === 'simulated-anthropic' ? args : quoted(args);
    for (const body of [asked(1), asked(2)]) {
      expect(body.split(written).length).toBeGreaterThan(3);
      for (const result of [told, answered, structured]) expect(body).toContain(quoted(shownText(result)));
    }
    for (const at of [`/v1/sessions/${session}/messages`, `/api/chat/${session}/messages`, `${run}/steps/2/request`]) {
      const page = await get(at);
      expect(page, at).toContain(`"input":${args}`);
      expect(page, at).toContain(told);
      expect(page, at).toContain(answered);
    }
  }
  await fc.assert(fc.asyncProperty(conversation, holds), { numRuns: RUNS });
}, 120_000);

it('schemas that programs send reach the model digit by digit and key by key', async () => {
  await using chat = await startChatService([{ name: 'plain', models: ['*'] }]);
  const { service, url } = chat;
  service.simulator.script(
    'plain',
    Array.from({ length: 4 }, () => ({ text: '{"id":1}' })),
  );
  const schema =
    '{"type":"object","properties":{"id":{"minimum":-12345678901234567890,"multipleOf":1.0},"7":{"enum":[1.10]},"2":{}}}';
  const tool = `"name":"show","parameters":${schema}`;
  const format = `"name":"result","schema":${schema}`;
  const session = JSON.parse(
    (await callApi(url, 'POST', '/v1/sessions', `{"agent":"plain","overrides":{"output":{"schema":${schema}}}}`)).text,
  ).id;
  const post = async (at: string, body: string): Promise<void> => {
    const { status, text: answer } = await callApi(url, 'POST', at, body);
    expect(status, answer).toBeLessThan(300);
    const { runId } = JSON.parse(answer);
    if (runId !== undefined) await callApi(url, 'GET', `/v1/runs/${runId}/wait`);
    expect(service.simulator.requests.at(-1)?.rawBody, at).toContain(schema);
  };
  await post(`/v1/sessions/${session}/messages`, '{"content":"Go"}');
  await post(`/v1/sessions/${session}/messages`, `{"content":"Go","output":{"schema":${schema}}}`);
  await post(
    '/v1/chat/completions',
    `{"model":"plain","messages":[{"role":"user","content":"Go"}],"tools":[{"type":"function","function":{${tool}}}]}`,
  );
  await post('/v1/responses', `{"model":"plain","input":"Go","text":{"format":{"type":"json_schema",${format}}}}`);
});

/** A text is shown to the model without its quotes. */
const shownText = (written: string): string => (written.startsWith('"') ? JSON.parse(written) : written);
