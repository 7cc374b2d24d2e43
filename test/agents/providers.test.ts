import { generateText, streamText } from 'ai';
import { describe, expect, it } from 'vitest';
import { startSimulator } from '../../simulator/server.ts';
import type { ResolvedModel } from '../../src/model/model-port.ts';
import { createModels } from '../../src/model/providers.ts';

const ask = (resolved: ResolvedModel) =>
  generateText({
    model: resolved.model,
    prompt: 'Hi',
    maxRetries: 0,
    providerOptions: resolved.providerOptions('session-1'),
  });

describe('the models of the configured providers', () => {
  it('are none without a configuration, and the error says so', () => {
    expect(() => createModels({})('openai/gpt-5.4')).toThrow(
      expect.objectContaining({
        code: 'model_unavailable',
        message: 'no provider is configured for openai/gpt-5.4; configured: none',
      }),
    );
  });

  it('do not include simulated ones without a simulator, and an unknown provider is told the known ones', () => {
    const models = createModels({ openaiApiKey: 'sk-1' });
    const known = 'configured: openai';
    for (const name of ['simulated/test', 'simulated-chat/test', 'simulated-anthropic/test', 'anthropic/x', 'openai']) {
      expect(() => models(name)).toThrow(`no provider is configured for ${name}; ${known}`);
    }
    expect(() => createModels({ simulatorUrl: 'http://127.0.0.1:1' })('openai/x')).toThrow(
      'configured: simulated, simulated-background, simulated-chat, simulated-anthropic',
    );
  });

  it.each([
    ['never', undefined, false],
    ['auto', undefined, true],
    ['auto', 'https://api.openai.com/v1', true],
    ['auto', 'https://llm.example.com/v1', false],
    ['always', 'https://llm.example.com/v1', true],
  ] as const)('make answers in the background with %s at %s: %s', (background, baseUrl, expected) => {
    const config = { name: 'own', kind: 'openai', apiKey: 'sk-1', headers: {}, background } as const;
    const models = createModels({ providers: [{ ...config, ...(baseUrl !== undefined && { baseUrl }) }] });
    expect(models('own/x').background !== undefined).toBe(expected);
  });

  it('ask OpenAI at the configured URL, store nothing there, and keep a session on one prompt cache', async () => {
    await using simulator = await startSimulator();
    simulator.script('vendor/model-1', [{ text: 'Hello.' }]);
    const models = createModels({ openaiApiKey: 'sk-1', openaiBaseUrl: `${simulator.url}/v1` });
    const resolved = models('openai/vendor/model-1');
    expect(resolved).toMatchObject({ provider: 'openai', modelId: 'vendor/model-1' });
    expect((await ask(resolved)).text).toBe('Hello.');
    const [request] = simulator.requests;
    expect(request).toMatchObject({ protocol: 'responses', model: 'vendor/model-1', violations: [] });
    expect(JSON.parse(request?.rawBody ?? '')).toMatchObject({ store: false, prompt_cache_key: 'session-1' });
  });

  it.each([
    ['simulated/test', 'responses'],
    ['simulated-chat/test', 'chat'],
  ])('ask the simulator for %s in the %s protocol', async (name, protocol) => {
    await using simulator = await startSimulator();
    simulator.script('test', [{ text: 'Hello.' }]);
    expect((await ask(createModels({ simulatorUrl: simulator.url })(name))).text).toBe('Hello.');
    expect(simulator.requests).toMatchObject([{ protocol, violations: [], cacheKey: 'session-1' }]);
    expect(JSON.parse(simulator.requests[0]?.rawBody ?? '')).toMatchObject({ store: false });
  });

  it('ask the simulator for simulated-anthropic/test in the messages protocol', async () => {
    await using simulator = await startSimulator();
    simulator.script('test', [{ text: 'Hello.' }]);
    const resolved = createModels({ simulatorUrl: simulator.url })('simulated-anthropic/test');
    expect(resolved).toMatchObject({ cacheBreakpoints: true, providerTools: false });
    expect((await ask(resolved)).text).toBe('Hello.');
    expect(simulator.requests).toMatchObject([{ protocol: 'messages', violations: [], cacheKey: 'session-1' }]);
  });

  it.each([
    ['claude-fable-5-1', true],
    ['claude-sonnet-5-5-20261001', true],
    ['claude-opus-5.5', true],
    ['claude-opus-6', true],
    ['claude-opus-5-20260901', false],
    ['claude-sonnet-5', false],
    ['claude-opus-4-8', false],
    ['claude-3-5-haiku-latest', false],
    ['glm-5', false],
  ])('ask Anthropic at the configured URL; whether %s may drop foreign thinking: %s', async (modelId, drops) => {
    await using simulator = await startSimulator();
    simulator.script('*', [{ text: 'Hello.' }]);
    const models = createModels({ anthropicApiKey: 'sk-ant-1', anthropicBaseUrl: `${simulator.url}/v1` });
    const resolved = models(`anthropic/${modelId}`);
    expect(resolved).toMatchObject({ provider: 'anthropic', modelId, endpoint: `${simulator.url}/v1` });
    expect((await ask(resolved)).text).toBe('Hello.');
    const [request] = simulator.requests;
    expect(request).toMatchObject({ protocol: 'messages', violations: [] });
    const body = JSON.parse(request?.rawBody ?? '');
    expect(body.thinking).toEqual(drops ? { block_binding: { prefix_mismatch_behavior: 'drop_block' } } : undefined);
    expect(body.metadata).toBeUndefined();
    const beta = request?.headers['anthropic-beta'] ?? '';
    expect(beta.includes('thinking-binding-controls')).toBe(drops);
  });

  it('bring the reasoning of a simulated model back encrypted, so that it can be sent again', async () => {
    await using simulator = await startSimulator();
    simulator.script('test', [{ reasoning: 'I think.', text: 'Hello.' }]);
    const resolved = createModels({ simulatorUrl: simulator.url })('simulated/test');
    const result = streamText({
      model: resolved.model,
      prompt: 'Hi',
      providerOptions: resolved.providerOptions('session-1'),
    });
    const [reasoning] = (await result.finalStep).reasoning;
    expect(reasoning).toMatchObject({
      providerOptions: { openai: { reasoningEncryptedContent: expect.any(String) } },
    });
  });
});
