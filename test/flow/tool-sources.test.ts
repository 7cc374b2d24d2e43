import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { openDependencies } from '../../src/app/dependencies.ts';
import { loadConfig } from '../../src/platform/config.ts';
import type { LogEvent } from '../../src/platform/log.ts';
import { listMessages } from '../../src/store/transcript/messages.ts';
import type { ServerTool, Tool } from '../../src/tools/tool.ts';
import { eventually } from '../support/eventually.ts';
import { startTestService, type TestService } from '../support/service.ts';
import { startWorkerProcess } from '../support/worker-process.ts';

const EXAMPLES = fileURLToPath(new URL('../../examples/agents', import.meta.url));

async function callsOf(service: TestService, session: string) {
  const messages = await listMessages(service.deps.db, 'default', session, { afterSeq: 0, limit: 100 });
  return messages.flatMap(({ parts }) => parts).filter((part) => part.type === 'tool');
}

function folderOf(files: Readonly<Record<string, string>>) {
  const folder = mkdtempSync(path.join(tmpdir(), 'baton-sources-'));
  for (const [name, content] of Object.entries(files)) writeFileSync(path.join(folder, name), content);
  return { path: folder, [Symbol.dispose]: () => rmSync(folder, { recursive: true }) };
}

async function post(url: string, body: unknown): Promise<Record<string, unknown>> {
  const headers = { 'content-type': 'application/json' };
  const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) });
  expect(response.ok).toBe(true);
  return (await response.json()) as Record<string, unknown>;
}

describe('the example agent with a tool of its own', () => {
  it('is run by a process of the service: Node reads the TypeScript of the tool as it is', async () => {
    await using service = await startTestService({
      backend: 'postgres',
      environment: { BATON_AGENTS_DIR: EXAMPLES, BATON_MODEL: 'simulated/test', BATON_PORT: '0' },
    });
    service.simulator.script('test', [
      { toolCalls: [{ name: 'get_weather', input: { city: 'Lisbon' } }] },
      { toolCalls: [{ name: 'get_weather', input: { town: 'Lisbon' } }] },
      { text: 'Clear.' },
    ]);
    await using process = await startWorkerProcess('all', service.environment);
    const session = await post(`${process.url}/v1/sessions`, { agent: 'weather' });
    await post(`${process.url}/v1/sessions/${session['id']}/messages`, { content: 'How is it in Lisbon?' });
    const answered = await eventually(
      async () => service.simulator.requests[2]?.request ?? null,
      'the third request is made',
    );
    const results = answered.messages.flatMap(({ toolResults }) => toolResults).map(({ output }) => output);
    expect(JSON.parse(results[0] ?? '')).toEqual({ city: 'Lisbon', degrees: 17, unit: 'celsius', sky: 'clear' });
    expect(results[1]).toContain('Invalid input');
    const transcript = await (await fetch(`${process.url}/v1/sessions/${session['id']}/messages`)).text();
    expect(transcript, 'the input is kept as the model wrote it').toContain('"input":{"city":"Lisbon"}');
  });
});

describe('an agent whose tools cannot be had', () => {
  it.each([
    ['tools: [nothing]', /^agent clerk: tools\.0: there is no tool or tool set named nothing; known: bash, /],
    ['tools: [workspace, { module: ./gone.ts }]', /^agent clerk: tools\.1\.module: .*gone\.ts cannot be loaded/],
    ['toolLimits: { grep: {} }', 'agent clerk: toolLimits.grep: the agent has no tool of this name'],
  ])('stops the start, with agent and key: %s', async (tools, message) => {
    await using service = await startTestService({ backend: 'postgres' });
    using folder = folderOf({ 'clerk.yaml': `name: clerk\nmodel: simulated/test\n${tools}\n` });
    const config = loadConfig({ ...service.environment, BATON_AGENTS_DIR: folder.path });
    const opening = openDependencies(config, { migrate: false, log: () => undefined });
    await expect(opening).rejects.toMatchObject({
      code: 'config_invalid',
      message: typeof message === 'string' ? message : expect.stringMatching(message),
    });
  });
});

describe('an agent with a setting that its model has no word for', () => {
  const SEEDED = 'name: clerk\nmodel: simulated/test\nsettings: { seed: 7 }\n';

  it('stops the start, with agent and key, unless another model takes its place', async () => {
    await using service = await startTestService({ backend: 'postgres' });
    using folder = folderOf({ 'clerk.yaml': SEEDED });
    const environment = { ...service.environment, BATON_AGENTS_DIR: folder.path };
    const open = (more = {}) =>
      openDependencies(loadConfig({ ...environment, ...more }), { migrate: false, log: () => undefined });
    await expect(open()).rejects.toMatchObject({
      code: 'config_invalid',
      message: 'agent clerk: settings.seed: simulated/test (openai-responses) takes none',
    });
    await using deps = await open({ BATON_MODEL: 'simulated/other' });
    expect((await deps.agents.current()).get('clerk').settings).toEqual({ seed: 7 });
  });
});

describe('an agent whose model nobody can price', () => {
  const open = async (service: TestService, file: string, more: Readonly<Record<string, string>> = {}) => {
    using folder = folderOf({ 'clerk.yaml': `name: clerk\n${file}` });
    using providers = folderOf({
      'providers.json': '{"providers":{"own":{"kind":"openai-compatible","baseUrl":"http://127.0.0.1:9/v1"}}}',
    });
    const environment = {
      ...service.environment,
      BATON_AGENTS_DIR: folder.path,
      BATON_PROVIDERS_FILE: path.join(providers.path, 'providers.json'),
      OPENAI_API_KEY: 'sk-test',
      ...more,
    };
    const logged: LogEvent[] = [];
    await using deps = await openDependencies(loadConfig(environment), {
      migrate: false,
      log: (_level, event) => void logged.push(event),
    });
    return { logged, agents: (await deps.agents.current()).names() };
  };
  const LIMIT = 'limits: { maxCostUsd: 1 }\n';
  const QUOTA = { BATON_TENANT_COST_USD_PER_DAY: '5' };

  it.each<[string, string, Readonly<Record<string, string>>, string]>([
    ['a limit of its own', `model: own/llama\n${LIMIT}`, {}, 'limits.maxCostUsd: No price of own/llama is known'],
    ['the quota of tenants', 'model: own/llama\n', QUOTA, 'model: No price of own/llama is known'],
    [
      'a summarizer without prices',
      `model: openai/gpt-5.4\ncontext: { compaction: { model: own/small } }\n${LIMIT}`,
      {},
      'limits.maxCostUsd: No price of own/small is known',
    ],
    ['BATON_MODEL', `model: openai/gpt-5.4\n${LIMIT}`, { BATON_MODEL: 'own/x' }, 'No price of own/x is known'],
  ])('stops the start where its cost is limited, by %s', async (_what, file, more, message) => {
    await using service = await startTestService({ backend: 'postgres' });
    await expect(open(service, file, more)).rejects.toMatchObject({
      code: 'config_invalid',
      message: expect.stringContaining(message),
    });
  });

  it('starts where nothing limits its cost, and is warned of for its guessed window', async () => {
    await using service = await startTestService({ backend: 'postgres' });
    const { logged, agents } = await open(service, 'model: own/llama\n');
    expect(agents).toEqual(['clerk']);
    const warned = await eventually(
      async () => logged.find(({ event }) => event === 'agent_window_guessed') ?? null,
      'the warning',
    );
    expect(warned).toMatchObject({ agent: 'clerk', model: 'own/llama', contextWindow: 128_000 });
    const known = await open(service, `model: openai-chat/gpt-5.4-mini\n${LIMIT}`, QUOTA);
    expect(known).toMatchObject({ agents: ['clerk'], logged: [] });
  });
});

describe('a model that cannot call tools', () => {
  it('is offered none', async () => {
    using folder = folderOf({ 'models.yaml': '[{ provider: simulated, model: mute, tools: false }]' });
    await using service = await startTestService({
      backend: 'postgres',
      environment: { BATON_MODELS_FILE: path.join(folder.path, 'models.yaml') },
    });
    for (const model of ['mute', 'test']) service.simulator.script(model, [{ text: 'Hello.' }]);
    await service.startWorker();
    for (const model of ['simulated/mute', 'simulated/test']) {
      const { runId } = await service.send(await service.createSession({ model, tools: ['workspace'] }), 'Go');
      expect(await service.ended(runId)).toMatchObject({ status: 'completed' });
    }
    const offered = service.simulator.requests.map(({ model, request }) => [model, request?.tools.length]);
    expect(offered).toEqual([
      ['mute', 0],
      ['test', 8],
    ]);
  });
});

describe('a session that is switched to a model that cannot call tools', () => {
  it.each(['simulated', 'simulated-chat', 'simulated-anthropic'])(
    'tells it of the earlier calls in words: %s',
    async (provider) => {
      using folder = folderOf({ 'models.yaml': `[{ provider: ${provider}, model: mute, tools: false }]` });
      await using service = await startTestService({
        backend: 'postgres',
        tools: [
          {
            name: 'look',
            description: 'Looks.',
            inputSchema: { type: 'object' },
            execute: async () => ({ seen: 'a cat' }),
          },
        ],
        environment: { BATON_MODELS_FILE: path.join(folder.path, 'models.yaml') },
      });
      service.simulator.script('test', [
        { text: 'Let me look.', toolCalls: [{ name: 'look', input: { at: 'it' } }] },
        { text: 'A cat.' },
      ]);
      service.simulator.script('mute', [{ text: 'Yes.' }]);
      await service.startWorker();
      const session = await service.createSession({ model: `${provider}/test` });
      await service.ended((await service.send(session, 'What is it?')).runId);
      const { deps } = service;
      await deps.db
        .updateTable('sessions')
        .set({ agent_snapshot: sql`agent_snapshot || jsonb_build_object('model', ${`${provider}/mute`}::text)` })
        .execute();
      expect(await service.ended((await service.send(session, 'Sure?')).runId)).toMatchObject({ status: 'completed' });
      const { request, violations } = service.simulator.requests.at(-1) ?? {};
      expect(violations).toEqual([]);
      expect(request?.tools).toEqual([]);
      const messages = request?.messages ?? [];
      expect(messages.flatMap(({ toolCalls, toolResults }) => [...toolCalls, ...toolResults])).toEqual([]);
      expect(JSON.stringify(messages)).toMatch(/Earlier call of the tool look with .*"at.*"it.*a cat/);
    },
  );
});

describe('what any tool returns', () => {
  const returns = (name: string, execute: ServerTool['execute']): Tool => ({
    name,
    description: name,
    inputSchema: { type: 'object' },
    execute,
  });

  it('is made storable before anybody is shown it, and kept within the agent’s limit', async () => {
    await using service = await startTestService({
      backend: 'postgres',
      tools: [
        returns('text', async () => 'a\u0000b\uD83D'),
        returns('json', async () => ({ 'k\u0000': ['\uDE00'] })),
        returns('failure', () => Promise.reject(new Error('bad \u0000'))),
        returns('bytes', async () =>
          Buffer.from([...Array(300).keys()])
            .toString('latin1')
            .replaceAll('a', '\u0000'),
        ),
        returns('long', async () => 'x'.repeat(5_000)),
      ],
    });
    const names = ['text', 'json', 'failure', 'bytes', 'long'];
    service.simulator.script('test', [{ toolCalls: names.map((name) => ({ name, input: {} })) }, { text: 'Done.' }]);
    await service.startWorker();
    const session = await service.createSession({ toolLimits: { long: { maxOutputChars: 1_000 } } });
    const { runId } = await service.send(session, 'Go');
    expect(await service.ended(runId)).toMatchObject({ status: 'completed' });
    const outputs = (await callsOf(service, session)).map(({ output }) => output);
    expect(outputs.slice(0, 4)).toEqual([
      { type: 'text', value: 'a\uFFFDb\uFFFD' },
      { type: 'json', value: { 'k\uFFFD': ['\uFFFD'] } },
      { type: 'error-text', value: 'bad \uFFFD' },
      { type: 'text', value: '[binary data, 300 characters, not shown]' },
    ]);
    const long = outputs[4]?.type === 'text' ? outputs[4].value : '';
    expect(long.length).toBeLessThanOrEqual(1_000);
    expect(long).toMatch(/of 5000 characters cut out: read them with read_tool_output, id out_/);
  });
});
