import type { ModelMessage } from 'ai';
import { describe, expect, test } from 'vitest';
import { startSimulator } from '../../simulator/server.ts';
import { verifyThinking } from '../../simulator/thinking-signature.ts';
import { post, runStep } from './client.ts';

const cached = { providerOptions: { anthropic: { cacheControl: { type: 'ephemeral' as const } } } };
const user = (text: string, mark = {}): ModelMessage => ({ role: 'user', content: text, ...mark });
const said = (text: string): ModelMessage => ({ role: 'assistant', content: text });
/** About 1600 tokens. */
const STORY = 'The kettle whistled before anyone had filled it. '.repeat(160);

describe('the Messages protocol', () => {
  test('streams a thinking text with a signature for its model and text', async () => {
    await using simulator = await startSimulator({ chunkChars: 6 });
    simulator.script('m', [{ reasoning: 'Let me think about it.', text: 'Done.' }]);
    const step = await runStep(simulator.url, 'messages');
    expect(step.reasoning).toBe('Let me think about it.');
    const [, signature = ''] = /"signature":"([^"]+)"/.exec(JSON.stringify(await step.messages())) ?? [];
    expect(verifyThinking('m', 'Let me think about it.', signature)).toBeDefined();
    expect(verifyThinking('n', 'Let me think about it.', signature)).toBeUndefined();
    expect(verifyThinking('m', 'Let me think.', signature)).toBeUndefined();
    expect(step.finish?.usage.outputTokenDetails.reasoningTokens).toBe(6);
  });

  test('has the events of the API in their order', async () => {
    await using simulator = await startSimulator();
    simulator.script('m', [{ reasoning: 'Hm.', text: 'Look.', toolCalls: [{ id: 'a', name: 'look', input: {} }] }]);
    const body = { model: 'm', max_tokens: 9, stream: true, messages: [{ role: 'user', content: 'Hi' }] };
    const stream = await (await post(simulator.url, 'messages', body)).text();
    const block = ['content_block_start', 'content_block_delta', 'content_block_stop'];
    expect([...stream.matchAll(/^event: (.*)$/gm)].map(([, name]) => name)).toEqual([
      'message_start',
      'ping',
      ...['content_block_start', 'content_block_delta', 'content_block_delta', 'content_block_stop'],
      ...block,
      ...block,
      'message_delta',
      'message_stop',
    ]);
    expect(stream).not.toContain('[DONE]');
  });

  test('shows a script the results of tools before what the user adds', async () => {
    await using simulator = await startSimulator();
    simulator.script('m', [{ text: 'ok' }]);
    const call = { type: 'tool_use', id: 'a', name: 'look', input: { path: 'x' } };
    const messages = [
      { role: 'user', content: 'Go.' },
      { role: 'assistant', content: [{ type: 'text', text: 'I look.' }, call] },
      {
        role: 'user',
        content: [
          { type: 'tool_result', tool_use_id: 'a', content: 'seen' },
          { type: 'text', text: 'Fas' },
          { type: 'text', text: 'ter!' },
        ],
      },
    ];
    const metadata = { user_id: 'k' };
    await post(simulator.url, 'messages', { model: 'm', max_tokens: 9, system: 'Be brief.', metadata, messages });
    expect(simulator.requests[0]?.request).toMatchObject({
      system: 'Be brief.',
      cacheKey: 'k',
      messages: [
        { role: 'user', text: 'Go.' },
        { role: 'assistant', text: 'I look.', toolCalls: [{ id: 'a', name: 'look', input: { path: 'x' } }] },
        { role: 'tool', toolResults: [{ id: 'a', output: 'seen' }] },
        { role: 'user', text: 'Faster!' },
      ],
    });
  });

  test('refuses input and answer that together exceed the window, and says both numbers', async () => {
    await using simulator = await startSimulator();
    simulator.script('m', () => ({ text: 'ok' }));
    simulator.setWindow('m', 1000);
    const { error } = await runStep(simulator.url, 'messages', { maxOutputTokens: 1000 });
    const tokens = simulator.requests[0]?.promptTokens;
    expect(error).toMatchObject({
      statusCode: 400,
      message: expect.stringContaining(
        `input length and \`max_tokens\` exceed context limit: ${tokens} + 1000 > 1000, decrease input length`,
      ),
    });
    expect(simulator.requests[0]).toMatchObject({ refusal: 'window', violationClasses: [] });
  });
});

describe('the prompt cache of the Messages protocol', () => {
  const ask = async (url: string, messages: ModelMessage[]) => {
    const { finish } = await runStep(url, 'messages', { messages });
    const details = finish?.usage.inputTokenDetails;
    return { input: finish?.usage.inputTokens, read: details?.cacheReadTokens, write: details?.cacheWriteTokens };
  };

  test('holds what stood before a mark, and bills reading, writing and the rest apart', async () => {
    await using simulator = await startSimulator();
    simulator.script('m', () => ({ text: 'ok' }));
    const first = await ask(simulator.url, [user(STORY, cached)]);
    const total = simulator.requests[0]?.promptTokens ?? 0;
    expect(first).toMatchObject({ input: total, read: 0 });
    expect(first.write).toBeGreaterThan(1500);
    const grown = [user(STORY), said('ok'), user(STORY, cached)];
    const second = await ask(simulator.url, grown);
    expect(second.read).toBe(first.write);
    expect(second.write).toBeGreaterThan(1500);
    expect(second.input).toBe(simulator.requests[1]?.promptTokens);
    const third = await ask(simulator.url, [user(STORY), said('ok'), user(STORY)]);
    expect(third).toMatchObject({ input: second.input, read: 0, write: 0 });
  });

  test('holds nothing short, and nothing after a change', async () => {
    await using simulator = await startSimulator();
    simulator.script('m', () => ({ text: 'ok' }));
    expect(await ask(simulator.url, [user('Hi', cached)])).toMatchObject({ read: 0, write: 0 });
    expect(await ask(simulator.url, [user('Hi', cached)])).toMatchObject({ read: 0, write: 0 });
    await ask(simulator.url, [user(STORY, cached)]);
    expect((await ask(simulator.url, [user(`No. ${STORY}`, cached)])).read).toBe(0);
  });

  test('holds messages for one tool choice only, tools and system for any', async () => {
    await using simulator = await startSimulator();
    simulator.script('m', () => ({ text: 'ok' }));
    const mark = { cache_control: { type: 'ephemeral' } };
    const marked = (text: string) => [{ type: 'text', text, ...mark }];
    const tools = [{ name: 'look', description: 'Looks.', input_schema: { type: 'object' } }];
    const messages = [{ role: 'user', content: marked(STORY) }];
    const request = { model: 'm', max_tokens: 9, system: marked(STORY), tools, messages };
    for (const choice of ['auto', 'auto', 'none', 'none']) {
      await (await post(simulator.url, 'messages', { ...request, tool_choice: { type: choice } })).text();
    }
    const [, same, other, again] = simulator.requests.map(({ cachedTokens }) => cachedTokens);
    expect(same).toBeGreaterThan(3_000);
    expect(other).toBeGreaterThan(1_500);
    expect(other).toBeLessThan(2_000);
    expect(again).toBe(same);
  });

  test('is found at most 20 blocks before a mark', async () => {
    await using simulator = await startSimulator();
    simulator.script('m', () => ({ text: 'ok' }));
    await ask(simulator.url, [user(STORY, cached)]);
    const parts = (count: number): ModelMessage[] => [
      user(STORY),
      said('ok'),
      { role: 'user', content: Array.from({ length: count }, () => ({ type: 'text', text: 'More.' })), ...cached },
    ];
    expect((await ask(simulator.url, parts(18))).read).toBeGreaterThan(1500);
    simulator.clear();
    simulator.script('m', () => ({ text: 'ok' }));
    await ask(simulator.url, [user(STORY, cached)]);
    expect((await ask(simulator.url, parts(19))).read).toBe(0);
  });
});
