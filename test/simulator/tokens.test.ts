import { countTokens } from 'gpt-tokenizer/encoding/o200k_base';
import { describe, expect, test } from 'vitest';
import { startSimulator } from '../../simulator/server.ts';
import { countText, FRAMING } from '../../simulator/tokens.ts';
import { PROTOCOLS, post, runStep } from './client.ts';

const user = (content: string) => ({ role: 'user' as const, content });
const assistant = (content: string) => ({ role: 'assistant' as const, content });
const STORY = 'The kettle whistled before anyone had filled it. '.repeat(40);

describe('counting text', () => {
  test('equals the tokenizer for texts that are not cut', () => {
    expect(countText(STORY)).toBe(countTokens(STORY));
    expect(countText('')).toBe(0);
  });

  test('stays within a thousandth of the tokenizer for long texts', () => {
    const long = STORY.repeat(40);
    expect(Math.abs(countText(long) - countTokens(long)) / countTokens(long)).toBeLessThan(0.001);
  });

  test('takes control tokens as plain text', () => {
    expect(countText('<|endoftext|>')).toBeGreaterThan(1);
  });

  test('cuts unbroken runs without breaking characters', () => {
    const run = `x${'😀'.repeat(3_000)}`;
    const expected = countTokens(`x${'😀'.repeat(1_999)}`) + countTokens('😀'.repeat(1_001));
    expect(countText(run)).toBe(expected);
  });
});

describe.each(PROTOCOLS)('prompt tokens through %s', (protocol) => {
  test('cover system, tools and messages, and are reported as usage', async () => {
    await using simulator = await startSimulator();
    simulator.script('m', [{ text: 'ok' }]);
    const small = await runStep(simulator.url, protocol, {
      tools: {},
      messages: [user('Hi')],
      instructions: 'Be brief.',
    });
    const expected = FRAMING.request + 2 * FRAMING.message + countText('Be brief.') + countText('Hi');
    expect(small.finish?.usage.inputTokens).toBe(expected);
    const withTools = await runStep(simulator.url, protocol, { messages: [user('Hi')], instructions: 'Be brief.' });
    expect(withTools.finish?.usage.inputTokens).toBeGreaterThan(expected + 2 * FRAMING.tool);
    expect(simulator.requests.map(({ promptTokens }) => promptTokens)).toEqual([
      expected,
      withTools.finish?.usage.inputTokens,
    ]);
  });

  test('are multiplied by the token factor', async () => {
    await using plain = await startSimulator();
    await using dear = await startSimulator({ tokenFactor: 1.5 });
    const usages = [];
    for (const simulator of [plain, dear]) {
      simulator.script('m', [{ text: STORY }]);
      usages.push((await runStep(simulator.url, protocol, { messages: [user(STORY)] })).finish?.usage);
    }
    expect(usages[1]?.inputTokens).toBe(Math.round((usages[0]?.inputTokens ?? 0) * 1.5));
    expect(usages[1]?.outputTokens).toBe(Math.round((usages[0]?.outputTokens ?? 0) * 1.5));
  });

  test('over the window are refused with the provider’s error', async () => {
    await using simulator = await startSimulator({ contextWindow: 100 });
    simulator.script('*', () => ({ text: 'ok' }));
    const { error } = await runStep(simulator.url, protocol, { messages: [user(STORY)] });
    const tokens = simulator.requests[0]?.promptTokens ?? 0;
    const message = {
      chat: `This model's maximum context length is 100 tokens. However, your messages resulted in ${tokens} tokens (`,
      responses: 'Your input exceeds the context window of this model',
      messages: `prompt is too long: ${tokens} tokens > 100 maximum`,
    }[protocol];
    const named = protocol === 'messages' ? { type: 'invalid_request_error' } : { code: 'context_length_exceeded' };
    expect(error).toMatchObject({ statusCode: 400, data: { error: named } });
    expect(error).toMatchObject({ message: expect.stringContaining(message) });
    // All but the Responses protocol count the room for the answer too.
    const reserve = protocol === 'responses' ? 0 : 50;
    const ask = () => runStep(simulator.url, protocol, { model: 'wide', messages: [user(STORY)], maxOutputTokens: 50 });
    simulator.setWindow('wide', tokens + reserve);
    expect((await ask()).text).toBe('ok');
    simulator.setWindow('wide', tokens + reserve - 1);
    expect((await ask()).error).toBeDefined();
  });
});

test.each(['responses', 'chat'] as const)(
  'prompt tokens through %s are cached as far as they repeat the last request of the same cache key',
  async (protocol) => {
    await using simulator = await startSimulator();
    simulator.script('m', () => ({ text: 'ok' }));
    const first = [user(STORY)];
    const grown = [...first, assistant('ok'), user('And?')];
    const changed = [user(`No. ${STORY}`), assistant('ok'), user('And?')];
    const steps = [
      await runStep(simulator.url, protocol, { cacheKey: 'a', messages: first }),
      await runStep(simulator.url, protocol, { cacheKey: 'a', messages: grown }),
      await runStep(simulator.url, protocol, { cacheKey: 'b', messages: grown }),
      await runStep(simulator.url, protocol, { cacheKey: 'a', messages: changed }),
    ];
    const cached = steps.map(({ finish }) => finish?.usage.inputTokenDetails.cacheReadTokens ?? 0);
    const total = steps[0]?.finish?.usage.inputTokens ?? 0;
    expect(cached[0]).toBe(0);
    expect(cached[1]).toBe(total - FRAMING.request);
    expect(cached[2]).toBe(0);
    expect(cached[3]).toBe(total - FRAMING.request - FRAMING.message - countText(STORY));
  },
);

describe('the request log', () => {
  test('keeps bodies up to 1 MB, all of them or none', async () => {
    const kept = [];
    for (const rawBodies of ['small', 'all', 'none'] as const) {
      await using simulator = await startSimulator({ rawBodies });
      simulator.script('m', () => ({ text: 'ok' }));
      for (const content of ['short', 'long '.repeat(250_000)]) {
        await post(simulator.url, 'chat', { model: 'm', messages: [user(content)] });
      }
      kept.push(simulator.requests.map(({ rawBody }) => rawBody !== undefined));
    }
    expect(kept).toEqual([
      [true, false],
      [true, true],
      [false, false],
    ]);
  });

  test('resolves waits for past and future requests, and rejects them when the simulator stops', async () => {
    const simulator = await startSimulator();
    simulator.script('m', () => ({ text: 'ok' }));
    const future = simulator.waitForRequest(({ cacheKey, outcome }) => cacheKey === 'k' && outcome === 'completed');
    await runStep(simulator.url, 'responses', { cacheKey: 'k' });
    expect(await future).toBe(await simulator.waitForRequest(() => true));
    const never = simulator.waitForRequest(() => false);
    await simulator[Symbol.asyncDispose]();
    await expect(never).rejects.toThrow('stopped');
  });
});
