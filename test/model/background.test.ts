import { isStepCount, streamText, tool } from 'ai';
import { expect, it } from 'vitest';
import { z } from 'zod';
import { type Simulator, startSimulator } from '../../simulator/server.ts';
import type { ProviderResponse } from '../../src/domain/model/provider-response.ts';
import type { BackgroundCall } from '../../src/model/background.ts';
import { createModels } from '../../src/model/providers.ts';

const REPLY = {
  reasoning: 'I think of it for a while.',
  text: 'It is said here, "sequence_number":7.',
  sources: [{ url: 'https://example.com/a', title: 'A' }],
  toolCalls: [{ id: 'call_1', name: 'look', input: { path: 'a/b' } }],
  textAfterTools: 'And then.',
  chunkChars: 5,
};

/** One answer, as the SDK gives it in the end, and the response that it is. */
async function ask({ url }: Simulator, earlier: BackgroundCall['earlier']) {
  const resolved = createModels({ simulatorUrl: url })('simulated-background/test');
  const told: { response: ProviderResponse; isEarlier: boolean }[] = [];
  const model = resolved.background?.call({
    earlier,
    onResponse: (response, isEarlier) => void told.push({ response, isEarlier }),
  });
  if (model === undefined) throw new Error('the provider makes no answers in the background');
  const result = streamText({
    model,
    prompt: 'Hi',
    stopWhen: isStepCount(1),
    maxRetries: 0,
    tools: { look: tool({ inputSchema: z.object({ path: z.string() }) }) },
    providerOptions: resolved.providerOptions('session-1'),
    onError: () => undefined,
  });
  const { content, usage, finishReason } = await result.finalStep;
  return { answer: { content, usage, finishReason }, told };
}

it('an answer is the same when it is streamed again, and when it is read as a whole', async () => {
  await using simulator = await startSimulator();
  simulator.script('test', () => REPLY);
  const first = await ask(simulator, null);
  const { response = null } = first.told[0] ?? {};
  expect(first.told).toEqual([{ response, isEarlier: false }]);
  const streamed = await ask(simulator, response);
  simulator.age(6 * 60_000);
  const whole = await ask(simulator, response);
  const words = (value: unknown): string =>
    JSON.stringify(value, (key, each: unknown) =>
      key === 'id' && String(each).length === 16 ? 'made by the SDK' : each,
    );
  expect(words(streamed.answer)).toBe(words(first.answer));
  expect(words(whole.answer)).toBe(words(first.answer));
  expect([...streamed.told, ...whole.told]).toEqual([
    { response, isEarlier: true },
    { response, isEarlier: true },
  ]);
  expect(first.answer.content.map(({ type }) => type)).toEqual(
    expect.arrayContaining(['reasoning', 'text', 'source', 'tool-call']),
  );
  expect(simulator.requests).toHaveLength(1);
  expect(simulator.backgrounds()).toMatchObject([{ streamedAgain: 1, streamsRefused: 1 }]);
});

it('a response of another provider is left alone, and the model is asked', async () => {
  await using simulator = await startSimulator();
  simulator.script('test', () => REPLY);
  const { told } = await ask(simulator, null);
  const { response } = told[0] ?? {};
  if (response === undefined) throw new Error('no id was told');
  await ask(simulator, { ...response, provider: 'other' });
  expect(simulator.backgrounds()).toMatchObject([{ status: 'completed', readWhole: 0 }, { status: 'completed' }]);
});
