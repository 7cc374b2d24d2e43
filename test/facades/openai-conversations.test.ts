import OpenAI from 'openai';
import type { ChatCompletionMessageParam, ChatCompletionTool } from 'openai/resources/chat/completions';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { agentSchema } from '../../src/agents/agent.ts';
import { createCatalogue } from '../../src/agents/load-agents.ts';
import { startApi } from '../../src/app/api-server.ts';
import { createApp } from '../../src/app/app.ts';
import { BatonError } from '../../src/domain/errors.ts';
import { formatId } from '../../src/domain/ids.ts';
import { revokeApiKey } from '../../src/store/around/api-keys.ts';
import { createWaitingTools } from '../flow/waiting-scenario.ts';
import { eventually } from '../support/eventually.ts';
import { createTestKey } from '../support/keys.ts';
import { type ChatService, startChatService } from './ui-chat-fixture.ts';

const { tools: TOOLS } = createWaitingTools();
const AGENTS = Array.from({ length: 12 }, (_, n) => ({ name: `model-${n}`, tools: n === 0 ? [] : ['test'] }));
const CATALOGUE = createCatalogue(
  AGENTS.map((agent) => agentSchema.parse({ model: `simulated/${agent.name}`, ...agent })),
);
let started: ChatService;
let client: OpenAI;
let taken = 1;

function nextModel(replies: Parameters<ChatService['service']['simulator']['script']>[1], model = `model-${taken++}`) {
  started.service.simulator.script(model, replies);
  return model;
}

const user = (content: string): ChatCompletionMessageParam => ({ role: 'user', content });
const assistant = (content: string): ChatCompletionMessageParam => ({ role: 'assistant', content });
const system = (content: string): ChatCompletionMessageParam => ({ role: 'system', content });
const tool = (fields: object = {}): ChatCompletionTool => ({
  type: 'function',
  function: { name: 'weather', description: 'Tells the weather.', ...fields },
});
const sessionsOf = (model: string) =>
  started.service.deps.db.selectFrom('sessions').selectAll().where('agent_name', '=', model).execute();
const runsOf = async (model: string) => {
  const ids = (await sessionsOf(model)).map(({ id }) => id);
  const runs = started.service.deps.db.selectFrom('runs').selectAll().orderBy('created_at');
  return runs.where('session_id', 'in', ids).execute();
};
const ask = (model: string, messages: ChatCompletionMessageParam[], fields: object = {}, headers = {}) =>
  client.chat.completions.create({ model, messages, ...fields }, { headers });

describe('a conversation of the openai client', () => {
  beforeAll(async () => {
    started = await startChatService(AGENTS, TOOLS);
    client = new OpenAI({ baseURL: `${started.url}/v1`, apiKey: 'none', maxRetries: 0 });
  });
  afterAll(() => started[Symbol.asyncDispose]());

  test('is nobody else’s that looks the same: instructions and user tell them apart', async () => {
    const model = nextModel([{ text: 'Hello!' }, { text: 'Two.' }]);
    await ask(model, [system('You serve Ann.'), user('Hi')]);
    const goOn = [user('Hi'), assistant('Hello!'), user('More')];
    await ask(model, [system('You serve Bob.'), ...goOn]);
    expect(await sessionsOf(model)).toHaveLength(2);
    await ask(model, [system('You serve Ann.'), ...goOn], { user: 'ann' });
    expect(await sessionsOf(model)).toHaveLength(3);
    await ask(model, [{ role: 'developer', content: ' You serve Ann. ' }, ...goOn]);
    expect(await sessionsOf(model)).toHaveLength(3);
  });

  test('may offer a tool of which it says nothing', async () => {
    const model = nextModel([{ text: 'Hello!' }]);
    const { data, response } = await client.chat.completions
      .create({ model, messages: [user('Hi')], tools: [tool({ description: '' })] })
      .withResponse();
    expect(data.choices[0]?.message.content).toBe('Hello!');
    const context = await fetch(`${started.url}/v1/sessions/${response.headers.get('x-session-id')}/context`);
    expect(context.status).toBe(200);
  });

  test('is refused with tools that could not be used', async () => {
    const model = nextModel([{ text: 'Hello!' }], 'model-0');
    await expect(ask(model, [user('Hi')], { tools: [tool({ name: 'read_tool_output' })] })).rejects.toMatchObject({
      status: 400,
      param: 'tools',
    });
    const deep = `{"type":"object","x":${'['.repeat(105)}${']'.repeat(105)}}`;
    const body = JSON.stringify({ model, messages: [user('Hi')], tools: [tool({ parameters: 'HERE' })] });
    const response = await fetch(`${started.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: body.replace('"HERE"', deep),
    });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { param: 'tools.0.function.parameters' } });
    expect(await sessionsOf(model)).toEqual([]);
  });

  test('that leaves calls without results is refused, and can still give them', async () => {
    const model = nextModel([{ toolCalls: [{ name: 'weather', input: {} }] }, { text: 'Sun.' }]);
    const { choices } = await ask(model, [user('Weather?')], { tools: [tool()] });
    const [choice] = choices;
    const messages = [user('Weather?'), ...(choice === undefined ? [] : [choice.message])];
    await expect(ask(model, [...messages, user('And?')], { tools: [tool()] })).rejects.toMatchObject({
      status: 400,
      param: 'messages',
    });
    const id = choice?.message.tool_calls?.[0]?.id ?? '';
    const given = await ask(model, [...messages, { role: 'tool', tool_call_id: id, content: 'sun' }]);
    expect(given.choices[0]?.message.content).toBe('Sun.');
    expect(await runsOf(model)).toHaveLength(1);
  });

  test('gets the results of calls and what the user says with them into one session, whatever else has changed', async () => {
    const model = nextModel([{ toolCalls: [{ name: 'weather', input: {} }] }, { text: 'Sun.' }]);
    const { choices } = await ask(model, [user('Weather?')], { tools: [tool()] });
    const message = choices.flatMap((choice) => choice.message);
    const id = message[0]?.tool_calls?.[0]?.id ?? '';
    const result: ChatCompletionMessageParam = { role: 'tool', tool_call_id: id, content: 'sun' };
    await ask(model, [system('Be brief.'), user('Weather?'), ...message, result, user('In a word?')]);
    expect(await sessionsOf(model)).toHaveLength(1);
    expect(await runsOf(model)).toHaveLength(1);
  });

  test('is another one once its session was told something else', async () => {
    const model = nextModel([{ text: 'Hello!' }, { text: 'Two.' }]);
    await ask(model, [user('Hi')]);
    const [session] = await sessionsOf(model);
    const sent = await fetch(`${started.url}/v1/sessions/${formatId('session', session?.id ?? '')}/messages`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ content: 'A secret.' }),
    });
    expect(sent.status).toBe(202);
    await ask(model, [user('Hi'), assistant('Hello!'), user('More')]);
    expect(await sessionsOf(model)).toHaveLength(2);
  });

  test('goes on without asking its agent’s MCP servers, which only a new session needs', async () => {
    const model = nextModel([{ text: 'Hello!' }, { text: 'Still here.' }]);
    const asked: string[] = [];
    const pinTools: ChatService['service']['deps']['pinTools'] = async (agent) => {
      asked.push(agent.name);
      if (asked.length === 1) return agent;
      throw new BatonError('tools_unavailable', 'The MCP server docs cannot be reached.');
    };
    await using server = await startApi({ ...started.service.deps, agents: CATALOGUE, pinTools });
    const own = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0 });
    const askOwn = (...messages: ChatCompletionMessageParam[]) => own.chat.completions.create({ model, messages });
    await askOwn(user('Hi'));
    const { choices } = await askOwn(user('Hi'), assistant('Hello!'), user('Are you there?'));
    expect(choices[0]?.message.content).toBe('Still here.');
    expect(asked).toEqual([model]);
    await expect(askOwn(user('Somebody else'))).rejects.toMatchObject({ status: 503, code: 'tools_unavailable' });
    expect(await sessionsOf(model)).toHaveLength(1);
  });

  test('that is aborted before anything was told of it ends its run', async () => {
    const model = nextModel([{ text: 'Never.', gates: { beforeEnd: 'early' } }]);
    const { deps } = started.service;
    const app = createApp({ ...deps, agents: CATALOGUE, readiness: deps.health.readiness });
    const request = {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model, messages: [user('Hi')], stream: true }),
      signal: AbortSignal.abort(),
    };
    const response = await app.request('/v1/chat/completions', request, { openWithoutKeys: true });
    expect(response.status).toBe(200);
    await eventually(async () => (await runsOf(model))[0]?.status === 'cancelled', 'the run is cancelled');
  });

  test.each(['stream', 'whole'])(
    'that a stopping server leaves behind is told so, and not to ask again: %s',
    async (form) => {
      const model = nextModel([{ text: 'One two three.', gates: { beforeEnd: `stop-${form}` } }]);
      await using server = await startApi({ ...started.service.deps, agents: CATALOGUE });
      const own = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 2 });
      const fields = { model, messages: [user('Hi')] };
      const options = { headers: { 'idempotency-key': form } };
      const failed =
        form === 'whole'
          ? own.chat.completions.create(fields, options)
          : own.chat.completions.create({ ...fields, stream: true }, options).then((stream) => Array.fromAsync(stream));
      const told = expect(failed).rejects.toMatchObject({ code: 'store_unavailable', type: 'server_error' });
      await started.service.simulator.gate(`stop-${form}`).reached;
      await server[Symbol.asyncDispose]();
      await told;
      started.service.simulator.gate(`stop-${form}`).release();
      await eventually(async () => (await runsOf(model))[0]?.status === 'completed', 'the run goes on');
      // The same request again has the run's answer.
      const { choices } = await ask(model, [user('Hi')], {}, options.headers);
      expect(choices[0]?.message.content).toBe('One two three.');
      expect(await runsOf(model)).toHaveLength(1);
    },
  );

  // The last one: from now on every request needs a key.
  test('that is told to a key ends with an error when the key is revoked', async () => {
    const model = nextModel([{ text: 'One two three.', gates: { beforeEnd: 'revoked' } }]);
    const { db } = started.service.deps;
    const key = await createTestKey(db);
    const own = new OpenAI({ baseURL: `${started.url}/v1`, apiKey: key.secret, maxRetries: 2 });
    const stream = await own.chat.completions.create({ model, messages: [user('Hi')], stream: true });
    const told = expect(Array.fromAsync(stream)).rejects.toMatchObject({ code: 'invalid_api_key' });
    await started.service.simulator.gate('revoked').reached;
    await db.transaction().execute((tx) => revokeApiKey(tx, key.id));
    await told;
    started.service.simulator.gate('revoked').release();
  });
});
