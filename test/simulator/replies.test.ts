import { describe, expect, test } from 'vitest';
import { startSimulator } from '../../simulator/server.ts';
import { PROTOCOLS, post, runStep } from './client.ts';

describe.each(PROTOCOLS)('a scripted reply through %s', (protocol) => {
  test('arrives as text in several deltas with its finish reason', async () => {
    await using simulator = await startSimulator({ chunkChars: 5 });
    simulator.script('m', [{ text: 'Good morning, 👋🏽 world.' }]);
    const step = await runStep(simulator.url, protocol);
    expect(step.error).toBeUndefined();
    expect(step.text).toBe('Good morning, 👋🏽 world.');
    expect(step.ofType('text-delta').length).toBeGreaterThan(3);
    expect(step.ofType('text-delta').every(({ text }) => text.isWellFormed())).toBe(true);
    expect(step.finish?.finishReason).toBe('stop');
  });

  test('brings parallel tool calls with their ids and inputs, next to text', async () => {
    await using simulator = await startSimulator({ chunkChars: 4 });
    const calls = [
      { id: 'call_a', name: 'add', input: { a: 1, b: 2 } },
      { id: 'call_b', name: 'look', input: { path: 'src/é.ts' } },
    ];
    simulator.script('m', [{ text: 'Both at once.', toolCalls: calls }]);
    const step = await runStep(simulator.url, protocol);
    expect(step.text).toBe('Both at once.');
    expect(step.calls).toEqual([
      { toolCallId: 'call_a', toolName: 'add', input: { a: 1, b: 2 } },
      { toolCallId: 'call_b', toolName: 'look', input: { path: 'src/é.ts' } },
    ]);
    expect(step.finish?.finishReason).toBe('tool-calls');
  });

  test.each(['length', 'content-filter'] as const)('can end with %s', async (finishReason) => {
    await using simulator = await startSimulator();
    simulator.script('m', [{ text: 'Cut he', finishReason }]);
    expect((await runStep(simulator.url, protocol)).finish?.finishReason).toBe(finishReason);
  });

  test('reports the usage it is told to report', async () => {
    await using simulator = await startSimulator();
    simulator.script('m', [{ text: 'x', usage: { input: 900, cacheRead: 600, output: 70, reasoning: 50 } }]);
    const usage = (await runStep(simulator.url, protocol)).finish?.usage;
    expect(usage).toMatchObject({ inputTokens: 900, outputTokens: 70, totalTokens: 970 });
    expect(usage?.inputTokenDetails).toMatchObject({ cacheReadTokens: 600, noCacheTokens: 300 });
    expect(usage?.outputTokenDetails).toMatchObject({ reasoningTokens: 50, textTokens: 20 });
  });

  test('brings url citations as sources', async () => {
    await using simulator = await startSimulator();
    simulator.script('m', [{ text: 'See there.', sources: [{ url: 'https://example.com/a', title: 'A' }] }]);
    const step = await runStep(simulator.url, protocol);
    expect(step.ofType('source')).toMatchObject([{ sourceType: 'url', url: 'https://example.com/a', title: 'A' }]);
  });

  test('keeps text that comes after the tool calls', async () => {
    await using simulator = await startSimulator();
    const toolCalls = [{ name: 'look', input: { path: 'a' } }];
    simulator.script('m', [{ text: 'Before. ', toolCalls, textAfterTools: 'After.' }]);
    const step = await runStep(simulator.url, protocol);
    expect(step.text).toBe('Before. After.');
    expect(step.calls).toHaveLength(1);
  });

  test('is played in order per cache key and then closes the turn', async () => {
    await using simulator = await startSimulator();
    simulator.script('m', [{ text: 'one' }, { text: 'two' }]);
    const texts: string[] = [];
    for (const cacheKey of ['a', 'b', 'a', 'a']) {
      texts.push((await runStep(simulator.url, protocol, { cacheKey })).text);
    }
    expect(texts).toEqual(['one', 'one', 'two', 'END_OF_SCRIPT']);
  });

  test('may come from a function that sees the request in normal form', async () => {
    await using simulator = await startSimulator();
    simulator.script('*', (request) => ({
      text: JSON.stringify([request.protocol, request.system, request.messages.at(-1)?.text, request.index]),
    }));
    const step = await runStep(simulator.url, protocol, { maxOutputTokens: 77 });
    expect(JSON.parse(step.text)).toEqual([protocol, 'You are brief.', 'Hello', 0]);
    const [record] = simulator.requests;
    expect(record?.request?.tools.map((each) => each.name)).toEqual(['add', 'look']);
    expect(record?.request?.maxOutputTokens).toBe(77);
    expect(record).toMatchObject({ model: 'm', outcome: 'completed', status: 200, violations: [] });
    expect(record?.headers).not.toHaveProperty('authorization');
    expect(record?.headers).not.toHaveProperty('x-api-key');
  });

  test('comes as one JSON body when no stream is asked for', async () => {
    await using simulator = await startSimulator();
    simulator.script('m', [{ text: 'Plain.', toolCalls: [{ id: 'c', name: 'add', input: { a: 1, b: 2 } }] }]);
    const messages = [{ role: 'user', content: 'Hi' }];
    const body = {
      chat: { model: 'm', messages },
      responses: { model: 'm', store: false, input: 'Hi' },
      messages: { model: 'm', max_tokens: 9, messages },
    }[protocol];
    const answer = await (await post(simulator.url, protocol, body)).json();
    const call = { name: 'add', arguments: '{"a":1,"b":2}' };
    expect(answer).toMatchObject(
      {
        chat: { choices: [{ message: { content: 'Plain.', tool_calls: [{ id: 'c', function: call }] } }] },
        responses: { output: [{ content: [{ text: 'Plain.' }] }, { call_id: 'c', ...call }], status: 'completed' },
        messages: {
          content: [
            { type: 'text', text: 'Plain.' },
            { type: 'tool_use', id: 'c', name: 'add', input: { a: 1, b: 2 } },
          ],
          stop_reason: 'tool_use',
        },
      }[protocol],
    );
  });

  test('is refused for a model that nothing is scripted for', async () => {
    await using simulator = await startSimulator();
    expect((await runStep(simulator.url, protocol)).error).toMatchObject({ statusCode: 404, isRetryable: false });
  });
});

test('Responses: a reasoning summary comes with encrypted content and is counted', async () => {
  await using simulator = await startSimulator({ chunkChars: 6 });
  simulator.script('m', [{ reasoning: 'Let me think about it.', text: 'Done.' }]);
  const step = await runStep(simulator.url, 'responses');
  expect(step.reasoning).toBe('Let me think about it.');
  expect(step.ofType('reasoning-end')[0]?.providerMetadata).toMatchObject({
    openai: { reasoningEncryptedContent: expect.stringMatching(/^enc_m_/) },
  });
  expect(step.finish?.usage.outputTokenDetails.reasoningTokens).toBe(6);
});

test('Responses: a reply that was cut is marked as incomplete', async () => {
  await using simulator = await startSimulator();
  simulator.script('m', [{ text: 'Cut he', finishReason: 'length' }, { text: 'Whole.' }]);
  const request = { model: 'm', store: false, stream: true, input: 'Hi' };
  const streams = [];
  for (let count = 0; count < 2; count += 1)
    streams.push(await (await post(simulator.url, 'responses', request)).text());
  expect(streams[0]).toContain('event: response.incomplete\n');
  expect(streams[1]).toContain('event: response.completed\n');
});

test('Chat: the provider may say stop although it called tools', async () => {
  await using simulator = await startSimulator();
  simulator.script('m', [{ toolCalls: [{ name: 'add', input: { a: 1, b: 1 } }], finishReason: 'stop' }]);
  const step = await runStep(simulator.url, 'chat');
  expect(step.calls).toHaveLength(1);
  expect(step.finish?.finishReason).toBe('stop');
});
