import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Simulator, startSimulator } from '../../simulator/server.ts';
import type { RunLimits } from '../../src/domain/run/run-limits.ts';
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

async function run(model: string, limits: RunLimits = {}) {
  simulator.clear();
  simulator.script('*', (request) =>
    request.tools.length > 0 && !request.messages.some(({ role }) => role === 'tool')
      ? { toolCalls: [{ name: 'add', input: { a: 1 } }] }
      : { text: 'It is 42.' },
  );
  const session = await service.createSession({ model });
  const { runId } = await service.send(session, 'Add.', limits);
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

describe('the cost of a run', () => {
  const costs = async (model: string) => {
    const { ended } = await run(model);
    const { cost_usd: ofSession } = await service.deps.db
      .selectFrom('sessions')
      .select('cost_usd')
      .where('id', '=', ended.session_id)
      .executeTakeFirstOrThrow();
    expect(ofSession).toBe(ended.cost_usd);
    return { cost: ended.cost_usd, input: ended.input_tokens, output: ended.output_tokens };
  };

  it.each(['chat', 'responses'])('is by the prices of OpenAI for a provider of its kind: %s', async (provider) => {
    const { cost, input, output } = await costs(`${provider}/gpt-5.5-pro`);
    expect(cost).toBeCloseTo((input * 30 + output * 180) / 1e6, 12);
    expect(cost).toBeGreaterThan(0);
  });

  it('is not known, and never 0, where nobody knows what the model costs', async () => {
    expect(await costs('local/some-model')).toMatchObject({ cost: null });
    expect(await costs('chat/some-model')).toMatchObject({ cost: null });
  });

  it('is kept within a limit: a model that nobody can price is not asked at all', async () => {
    const { ended, requests } = await run('local/some-model', { maxCostUsd: 0.000001 });
    expect(ended).toMatchObject({ status: 'failed', error: { code: 'price_unknown' }, cost_usd: 0 });
    expect(requests).toEqual([]);
    const priced = await run('chat/gpt-5.5-pro', { maxCostUsd: 0.000001 });
    expect(priced.ended).toMatchObject({ status: 'incomplete', status_reason: 'budget' });
  });
});

describe('a window that nobody has told', () => {
  const MODEL = { provider: 'responses', model: 'gpt-99' };
  const learned = () =>
    service.deps.db
      .selectFrom('model_limits')
      .select('context_tokens')
      .where('provider', '=', MODEL.provider)
      .where('model', '=', MODEL.model)
      .executeTakeFirst();

  it('is learned from a refusal that has no numbers: the session goes on, and the next one is not refused', async () => {
    simulator.clear();
    simulator.setWindow(MODEL.model, 20_000);
    simulator.script('*', () => ({ text: 'Noted.' }));
    const talk = async () => {
      const before = simulator.requests.length;
      const session = await service.createSession({ model: 'responses/gpt-99' });
      for (let at = 0; at < 9; at++) {
        const words = Array.from({ length: 900 }, (_, index) => `word${at}x${index % 97}`).join(' ');
        const { runId } = await service.send(session, words);
        expect(await service.ended(runId)).toMatchObject({ status: 'completed', error: null });
      }
      return simulator.requests.slice(before).filter(({ refusal }) => refusal !== undefined).length;
    };
    expect(await learned()).toBeUndefined();
    expect(await talk()).toBeGreaterThan(0);
    const { context_tokens: tokens } = (await learned()) ?? {};
    expect(tokens).toBeGreaterThan(8_000);
    expect(tokens).toBeLessThanOrEqual(20_000);
    expect(await talk()).toBe(0);
  }, 120_000);
});

describe('a model that its endpoint takes no tools for', () => {
  const refusal = (model: string) => ({
    status: 400,
    body: { error: { message: `registry.ollama.ai/library/${model} does not support tools`, type: 'api_error' } },
  });
  const ask = async (model: string) => {
    const before = simulator.requests.length;
    const session = await service.createSession({
      model: `local/${model}`,
      instructions: 'Use your tools.',
      tools: ['test'],
    });
    const ended = await service.ended((await service.send(session, 'Add.')).runId);
    const requests = simulator.requests.slice(before).map(({ request }) => request);
    const shown = requests.map((request) => ({
      tools: (request?.tools.length ?? 0) > 0,
      isTold: (request?.system ?? '').includes('No tools can be called here'),
    }));
    return { ended, shown };
  };

  it('is asked the same without tools, is told so, and is asked so from then on by all sessions', async () => {
    simulator.clear();
    simulator.script('*', () => ({ text: 'I would add them.' }));
    simulator.fault('plain', refusal('plain'));
    const first = await ask('plain');
    expect(first.ended).toMatchObject({ status: 'completed', step_count: 1, error: null });
    expect(first.shown).toEqual([
      { tools: true, isTold: false },
      { tools: false, isTold: true },
    ]);
    const next = await ask('plain');
    expect(next.shown).toEqual([{ tools: false, isTold: true }]);
    expect((await ask('other')).shown).toEqual([{ tools: true, isTold: false }]);
    await sql`update model_limits set tools_refused_at = tools_refused_at - interval '1 day'`.execute(service.deps.db);
    expect((await ask('plain')).shown).toEqual([{ tools: true, isTold: false }]);
  });

  it('ends the run where it is refused without tools as well', async () => {
    simulator.clear();
    simulator.script('*', () => ({ text: 'Never said.' }));
    for (const _ of [1, 2]) simulator.fault('stubborn', refusal('stubborn'));
    const { ended, shown } = await ask('stubborn');
    expect(ended).toMatchObject({ status: 'failed', error: { code: 'tools_unsupported' } });
    expect(shown).toHaveLength(2);
  });
});
