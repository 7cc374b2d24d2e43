import OpenAI from 'openai';
import type { ChatCompletionMessageParam, ChatCompletionTool } from 'openai/resources/chat/completions';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { contextPolicySchema } from '../../src/domain/context/limits/policy.ts';
import { parseId } from '../../src/domain/ids.ts';
import { listMessages } from '../../src/store/transcript/messages.ts';
import { prose, requestsOf } from '../compaction/compaction-support.ts';
import { createWaitingTools } from '../flow/waiting-scenario.ts';
import { eventually } from '../support/eventually.ts';
import { createTestKey } from '../support/keys.ts';
import { type ChatService, startChatService } from './ui-chat-fixture.ts';

const WINDOW = 16_000;
const { tools } = createWaitingTools();
const AGENTS = Array.from({ length: 12 }, (_, n) => ({ name: `model-${n}`, tools: ['test'] }));
const SMALL = contextPolicySchema.parse({ maxContextTokens: WINDOW, compaction: { notice: 'text' } });
let started: ChatService;
let client: OpenAI;
let taken = 0;

function nextModel(replies: Parameters<ChatService['service']['simulator']['script']>[1]): string {
  const model = `model-${taken++}`;
  started.service.simulator.script(model, replies);
  return model;
}

const user = (content: string): ChatCompletionMessageParam => ({ role: 'user', content });
const sessionsOf = (model: string) =>
  started.service.deps.db.selectFrom('sessions').selectAll().where('agent_name', '=', model).execute();
const runsOf = async (model: string) => {
  const ids = (await sessionsOf(model)).map(({ id }) => id);
  return started.service.deps.db.selectFrom('runs').selectAll().where('session_id', 'in', ids).execute();
};

const WEATHER: ChatCompletionTool = {
  type: 'function',
  function: {
    name: 'weather',
    description: 'Tells the weather.',
    parameters: { type: 'object', properties: { city: { type: 'string' } } },
  },
};

describe('the openai client', () => {
  beforeAll(async () => {
    const full = {
      name: 'full',
      context: {
        ...SMALL,
        compaction: { ...SMALL.compaction, strategy: 'manual' as const },
        prune: { ...SMALL.prune, enabled: false },
      },
    };
    started = await startChatService([...AGENTS, { name: 'small', context: SMALL }, full], tools);
    for (const name of ['small', 'full']) started.service.simulator.setWindow(name, WINDOW);
    client = new OpenAI({ baseURL: `${started.url}/v1`, apiKey: 'none', maxRetries: 0 });
  });
  afterAll(() => started[Symbol.asyncDispose]());

  test('lists the agents as models', async () => {
    const ids: string[] = [];
    for await (const model of client.models.list()) ids.push(model.id);
    expect(ids).toContain('small');
  });

  test('gets completions of a conversation that it sends again as a whole; the session is the same', async () => {
    const model = nextModel([
      { text: 'One.' },
      { toolCalls: [{ name: 'look', input: {} }], text: 'Let me look.' },
      { text: 'Two.' },
      { text: 'Three.' },
    ]);
    const messages: ChatCompletionMessageParam[] = [{ role: 'system', content: 'Be brief.' }, user('First')];
    for (const said of ['Second', 'Third', null]) {
      const { choices, usage, object } = await client.chat.completions.create({
        model,
        messages,
        temperature: 0.3,
        max_completion_tokens: 500,
      });
      const [choice] = choices;
      expect(object).toBe('chat.completion');
      expect(choice?.finish_reason).toBe('stop');
      expect(usage?.total_tokens).toBe((usage?.prompt_tokens ?? 0) + (usage?.completion_tokens ?? 0));
      // Like many clients, the test sends an answer back with other white space.
      messages.push({ role: 'assistant', content: `${choice?.message.content} ` });
      if (said !== null) messages.push({ role: 'user', content: [{ type: 'text', text: said }] });
    }
    expect(messages.map(({ content }) => content)).toContain('Let me look.\n\nTwo. ');
    const [session, ...others] = await sessionsOf(model);
    expect(others).toEqual([]);
    expect(session?.agent_snapshot).toMatchObject({
      instructions: 'Be brief.',
      settings: { temperature: 0.3, maxOutputTokens: 500 },
    });
    expect(session?.agent_base).toMatchObject({ instructions: '', settings: {} });
    expect(await runsOf(model)).toHaveLength(3);
  });

  test('streams, with usage where it asks for it', async () => {
    const model = nextModel([{ reasoning: 'Hm.', text: 'A longer answer.', chunkChars: 3 }, { text: 'Again.' }]);
    const stream = await client.chat.completions.create({
      model,
      messages: [user('Hi')],
      stream: true,
      stream_options: { include_usage: true },
    });
    let text = '';
    const ends: unknown[] = [];
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta.content ?? '';
      if (chunk.choices[0]?.finish_reason != null) ends.push(chunk.choices[0].finish_reason);
      if (chunk.usage != null) ends.push(chunk.usage.total_tokens);
    }
    expect(text).toBe('A longer answer.');
    expect(ends).toEqual(['stop', expect.any(Number)]);
    const runner = client.chat.completions.stream({
      model,
      messages: [user('Hi'), { role: 'assistant', content: text }, user('Again')],
    });
    expect((await runner.finalMessage()).content).toBe('Again.');
    expect(await sessionsOf(model)).toHaveLength(1);
  });

  test('runs tools of its own: the same run goes on with their results', async () => {
    const model = nextModel([
      {
        text: 'Let me see.',
        toolCalls: [
          { name: 'weather', input: { city: 'Rome' } },
          { name: 'weather', input: { city: 'Oslo' } },
        ],
      },
      { text: 'Sun and snow.' },
      { text: 'Bye.' },
    ]);
    const messages = [user('Weather?')];
    const first = await client.chat.completions.create({ model, messages, tools: [WEATHER] });
    expect(first.choices[0]?.finish_reason).toBe('tool_calls');
    const calls = first.choices[0]?.message.tool_calls ?? [];
    expect(calls.map((call) => call.type === 'function' && call.function)).toEqual([
      { name: 'weather', arguments: '{"city":"Rome"}' },
      { name: 'weather', arguments: '{"city":"Oslo"}' },
    ]);
    if (first.choices[0] !== undefined) messages.push(first.choices[0].message);
    for (const { id } of calls) messages.push({ role: 'tool', tool_call_id: id, content: `weather of ${id}` });
    const stream = client.chat.completions.stream({ model, messages, tools: [WEATHER] });
    const final = await stream.finalMessage();
    expect(final.content).toBe('Sun and snow.');
    expect(await runsOf(model)).toMatchObject([{ status: 'completed', step_count: 2 }]);
    messages.push(final, user('Thanks'));
    const last = await client.chat.completions.create({ model, messages, tools: [WEATHER] });
    expect(last.choices[0]?.message.content).toBe('Bye.');
    expect(await sessionsOf(model)).toHaveLength(1);
    const shown = started.service.simulator.requests.at(-1)?.request?.messages ?? [];
    expect(shown.flatMap(({ toolResults }) => toolResults.map(({ output }) => output))).toHaveLength(2);
  });

  test('runs a loop of tools by its own helper', async () => {
    const model = nextModel([{ toolCalls: [{ name: 'weather', input: { city: 'Rome' } }] }, { text: 'Sun.' }]);
    const asked: unknown[] = [];
    const runner = client.chat.completions.runTools({
      model,
      messages: [user('Weather?')],
      stream: true,
      tools: [
        {
          type: 'function',
          function: {
            name: 'weather',
            description: 'Tells the weather.',
            parse: JSON.parse,
            parameters: { type: 'object', properties: {} },
            function: (args: unknown) => {
              asked.push(args);
              return 'sunny';
            },
          },
        },
      ],
    });
    expect(await runner.finalContent()).toBe('Sun.');
    expect(asked).toEqual([{ city: 'Rome' }]);
    expect(await runsOf(model)).toHaveLength(1);
  });

  test('aborts: the run of a session that nobody can find again ends, a named one goes on', async () => {
    const held = { text: 'One two three.', chunkChars: 3, gates: { afterChunks: { count: 2, gate: 'held' } } };
    const model = nextModel([held]);
    const stream = await client.chat.completions.create({ model, messages: [user('Hi')], stream: true });
    await started.service.simulator.gate('held').reached;
    stream.controller.abort();
    await eventually(async () => (await runsOf(model))[0]?.status === 'cancelled', 'the run is cancelled');
    const named = nextModel([{ ...held, gates: { afterChunks: { count: 2, gate: 'named' } } }, { text: 'Next.' }]);
    const headers = { 'x-session-id': 'my-session' };
    const kept = await client.chat.completions.create(
      { model: named, messages: [user('Hi')], stream: true },
      { headers },
    );
    await started.service.simulator.gate('named').reached;
    kept.controller.abort();
    started.service.simulator.gate('named').release();
    await eventually(async () => (await runsOf(named))[0]?.status === 'completed', 'the run goes on');
    // A client that names its session sends the new message, and may also send the earlier ones.
    const { data, response } = await client.chat.completions
      .create(
        { model: named, messages: [user('Hi'), { role: 'assistant', content: 'One tw' }, user('And?')] },
        { headers },
      )
      .withResponse();
    expect(data.choices[0]?.message.content).toBe('Next.');
    const id = String(response.headers.get('x-session-id'));
    const transcript = await listMessages(started.service.deps.db, 'default', parseId('session', id) ?? '', {
      afterSeq: 0,
      limit: 100,
    });
    expect(transcript.map(({ role }) => role)).toEqual(['user', 'assistant', 'user', 'assistant']);
  });

  test('keeps two conversations apart that are the same so far', async () => {
    const model = nextModel([{ text: 'Hello!' }, { text: 'Two.', gates: { beforeEnd: 'apart' } }]);
    const begin = () => client.chat.completions.create({ model, messages: [user('Hi')] });
    const [one, two] = [await begin(), await begin()];
    expect(one.choices[0]?.message.content).toBe(two.choices[0]?.message.content);
    expect(await sessionsOf(model)).toHaveLength(2);
    const goOn = (content: string) =>
      client.chat.completions.create({
        model,
        messages: [user('Hi'), { role: 'assistant', content: 'Hello!' }, user(content)],
      });
    const first = goOn('from one');
    await started.service.simulator.gate('apart').reached;
    const second = goOn('from two');
    await eventually(async () => (await runsOf(model)).length === 4, 'both are at work at once');
    started.service.simulator.gate('apart').release();
    await Promise.all([first, second]);
    const { db } = started.service.deps;
    for (const { id } of await sessionsOf(model)) {
      const roles = (await listMessages(db, 'default', id, { afterSeq: 0, limit: 100 })).map(({ role }) => role);
      expect(roles).toEqual(['user', 'assistant', 'user', 'assistant']);
    }
    expect(await sessionsOf(model)).toHaveLength(2);
  });

  test('sends a conversation that nobody knows and that is larger than the window: it is compacted once, not refused', async () => {
    started.service.simulator.script('small', [{ text: 'Here.' }, { text: 'Still here.' }]);
    const messages = Array.from({ length: 24 }, (_, n): ChatCompletionMessageParam => {
      return n % 2 === 0 ? user(`${n} ${prose(n, 1_500)}`) : { role: 'assistant', content: `${n} ${prose(n, 1_500)}` };
    });
    messages.push(user('Are you there?'));
    const stream = client.chat.completions.stream({ model: 'small', messages });
    const { content } = await stream.finalMessage();
    expect(content).toMatch(/^⚙️ Compacting…\n\n✅ Compacted: \d+ → \d+ tokens\n\nHere\.$/);
    const summaries = requestsOf(started.service).summaries.length;
    messages.push({ role: 'assistant', content }, user('And now?'));
    const next = await client.chat.completions.create({ model: 'small', messages });
    expect(next.choices[0]?.message.content).toBe('Still here.');
    expect(requestsOf(started.service).summaries).toHaveLength(summaries);
    expect(requestsOf(started.service).violations).toEqual([]);
    const [session, ...others] = await sessionsOf('small');
    expect(others).toEqual([]);
    expect(session?.compaction_count).toBe(summaries === 0 ? 0 : 1);
    const transcript = await listMessages(started.service.deps.db, 'default', session?.id ?? '', {
      afterSeq: 0,
      limit: 1_000,
    });
    expect(transcript.filter(({ runId }) => runId === null).length).toBeGreaterThanOrEqual(24);
  });

  test('is told what is wrong in the form of its own errors', async () => {
    const model = nextModel([{ text: 'x' }]);
    const ask = (fields: object) => client.chat.completions.create({ model, messages: [user('Hi')], ...fields });
    await expect(ask({ model: 'nobody' })).rejects.toThrow(OpenAI.NotFoundError);
    await expect(ask({ model: 'nobody' })).rejects.toMatchObject({ code: 'model_not_found', param: 'model' });
    await expect(ask({ stop: ['a'] })).rejects.toMatchObject({
      status: 400,
      param: 'stop',
      type: 'invalid_request_error',
    });
    await expect(ask({ n: 2 })).rejects.toThrow(/only 1/);
    const json_schema = { name: 'x', schema: { type: 'object', properties: { at: { type: 'place' } } } };
    await expect(ask({ response_format: { type: 'json_schema', json_schema } })).rejects.toMatchObject({
      param: 'response_format.json_schema.schema.properties.at.type',
    });
    await expect(ask({ tool_choice: 'required' })).rejects.toMatchObject({ param: 'tool_choice' });
    await expect(ask({ messages: [] })).rejects.toThrow(OpenAI.BadRequestError);
    await expect(ask({ messages: [{ role: 'assistant', content: 'x' }] })).rejects.toThrow(OpenAI.BadRequestError);
    await expect(
      ask({ tools: [{ ...WEATHER, function: { ...WEATHER.function, name: 'look' } }] }),
    ).rejects.toMatchObject({
      status: 400,
      param: 'tools',
    });
    const image = [{ type: 'image_url', image_url: { url: 'data:' } }];
    await expect(ask({ messages: [{ role: 'user', content: image }] })).rejects.toThrow(OpenAI.BadRequestError);
    expect(await sessionsOf(model)).toEqual([]);
    started.service.simulator.fault(model, [{ status: 401 }, { status: 401 }]);
    await expect(ask({})).rejects.toMatchObject({ status: 502, code: 'auth', type: 'server_error' });
    const stream = await client.chat.completions.create({ model, messages: [user('Hi')], stream: true });
    await expect(Array.fromAsync(stream)).rejects.toMatchObject({ code: 'auth' });
    await expect(ask({ messages: [user(prose(1, 400_000))] })).rejects.toMatchObject({ status: 400 });
  });

  test('is told that the context is full, and who may not ask, likewise', async () => {
    const { db } = started.service.deps;
    const messages = [user(prose(1, 20_000))];
    await expect(client.chat.completions.create({ model: 'full', messages })).rejects.toMatchObject({
      status: 400,
      code: 'context_length_exceeded',
      type: 'invalid_request_error',
    });
    const model = nextModel([{ text: 'One.' }, { text: 'Two.' }]);
    const headers = { 'x-session-id': 'shared-name' };
    await client.chat.completions.create({ model, messages: [user('Hi')] }, { headers });
    const key = await createTestKey(db, 'other');
    await expect(client.models.list()).rejects.toThrow(OpenAI.AuthenticationError);
    await expect(client.chat.completions.create({ model, messages: [user('Hi')] })).rejects.toMatchObject({
      status: 401,
      code: 'invalid_api_key',
    });
    const other = new OpenAI({ baseURL: `${started.url}/v1`, apiKey: key.secret, maxRetries: 0 });
    await other.chat.completions.create({ model, messages: [user('Hi')] }, { headers });
    expect((await sessionsOf(model)).map(({ tenant_id: tenant }) => tenant).toSorted()).toEqual(['default', 'other']);
    // One tenant's conversation is never continued for another tenant.
    const conversation = [user('Hi'), { role: 'assistant', content: 'One.' } as const, user('More')];
    await other.chat.completions.create({ model, messages: conversation });
    const transcripts = await Promise.all(
      (await sessionsOf(model)).map(({ tenant_id: tenant, id }) =>
        listMessages(db, tenant, id, { afterSeq: 0, limit: 100 }),
      ),
    );
    expect(transcripts.map(({ length }) => length).toSorted()).toEqual([2, 2, 4]);
  });
});
