import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Simulator, startSimulator } from '../../src/simulator/server.ts';
import type { Tool } from '../../src/tools/tool.ts';
import { startTestService, type TestService } from '../support/service.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const add: Tool = {
  name: 'add',
  description: 'Adds.',
  inputSchema: { type: 'object', properties: { a: { type: 'number' } } },
  execute: async () => '42',
};

let stack: AsyncDisposableStack;
let simulator: Simulator;
let service: TestService;
beforeAll(async () => {
  stack = new AsyncDisposableStack();
  simulator = stack.use(await startSimulator());
  const folder = stack.use(await temporaryFolder());
  const write = (name: string, content: unknown): string => {
    const file = path.join(folder.path, name);
    writeFileSync(file, JSON.stringify(content));
    return file;
  };
  const baseUrl = `${simulator.url}/v1`;
  const providers = {
    local: { kind: 'openai-compatible', baseUrl },
    keyed: { kind: 'openai-compatible', baseUrl, apiKeyEnv: 'LOCAL_KEY', headersFromEnv: { 'x-team': 'TEAM' } },
    responses: { kind: 'openai', baseUrl, apiKeyEnv: 'LOCAL_KEY' },
    chat: { kind: 'openai-chat', baseUrl, apiKeyEnv: 'LOCAL_KEY' },
    claude: { kind: 'anthropic', baseUrl, apiKeyEnv: 'LOCAL_KEY' },
  };
  const models = [{ provider: 'local', model: 'tiny', contextWindow: 8_192, maxOutput: 1_024, tools: false }];
  process.env['LOCAL_KEY'] = 'sk-local';
  process.env['TEAM'] = 'red';
  service = stack.use(
    await startTestService({
      backend: 'postgres',
      tools: [add],
      environment: {
        BATON_PROVIDERS_FILE: write('providers.json', { providers }),
        BATON_MODELS_FILE: write('models.json', models),
      },
    }),
  );
  await service.startWorker();
});
afterAll(() => stack.disposeAsync());

async function run(model: string) {
  simulator.clear();
  simulator.script('*', (request) =>
    request.tools.length > 0 && !request.messages.some(({ role }) => role === 'tool')
      ? { toolCalls: [{ name: 'add', input: { a: 1 } }] }
      : { text: 'It is 42.' },
  );
  const session = await service.createSession({ model });
  const { runId } = await service.send(session, 'Add.');
  const ended = await service.ended(runId);
  return { ended, requests: [...simulator.requests] };
}

describe('a provider by its name', () => {
  it.each([
    ['local', 'chat'],
    ['responses', 'responses'],
    ['chat', 'chat'],
    ['claude', 'messages'],
  ])('%s is asked at its URL in the protocol %s, calls tools, and tells what it used', async (provider, protocol) => {
    const { ended, requests } = await run(`${provider}/some-model`);
    expect(ended).toMatchObject({ status: 'completed', step_count: 2 });
    expect(requests.map((request) => [request.protocol, request.model, request.violations])).toEqual([
      [protocol, 'some-model', []],
      [protocol, 'some-model', []],
    ]);
    expect(ended.input_tokens).toBe(requests.reduce((sum, { usage }) => sum + (usage?.input ?? 0), 0));
    expect(ended.input_tokens).toBeGreaterThan(0);
  });

  it('that is compatible is sent what all of them know and nothing else, its headers included', async () => {
    const { requests } = await run('keyed/some-model');
    const body = JSON.parse(requests[0]?.rawBody ?? '{}');
    expect(Object.keys(body).toSorted()).toEqual(
      ['max_tokens', 'messages', 'model', 'stream', 'stream_options', 'tool_choice', 'tools'].toSorted(),
    );
    expect(body).toMatchObject({ stream_options: { include_usage: true } });
    expect(requests[0]?.headers).toMatchObject({ 'x-team': 'red' });
  });

  it('offers no tools to a model that cannot call any', async () => {
    const { ended, requests } = await run('local/tiny');
    expect(ended).toMatchObject({ status: 'completed', step_count: 1 });
    expect(requests).toHaveLength(1);
    expect(JSON.parse(requests[0]?.rawBody ?? '{}')).not.toHaveProperty('tools');
  });
});
