import OpenAI from 'openai';
import type { ChatCompletionMessageParam } from 'openai/resources/chat/completions';
import { describe, expect, test } from 'vitest';
import { startApi } from '../../src/app/api-server.ts';
import { createTestKey } from '../support/keys.ts';
import {
  assistant,
  CATALOGUE,
  conversationSuite,
  type Replies,
  user,
  WEATHER,
} from './openai-conversations-fixture.ts';

const { service, client, nextModel, sessionsOf, statesOf, runsOf, ask } = conversationSuite();

describe('a conversation with results of tools', () => {
  const calls: Replies = [
    { toolCalls: [{ name: 'weather', input: { city: 'Rome' } }] },
    { text: 'Sun.' },
    { text: 'Bye.' },
  ];
  async function askedFor(model: string, headers = {}): Promise<ChatCompletionMessageParam[]> {
    const fields = { model, messages: [user('Weather?')], tools: [WEATHER] };
    const { choices } = await client().chat.completions.create(fields, { headers });
    expect(choices[0]?.finish_reason).toBe('tool_calls');
    return [user('Weather?'), ...choices.map(({ message }) => message)];
  }
  const resultFor = (messages: ChatCompletionMessageParam[], content: string): ChatCompletionMessageParam => {
    const last = messages.at(-1);
    const id = last?.role === 'assistant' ? last.tool_calls?.[0]?.id : undefined;
    return { role: 'tool', tool_call_id: id ?? '', content };
  };

  test('that were taken already is told the same; other results are refused', async () => {
    const model = nextModel(calls);
    const messages = await askedFor(model);
    const given = [...messages, resultFor(messages, 'sun')];
    expect([await ask(model, given), await ask(model, given)]).toEqual(['Sun.', 'Sun.']);
    await expect(ask(model, [...messages, resultFor(messages, 'snow')])).rejects.toMatchObject({
      status: 409,
      code: 'already_answered',
    });
    expect(await ask(model, [...given, assistant('Sun.'), user('Thanks')])).toBe('Bye.');
    // After the conversation has gone on, the same results still get the same answer.
    expect(await ask(model, given)).toBe('Sun.');
    expect(await statesOf(model)).toEqual(['completed', 'completed']);
    expect(await sessionsOf(model)).toHaveLength(1);
  });

  test('goes on after its run has failed: the results are taken, and the run is not the first one', async () => {
    const model = nextModel(calls);
    const messages = await askedFor(model);
    const given = [...messages, resultFor(messages, 'sun')];
    service().simulator.fault(model, [{ status: 401 }]);
    await expect(ask(model, given)).rejects.toMatchObject({ code: 'auth' });
    expect(await ask(model, given)).toBe('Sun.');
    expect(await statesOf(model)).toEqual(['failed', 'completed']);
    expect(await sessionsOf(model)).toHaveLength(1);
  });

  test('are told the same answer once more, with its usage and no other', async () => {
    const model = nextModel(calls);
    const messages = await askedFor(model);
    const given = [...messages, resultFor(messages, 'sun')];
    const usageOf = async () => (await client().chat.completions.create({ model, messages: given })).usage;
    const first = await usageOf();
    expect(await usageOf()).toEqual(first);
    const [run] = await runsOf(model);
    expect(first?.completion_tokens).toBeGreaterThan(0);
    expect(first?.prompt_tokens).toBeLessThan(run?.input_tokens ?? 0);
  });

  test('in a session with a name: they reach the run that waits, and nothing else is taken before', async () => {
    const model = nextModel(calls);
    const headers = { 'x-session-id': `tools of ${model}` };
    const messages = await askedFor(model, headers);
    await expect(ask(model, [user('Hello?')], {}, headers)).rejects.toMatchObject({ status: 409, code: 'conflict' });
    const other = nextModel(calls);
    await expect(ask(other, [resultFor(messages, 'sun')], {}, { 'x-session-id': 'nobody' })).rejects.toMatchObject({
      status: 409,
    });
    // A client that names its session need not send the earlier messages.
    const result = resultFor(messages, 'sun');
    expect(await ask(model, [result], {}, headers)).toBe('Sun.');
    expect(await ask(model, [result], {}, headers)).toBe('Sun.');
    expect(await statesOf(model)).toEqual(['completed']);
  });

  test('of another service is imported, and its results are answered, once per key', async () => {
    const model = nextModel([{ text: 'Sun.' }, { text: 'Bye.' }]);
    const call = { id: 'call_elsewhere', type: 'function' as const, function: { name: 'weather', arguments: '{}' } };
    const asked: ChatCompletionMessageParam[] = [user('Weather?'), { role: 'assistant', tool_calls: [call] }];
    const given = [...asked, resultFor(asked, 'sun')];
    const headers = { 'idempotency-key': 'elsewhere' };
    expect([await ask(model, given, {}, headers), await ask(model, given, {}, headers)]).toEqual(['Sun.', 'Sun.']);
    const asking = service().simulator.requests.find((record) => record.model === model);
    expect(asking?.request?.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool']);
    expect(await ask(model, [...given, assistant('Sun.'), user('Thanks')])).toBe('Bye.');
    expect(await statesOf(model)).toEqual(['completed', 'completed']);
    expect(await sessionsOf(model)).toHaveLength(1);
    // A model cannot go on while another call has no result.
    const two = { role: 'assistant' as const, tool_calls: [call, { ...call, id: 'call_open' }] };
    await expect(ask(model, [user('Weather?'), two, resultFor(asked, 'sun')])).rejects.toMatchObject({ status: 409 });
  });

  test('is told of a quota that is used up and of too many requests in the form of OpenAI, and can go on later', async () => {
    const model = nextModel(calls);
    const messages = await askedFor(model);
    const given = [...messages, resultFor(messages, 'sun'), user('In a word?')];
    const { deps } = service();
    const quota = { ...deps.quota, tokensPerDay: 1 };
    await using full = await startApi({ ...deps, agents: CATALOGUE, quota });
    const own = new OpenAI({ baseURL: `${full.url}/v1`, apiKey: 'none', maxRetries: 0 });
    await expect(own.chat.completions.create({ model, messages: given })).rejects.toMatchObject({
      status: 429,
      code: 'insufficient_quota',
      type: 'insufficient_quota',
    });
    await expect(own.chat.completions.create({ model, messages: given })).rejects.toThrow(OpenAI.RateLimitError);
    // The refused request has stored none of the results.
    expect(await statesOf(model)).toEqual(['requires_action']);
    expect(await ask(model, given)).toBe('Sun.');
  });

  // The last one: from now on every request needs a key.
  test('is told of too many requests between a call and its result', async () => {
    const model = nextModel([{ toolCalls: [{ name: 'weather', input: {} }] }, { text: 'Sun.' }]);
    const key = await createTestKey(service().deps.db);
    const { deps } = service();
    // The first request of a minute is let through; `limits.test.ts` has the numbers.
    await using api = await startApi({ ...deps, agents: CATALOGUE, config: { ...deps.config, requestsPerMinute: 1 } });
    const own = new OpenAI({ baseURL: `${api.url}/v1`, apiKey: key.secret, maxRetries: 0 });
    const messages = [user('Weather?')];
    const first = await own.chat.completions.create({ model, messages, tools: [WEATHER] });
    const [message] = first.choices.map((choice) => choice.message);
    const id = message?.tool_calls?.[0]?.id ?? '';
    if (message !== undefined) messages.push(message, { role: 'tool', tool_call_id: id, content: 'sun' });
    const limited = async (): Promise<never> => {
      for (;;) await own.models.list();
    };
    await expect(limited()).rejects.toMatchObject({
      status: 429,
      code: 'rate_limit_exceeded',
      type: 'rate_limit_error',
    });
    await expect(own.chat.completions.create({ model, messages })).rejects.toThrow(OpenAI.RateLimitError);
    expect(await statesOf(model)).toEqual(['requires_action']);
  });
});
