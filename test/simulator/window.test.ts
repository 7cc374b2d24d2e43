import { expect, test } from 'vitest';
import { startSimulator } from '../../simulator/server.ts';
import { factorAt } from '../../simulator/window.ts';
import { PROTOCOLS, runStep } from './client.ts';

const user = (content: string) => ({ role: 'user' as const, content });
const STORY = 'The kettle whistled before anyone had filled it. '.repeat(40);

test('a token factor drifts in equal steps and then stays', () => {
  const drift = { from: 1, to: 1.4, calls: 4 };
  expect([0, 1, 2, 4, 9].map((index) => factorAt(drift, index))).toEqual([1, 1.1, 1.2, 1.4, 1.4]);
  expect(factorAt({ from: 1.4, to: 1, calls: 0 }, 0)).toBe(1.4);
  expect(factorAt(1.5, 7)).toBe(1.5);
});

test.each(PROTOCOLS)('what is billed and refused drifts with the factor through %s', async (protocol) => {
  await using simulator = await startSimulator({ tokenFactor: { from: 1, to: 1.4, calls: 2 } });
  simulator.script('m', () => ({ text: STORY }));
  const ask = async () => (await runStep(simulator.url, protocol, { cacheKey: 'a', messages: [user(STORY)] })).finish;
  const billed = [(await ask())?.usage, (await ask())?.usage];
  const [first, second] = simulator.requests;
  expect(billed.map((usage) => usage?.inputTokens)).toEqual([first?.promptTokens, second?.promptTokens]);
  expect((second?.promptTokens ?? 0) / (first?.promptTokens ?? 1)).toBeCloseTo(1.2, 2);
  expect((billed[1]?.outputTokens ?? 0) / (billed[0]?.outputTokens ?? 1)).toBeCloseTo(1.2, 2);
  simulator.setWindow('m', second?.promptTokens ?? 0);
  await ask();
  expect(simulator.requests[2]).toMatchObject({ outcome: 'refused', refusal: 'window' });
});

test('the chat protocol counts the requested output against the window, and says so', async () => {
  await using simulator = await startSimulator();
  simulator.script('m', () => ({ text: 'ok' }));
  const ask = (maxOutputTokens: number) => runStep(simulator.url, 'chat', { messages: [user(STORY)], maxOutputTokens });
  expect((await ask(100)).text).toBe('ok');
  const tokens = simulator.requests[0]?.promptTokens ?? 0;
  simulator.setWindow('m', tokens + 100);
  expect((await ask(100)).text).toBe('ok');
  expect((await ask(101)).error).toMatchObject({
    statusCode: 400,
    message: expect.stringContaining(
      `requested ${tokens + 101} tokens (${tokens} in the messages, 101 in the completion)`,
    ),
  });
});

test('a silent truncator answers, and only what it bills shows that it cut the prompt', async () => {
  await using simulator = await startSimulator();
  simulator.script('m', () => ({ text: 'ok', usage: { input: 9, output: 1 } }));
  simulator.setWindow('m', { tokens: 200, overflow: 'truncate' });
  const { text, finish } = await runStep(simulator.url, 'chat', { messages: [user(STORY)], maxOutputTokens: 100 });
  expect(text).toBe('ok');
  expect(finish?.usage).toMatchObject({ inputTokens: 102, outputTokens: 1 });
  expect(simulator.requests[0]).toMatchObject({ refusal: undefined, outcome: 'completed' });
  expect(simulator.requests[0]?.promptTokens).toBeGreaterThan(200);
  const small = await runStep(simulator.url, 'chat', { messages: [user('Hi')] });
  expect(small.finish?.usage.inputTokens).toBe(9);
});

test.each(PROTOCOLS)('a body over the limit is refused as 413 through %s, whatever its tokens', async (protocol) => {
  await using simulator = await startSimulator();
  simulator.script('m', () => ({ text: 'ok' }));
  simulator.setWindow('m', { maxBytes: 2000 });
  expect((await runStep(simulator.url, protocol, { messages: [user('Hi')] })).text).toBe('ok');
  const { error } = await runStep(simulator.url, protocol, { messages: [user('a'.repeat(2000))] });
  const tooLarge = protocol === 'messages' ? { type: 'request_too_large' } : { code: 'request_too_large' };
  expect(error).toMatchObject({ statusCode: 413, data: { error: tooLarge } });
  expect(simulator.requests.map(({ refusal }) => refusal)).toEqual([undefined, 'bytes']);
});

test('another process can set windows and summaries', async () => {
  await using simulator = await startSimulator();
  const command = async (name: string, body: unknown) =>
    (await fetch(`${simulator.url}/__simulator/${name}`, { method: 'POST', body: JSON.stringify(body) })).status;
  expect(await command('window', { model: 'm', maxBytes: 10 })).toBe(200);
  expect(await command('summaries', { answers: ['empty', { mode: 'ok', tokens: 300 }], afterwards: '429' })).toBe(200);
  expect(await command('summaries', { answers: ['sleepy'] })).toBe(400);
  simulator.script('m', () => ({ text: 'ok' }));
  expect((await runStep(simulator.url, 'chat')).error).toMatchObject({ statusCode: 413 });
  expect(await command('window', { model: 'm', tokens: null })).toBe(200);
  expect((await runStep(simulator.url, 'chat')).text).toBe('ok');
});
