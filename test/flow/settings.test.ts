import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Simulator, startSimulator } from '../../simulator/server.ts';
import { type ModelSettings, SETTING_FIELDS } from '../../src/domain/model/model-settings.ts';
import type { ModelProtocol } from '../../src/domain/model/shown-media.ts';
import type { Tool } from '../../src/tools/tool.ts';
import { startTestService, type TestService } from '../support/service.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const look: Tool = {
  name: 'look',
  description: 'Looks.',
  inputSchema: { type: 'object', additionalProperties: true },
  execute: async () => 'nothing there',
};

/** The providers of the test, one for each protocol. */
const PROVIDERS: Readonly<Record<ModelProtocol, string>> = {
  'openai-responses': 'responses',
  'openai-chat': 'chat',
  'openai-compatible': 'local',
  'anthropic-messages': 'claude',
};

let stack: AsyncDisposableStack;
let simulator: Simulator;
let service: TestService;
beforeAll(async () => {
  stack = new AsyncDisposableStack();
  simulator = stack.use(await startSimulator());
  const folder = stack.use(await temporaryFolder());
  const file = path.join(folder.path, 'providers.json');
  const at = { baseUrl: `${simulator.url}/v1`, apiKeyEnv: 'SETTINGS_KEY' };
  const kinds = { responses: 'openai', chat: 'openai-chat', local: 'openai-compatible', claude: 'anthropic' };
  const providers = Object.fromEntries(Object.entries(kinds).map(([name, kind]) => [name, { kind, ...at }]));
  writeFileSync(file, JSON.stringify({ providers }));
  process.env['SETTINGS_KEY'] = 'sk-settings';
  const environment = { BATON_PROVIDERS_FILE: file };
  service = stack.use(await startTestService({ backend: 'postgres', tools: [look], environment }));
  await service.startWorker();
});
afterAll(() => stack.disposeAsync());

type Body = Readonly<Record<string, unknown>>;

/** The request bodies that arrive at the provider from one run of an agent with these settings. */
async function bodiesOf(model: string, settings: ModelSettings, script: Parameters<Simulator['script']>[1]) {
  simulator.clear();
  simulator.script('*', script);
  const session = await service.createSession({ model, settings, tools: script === ANSWER ? [] : ['test'] });
  const run = await service.ended((await service.send(session, 'Go')).runId);
  expect(run).toMatchObject({ status: 'completed' });
  expect(simulator.requests.flatMap(({ violations }) => violations)).toEqual([]);
  return simulator.requests.map(({ rawBody }): Body => JSON.parse(rawBody ?? '{}'));
}

const ANSWER = () => ({ text: 'Done.' });

const at = (body: Body | undefined, field: string): unknown =>
  field.split('.').reduce<unknown>((value, key) => (value as Body | undefined)?.[key], body);

/** A setting, the agent's value for it, and the value that arrives at the provider. */
const SENT: readonly (readonly [keyof ModelSettings, ModelSettings, unknown])[] = [
  ['temperature', { temperature: 0.7 }, 0.7],
  ['topP', { topP: 0.9 }, 0.9],
  ['topK', { topK: 40 }, 40],
  ['seed', { seed: 7 }, 7],
  ['stopSequences', { stopSequences: ['STOP', 'END'] }, ['STOP', 'END']],
  ['maxOutputTokens', { maxOutputTokens: 900 }, 900],
  ['reasoning', { reasoning: 'high' }, 'high'],
];

/** For each protocol, a reasoning model by a name that its provider package knows. */
const REASONING_MODELS: Readonly<Record<ModelProtocol, string>> = {
  'openai-responses': 'gpt-5.4',
  'openai-chat': 'o4-mini',
  'openai-compatible': 'gpt-oss',
  'anthropic-messages': 'claude-opus-4-8',
};

const ROWS = Object.entries(SETTING_FIELDS).flatMap(([protocol, fields]) =>
  SENT.map(([name, settings, value]) => [protocol as ModelProtocol, name, fields[name], settings, value] as const),
);

describe('a setting of an agent', () => {
  it.each(ROWS)('as %s sends it: %s is %s', async (protocol, name, field, settings, value) => {
    const model = name === 'reasoning' ? REASONING_MODELS[protocol] : 'some-model';
    const [body] = await bodiesOf(`${PROVIDERS[protocol]}/${model}`, settings, ANSWER);
    const [bare] = await bodiesOf(`${PROVIDERS[protocol]}/${model}`, {}, ANSWER);
    if (field === null) {
      // The request mentions the setting under no name.
      expect(Object.keys(body ?? {})).toEqual(Object.keys(bare ?? {}));
    } else if (protocol === 'anthropic-messages' && name === 'reasoning') {
      expect(body).toMatchObject({ thinking: { type: 'adaptive' }, output_config: { effort: 'high' } });
      expect(bare).not.toHaveProperty('thinking');
    } else {
      expect(at(body, field)).toEqual(value);
      expect(at(bare, field)).not.toEqual(value);
    }
  });
});

describe('thinking with a budget', () => {
  const calling = (reasoning?: string) => (request: { messages: readonly { role: string }[] }) =>
    request.messages.some(({ role }) => role === 'tool')
      ? { text: 'Done.' }
      : { ...(reasoning !== undefined && { reasoning }), toolCalls: [{ name: 'look', input: {} }] };

  it('is part of what the answer may have', async () => {
    const settings = { reasoning: 'medium', maxOutputTokens: 10_000 } as const;
    const [body] = await bodiesOf('claude/claude-haiku-4-5', settings, ANSWER);
    expect(body).toMatchObject({ thinking: { type: 'enabled', budget_tokens: 3_000 }, max_tokens: 10_000 });
  });

  it('goes on through the calls of a model that has thought about them', async () => {
    const settings = { reasoning: 'low', maxOutputTokens: 20_000 } as const;
    const bodies = await bodiesOf('claude/claude-haiku-4-5', settings, calling('I should look.'));
    expect(bodies.map((body) => at(body, 'thinking.type'))).toEqual(['enabled', 'enabled']);
  });

  it('is left out where the model has made its calls without it: the provider would refuse the request', async () => {
    const settings = { reasoning: 'low', maxOutputTokens: 20_000 } as const;
    const bodies = await bodiesOf('claude/claude-haiku-4-5', settings, calling());
    expect(bodies.map((body) => at(body, 'thinking.type'))).toEqual(['enabled', undefined]);
  });

  it('keeps what a request says of earlier thinking of a model that binds it', async () => {
    const [body] = await bodiesOf('claude/claude-opus-5-1', { reasoning: 'high' }, ANSWER);
    expect(body).toMatchObject({
      thinking: { type: 'adaptive', block_binding: { prefix_mismatch_behavior: 'drop_block' } },
      output_config: { effort: 'high' },
    });
    const [little] = await bodiesOf('claude/claude-opus-5-1', { reasoning: 'none' }, ANSWER);
    expect(little).toMatchObject({
      thinking: { block_binding: { prefix_mismatch_behavior: 'drop_block' } },
      output_config: { effort: 'low' },
    });
  });
});
