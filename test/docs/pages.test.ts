import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { promisify } from 'node:util';
import { expect, it, vi } from 'vitest';
import { parse } from 'yaml';
import { type Simulator, startSimulator } from '../../simulator/server.ts';
import { agentFileSchema } from '../../src/agents/agent.ts';
import { createClient } from '../../src/client/client.ts';
import { createEmptyDatabase } from '../migrations/empty-database.ts';
import { childEnvironment } from '../support/child-environment.ts';
import { eventually } from '../support/eventually.ts';
import {
  type PastedOptions,
  type PastedService,
  ROOT,
  readPage,
  startPasted,
  startProgram,
  takeBlocks,
} from '../support/pasted.ts';
import { PNG } from '../support/png.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

// Each test starts whole services, as a reader of the page would.
vi.setConfig({ testTimeout: 180_000 });

/** Starts a service whose agents use this simulator. */
const startWith = (simulator: Simulator, { environment, ...options }: PastedOptions): Promise<PastedService> =>
  startPasted({
    ...options,
    environment: { BATON_SIMULATOR_URL: simulator.url, BATON_MODEL: 'simulated/docs', ...environment },
  });

it('docs/waiting.md: the agent asks as it is shown, and goes on when the command is pasted', async () => {
  const [agent, shown, approve] = await takeBlocks('docs/waiting.md', ['yaml', 'json', 'sh']);
  await using simulator = await startSimulator();
  simulator.script('*', [
    { text: 'May I?', toolCalls: [{ name: 'bash', input: { command: 'make' } }] },
    { toolCalls: [{ name: 'open_page', input: { url: 'https://example.com' } }] },
    { text: 'Done.' },
  ]);
  await using service = await startWith(simulator, {
    files: { 'agents/operator.yaml': agent, 'workspace/Makefile': 'all:\n\t@echo it is made\n' },
    environment: { BATON_AGENTS_DIR: 'FOLDER/agents' },
  });
  const client = createClient({ baseUrl: service.url });
  const session = await client.sessions.create({ agent: 'operator' });
  const { runId } = await client.send(session.id, 'Make it.');
  const asked = await client.runs.wait(runId);
  const ids = (text: string): string => text.replaceAll(/_[0-9a-f]{32}/g, '_01a1…d3');
  const { approvalExpiresAt, ...page } = JSON.parse(shown);
  expect(JSON.parse(ids(JSON.stringify(asked)))).toMatchObject(page);
  const isTime = (text: unknown): boolean => new Date(String(text)).toISOString() === text;
  expect([approvalExpiresAt, asked.approvalExpiresAt].every(isTime)).toBe(true);

  const pasted = approve.replace('$RUN', runId).replace('$CALL', asked.requiredActions?.[0]?.id ?? '');
  const reply = JSON.parse(await service.run(pasted));
  expect(Object.keys(reply)).toEqual(['runId', 'toolCallId', 'kind', 'status', 'open']);
  expect(reply).toMatchObject({ kind: 'approval', open: 0 });
  expect(JSON.parse(await service.run(pasted))).toMatchObject({ kind: 'approval', open: 0 });
  expect(JSON.parse(await service.run(pasted.replace('approve', 'deny')))).toMatchObject({ code: 'already_answered' });

  const again = await client.runs.wait(runId);
  expect(again.requiredActions).toMatchObject([{ kind: 'output', toolName: 'open_page' }]);
  await client.runs.answer(runId, again.requiredActions?.[0]?.id ?? '', { output: { seen: true } });
  expect(await client.runs.wait(runId)).toMatchObject({ status: 'completed' });
  expect(simulator.requests[1]?.rawBody).toContain('it is made');
  expect(simulator.requests[2]?.rawBody).toContain('seen');
});

it('docs/providers.md: models are asked at the providers of the file, as what is said of them allows', async () => {
  const blocks = await takeBlocks('docs/providers.md', ['yaml', 'yaml', 'json', 'yaml']);
  const [providers, models, refused, inBackground] = blocks;
  await using simulator = await startSimulator();
  simulator.script('*', () => ({ text: 'Here.' }));
  const local = providers
    .replace('http://127.0.0.1:11434', simulator.url)
    .replace('https://llm.example.com', simulator.url);
  await using service = await startPasted({
    files: {
      'providers.yaml': `${local}\n${inBackground.replace('providers:\n', '')}`,
      'models.yaml': models,
      'agents/any.yaml': "name: any\nmodel: ollama/llama3.2\nmodels: ['*']\ntools: [workspace]\n",
    },
    environment: {
      BATON_AGENTS_DIR: 'FOLDER/agents',
      BATON_PROVIDERS_FILE: 'FOLDER/providers.yaml',
      BATON_MODELS_FILE: 'FOLDER/models.yaml',
      GATEWAY_KEY: 'secret',
      OPENAI_API_KEY: 'secret',
      GATEWAY_TEAM: 'blue',
    },
  });
  const client = createClient({ baseUrl: service.url });
  const session = await client.sessions.create({ agent: 'any' });
  const say = async (model: string) => {
    await client.sessions.switchAgent(session.id, { model });
    const { runId } = await client.send(session.id, 'Are you there?');
    expect(await client.runs.wait(runId), model).toMatchObject({ status: 'completed' });
    const { window } = await client.sessions.context(session.id);
    return { window, sent: simulator.requests.at(-1) };
  };
  const llama = await say('ollama/llama3.2');
  expect(llama).toMatchObject({ window: 131_072, sent: { protocol: 'chat' } });
  expect(llama.sent?.request?.tools.map(({ name }) => name)).toContain('bash');
  expect(await say('gateway/any')).toMatchObject({ window: 128_000, sent: { headers: { 'x-team': 'blue' } } });
  const tiny = await say('ollama/tinyllama');
  expect(tiny.window).toBe(2048);
  expect(tiny.sent?.request?.tools).toEqual([]);

  const { message, code } = JSON.parse(refused).provider;
  const body = { error: { message, code } };
  simulator.fault('*', { status: 400, headers: { 'x-request-id': 'req_0a1b' }, body });
  const { runId } = await client.send(session.id, 'And now?');
  const { error } = await client.runs.wait(runId);
  const host = new URL(simulator.url).host;
  expect(JSON.parse(JSON.stringify(error).replaceAll(host, 'api.openai.com'))).toEqual(JSON.parse(refused));
});

it('docs/agents.md: the session has the overrides of the pasted command', async () => {
  const kinds = ['yaml', 'yaml', 'yaml', 'yaml', 'yaml', 'sh', 'yaml'] as const;
  const [, , , , , command, models] = await takeBlocks('docs/agents.md', kinds);
  expect(agentFileSchema.parse({ name: 'page', ...parse(models) }).models).toContain('anthropic/*');
  await using service = await startPasted();
  const { overrides } = JSON.parse(/-d '([\s\S]*)'/.exec(command)?.[1] ?? '');
  expect(JSON.parse(await service.run(command))).toMatchObject({ agent: 'workspace', status: 'idle', overrides });
});

const TOOLS = ['yaml', 'ts', 'sh', 'yaml', 'js', 'yaml'] as const;

it('docs/tools.md: its endpoint answers what is signed, and nothing else', async () => {
  const [, , , , program, agent] = await takeBlocks('docs/tools.md', TOOLS);
  const page = await readPage('docs/tools.md');
  const [, secret = ''] = /`TICKETS_SECRET=(\w+) node tickets\.mjs`/.exec(page) ?? [];
  const [, allowed = ''] = /`BATON_HTTP_TOOLS_ALLOWED_HOSTS=([\d.]+)`/.exec(page) ?? [];
  await using folder = await temporaryFolder();
  await writeFile(path.join(folder.path, 'tickets.mjs'), program);
  const environment = { ...childEnvironment({}), PORT: '0', TICKETS_SECRET: secret };
  await using endpoint = await startProgram(
    `node ${path.join(folder.path, 'tickets.mjs')}`,
    environment,
    (line) => line,
  );
  expect((await fetch(endpoint.url, { method: 'POST', body: '{}' })).status).toBe(401);
  await using simulator = await startSimulator();
  const input = { title: 'The lamp is broken' };
  simulator.script('*', [{ toolCalls: [{ name: 'create_ticket', input }] }, { text: 'Opened.' }]);
  await using service = await startWith(simulator, {
    files: { 'agents/tickets.yaml': agent.replace('http://127.0.0.1:4600', endpoint.url) },
    environment: {
      BATON_AGENTS_DIR: 'FOLDER/agents',
      BATON_HTTP_TOOLS_ALLOWED_HOSTS: allowed,
      TICKETS_SECRET: secret,
    },
  });
  const client = createClient({ baseUrl: service.url });
  const session = await client.sessions.create({ agent: 'tickets' });
  const { runId } = await client.send(session.id, 'Tell them.');
  expect(await client.runs.wait(runId)).toMatchObject({ status: 'completed' });
  const [, , told] = (await client.messages(session.id)).messages.flatMap(({ parts }) => parts);
  expect(told).toMatchObject({ output: { value: { opened: input.title, tenantId: 'default' } } });
});

it('docs/tools.md: its module is called where the page says that modules are, and its example starts', async () => {
  const [, program, start] = await takeBlocks('docs/tools.md', TOOLS);
  await using simulator = await startSimulator();
  const calls = (): void => {
    const input = { city: 'Berlin' };
    simulator.script('*', [{ toolCalls: [{ name: 'get_weather', input }] }, { text: 'It rains.' }]);
  };
  const ask = async ({ url }: PastedService) => {
    calls();
    const client = createClient({ baseUrl: url });
    const session = await client.sessions.create({ agent: 'weather' });
    const { runId } = await client.send(session.id, 'How is it in Berlin?');
    expect(await client.runs.wait(runId)).toMatchObject({ status: 'completed' });
    return simulator.requests.at(-1)?.rawBody;
  };
  await using station = await startStation({ sky: 'pouring' });
  const agent = await readFile(path.join(ROOT, 'examples/agents/weather.yaml'), 'utf8');
  await using own = await startWith(simulator, {
    files: {
      'agents/weather.yaml': agent,
      'agents/tools/weather.ts': program.replace('https://weather.example.com', station.url),
    },
    environment: { BATON_AGENTS_DIR: 'FOLDER/agents' },
    packages: ['zod'],
  });
  expect(await ask(own)).toContain('pouring');
  expect(station.asked).toEqual(['/Berlin']);
  await using example = await startWith(simulator, { command: start.replace(/ +#.*/, '') });
  expect(start).toContain('POST /v1/sessions {"agent":"weather"}');
  expect(await ask(example)).toContain('overcast');
});

/** Answers every request with this. */
async function startStation(report: object): Promise<AsyncDisposable & { url: string; asked: readonly string[] }> {
  const asked: string[] = [];
  const server = createServer(({ url = '' }, response) => {
    asked.push(url);
    response.end(JSON.stringify(report));
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

it('docs/media.md: the commands upload a file, send it, show how it is kept, and read it back', async () => {
  const [commands] = await takeBlocks('docs/media.md', ['sh', 'ts', 'json']);
  await using simulator = await startSimulator();
  simulator.script('*', () => ({ text: 'One pixel.' }));
  await using service = await startWith(simulator, {});
  await writeFile(path.join(service.folder, 'logo.png'), PNG);
  const told = await service.run(`${commands}echo; echo "$SESSION $RUN $BLOB"`, service.folder);
  const [session, run, blob] = told.trim().split('\n').at(-1)?.split(' ') ?? [];
  expect(told).toMatch(new RegExp(`"id":"${run}"[\\s\\S]*"status":"completed"`));
  const client = createClient({ baseUrl: service.url });
  const { messages } = await client.messages(session ?? '');
  const shown = /# … "parts":(\[[\s\S]*?\]) …/.exec(commands)?.[1]?.replace('\n#', '') ?? '';
  expect(messages[0]?.parts).toEqual(JSON.parse(shown.replace('@blob:blob_01a2…', `@blob:${blob}`)));
  expect(told).toContain(JSON.stringify(messages[0]?.parts));
  expect(await readFile(path.join(service.folder, 'same.png'))).toEqual(Buffer.from(PNG));
  expect(simulator.requests[0]?.rawBody).toContain('What is this?');
});

it('docs/facades.md: the commands and the client are answered', async () => {
  const blocks = await takeBlocks('docs/facades.md', ['ts', 'tsx', 'sh', 'ts', 'sh', 'ts']);
  const [, , chat, program, completions, responses] = blocks;
  await using service = await startPasted();
  const told = await service.run(chat);
  expect(told).toMatch(/"type":"start"[\s\S]*"type":"finish"[\s\S]*data: \[DONE\][\s\S]*"messages":\[/);
  expect(told).toContain('src/shipping.js');
  expect(await service.run(completions)).toMatch(
    /"object":"chat\.completion"[\s\S]*"finish_reason":"stop"[\s\S]*"owned_by":"baton"/,
  );
  for (const shown of [program, responses]) {
    const printed = await service.run(`node --input-type=module-typescript <<'EOF'\n${shown}EOF\n`);
    expect(printed).toContain('src/shipping.js');
  }
});

it('docs/operations.md: the commands print what they are shown to, and the failed run is completed', async () => {
  const [health, metrics, , board] = await takeBlocks('docs/operations.md', ['sh', 'sh', '', 'sh']);
  await using simulator = await startSimulator();
  simulator.fault('*', { status: 401, body: { error: { message: 'no such key' } } });
  simulator.script('*', () => ({ text: 'Done after all.' }));
  await using service = await startWith(simulator, { environment: { BATON_ADMIN_READ_ONLY: 'false' } });
  const client = createClient({ baseUrl: service.url });
  const session = await client.sessions.create({ agent: 'workspace' });
  const { runId } = await client.send(session.id, 'Do it.');
  expect(await client.runs.wait(runId)).toMatchObject({ status: 'failed' });
  const failed = `${service.url}/admin/queues/api/queues?activeQueue=steps&status=failed`;
  await eventually(async () => (await (await fetch(failed)).text()).includes('"failedReason"'), 'its job is kept');
  await eventually(async () => (await fetch(`${service.url}/readyz`)).ok, 'its event loop was not stuck a moment ago');
  for (const block of [health, metrics, board]) {
    expect((await service.run(block)).trim().split('\n')).toEqual(printedIn(block));
  }
  expect(simulator.requests).toHaveLength(2);
});

/** The lines that a block shows as its output; `…` stands for parts that are left out or differ each time. */
const printedIn = (block: string): unknown[] =>
  [...block.matchAll(/^# (.*)$/gm)].map(([, line = '']) =>
    expect.stringMatching(new RegExp(`^${line.replace(/[.*+?^${}()|[\]\\]/g, '\\$&').replaceAll('…', '.*')}$`)),
  );

it('docs/production.md: two migrations at once are safe, and the first key is made by the command of the image', async () => {
  await takeBlocks('docs/production.md', []);
  const page = await readPage('docs/production.md');
  const [, service = '', made = ''] = /`docker compose run --rm (\w+) (node [^`]*)`/.exec(page) ?? [];
  expect(Object.keys(parse(await readPage('docker-compose.yml')).services)).toContain(service);
  const [, migrate = ''] = /`(npm run migrate)`/.exec(page) ?? [];
  await using database = await createEmptyDatabase();
  const environment = { ...childEnvironment({}), DATABASE_URL: database.connectionString };
  const paste = async (command: string) =>
    (await promisify(execFile)('bash', ['-c', command], { cwd: ROOT, env: environment })).stdout;
  const applied = await Promise.all([paste(migrate), paste(migrate)]);
  expect(applied.map((text) => /Applied: |up to date/.exec(text)?.[0]).toSorted()).toEqual(['Applied: ', 'up to date']);
  await using api = await startPasted({ environment: { DATABASE_URL: database.connectionString } });
  const sessions = (headers: Record<string, string>) => fetch(`${api.url}/v1/sessions`, { headers });
  expect((await sessions({})).status).toBe(200);
  const key = (await paste(made)).trim().split('\n').at(-1) ?? '';
  expect((await sessions({})).status).toBe(401);
  expect((await sessions({ authorization: `Bearer ${key}` })).status).toBe(200);
});
