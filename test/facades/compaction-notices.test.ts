import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { contextPolicySchema } from '../../src/domain/context/limits/policy.ts';
import { prose, readingReplies, readTool, requestsOf } from '../compaction/compaction-support.ts';
import { type ChatService, startChatService, textOf } from './ui-chat-fixture.ts';

const WINDOW = 16_000;
const policy = (notice: 'text' | 'comment', more = {}) =>
  contextPolicySchema.parse({ maxContextTokens: WINDOW, prune: { enabled: false }, compaction: { notice }, ...more });
let started: ChatService;

beforeAll(async () => {
  const agents = [
    { name: 'noted', tools: ['test'], context: policy('comment') },
    { name: 'shown', tools: ['test'], context: policy('text') },
    { name: 'prunes', tools: ['test'], context: policy('comment', { prune: {} }) },
    { name: 'small', tools: ['test'], context: policy('comment', { compaction: { strategy: 'manual' } }) },
  ];
  started = await startChatService(agents, [readTool]);
  for (const { name } of agents) started.service.simulator.setWindow(name, WINDOW);
});
afterAll(() => started[Symbol.asyncDispose]());

describe('useChat with a context that gets full', () => {
  test('shows a compaction in mid-answer, and uses it for every later request that sends the whole history again', async () => {
    const { simulator } = started.service;
    simulator.script('noted', [...readingReplies(12, 1_500), { text: 'Two.' }, { text: 'Three.' }, { text: 'Four.' }]);
    const data: unknown[] = [];
    const chat = started.chat('noted', { body: { agent: 'noted' }, onData: (part) => data.push(part) });
    await chat.sendMessage({ text: 'Read all the files.' });
    expect(textOf(chat.lastMessage)).toBe('All read.');
    const notices = data.map((part) => Object(part).data.text);
    expect(notices[0]).toBe('⚙️ Compacting…');
    // The summary's message came from no user, so it is not shown as a steering message.
    expect(chat.lastMessage?.parts.map(({ type }) => type)).not.toContain('steering-message');
    expect(notices[1]).toMatch(/^✅ Compacted: \d+ → \d+ tokens$/);
    const summaries = requestsOf(started.service).summaries.length;
    expect(summaries).toBeGreaterThan(0);
    for (const text of ['Two', 'Three', 'Four']) {
      await chat.sendMessage({ text: `Say ${text}` });
      expect(textOf(chat.lastMessage)).toBe(`${text}.`);
    }
    // The client has sent all the files four times; they were summarized when they were read.
    expect(requestsOf(started.service).summaries).toHaveLength(summaries);
    expect(requestsOf(started.service).violations).toEqual([]);
    const sessions = started.service.deps.db.selectFrom('sessions').select('id').where('agent_name', '=', 'noted');
    expect(await sessions.execute()).toHaveLength(1);
  });

  test('shows what a prune has cleared', async () => {
    started.service.simulator.script('prunes', readingReplies(14, 1_500));
    const data: unknown[] = [];
    const chat = started.chat('prunes', { body: { agent: 'prunes' }, onData: (part) => data.push(part) });
    await chat.sendMessage({ text: 'Read all the files.' });
    expect(textOf(chat.lastMessage)).toBe('All read.');
    expect(data[0]).toMatchObject({
      type: 'data-pruning',
      data: { text: expect.stringMatching(/^🧹 Cleared \d+ old tool outputs: \d+ tokens$/) },
    });
  });

  test('ends with an error that says so where nothing may be taken out', async () => {
    const chat = started.chat('small', { body: { agent: 'small' } });
    await chat.sendMessage({ text: prose(1, 20_000) });
    expect(chat.status).toBe('error');
    expect(chat.error?.message).toMatch(/\d.*\(context_exhausted\)$/s);
  });
});

describe('a stream in OpenAI’s protocol with a context that gets full', () => {
  const body = (model: string) => ({
    model,
    messages: [{ role: 'user' as const, content: `Read all the files, ${model}.` }],
    stream: true as const,
  });
  const streamOf = async (model: string): Promise<string> => {
    const response = await fetch(`${started.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body(model)),
    });
    expect(response.status).toBe(200);
    return response.text();
  };
  const framesOf = (stream: string) =>
    stream.split('\n\n').flatMap((frame) => (frame.startsWith('data: ') ? [frame.slice('data: '.length)] : []));
  type Chunk = Readonly<{ choices: readonly Readonly<{ delta: Readonly<{ content?: string }> }>[] }>;
  const textIn = (frames: readonly string[]) =>
    frames
      .filter((frame) => frame !== '[DONE]')
      .map((frame) => (JSON.parse(frame) as Chunk).choices[0]?.delta.content ?? '')
      .join('');

  test('has a compaction in mid-answer as a comment by default, and nothing of it in the answer', async () => {
    started.service.simulator.script('noted', readingReplies(12, 1_500));
    const stream = await streamOf('noted');
    expect(stream).toMatch(/^: compacting tokensBefore=\d+$/m);
    expect(stream).toMatch(/^: compacted tokensBefore=\d+ tokensAfter=\d+$/m);
    const frames = framesOf(stream);
    expect(textIn(frames)).toBe('All read.');
    expect(frames.at(-1)).toBe('[DONE]');
  });

  test('has it as a notice in the text where the agent’s YAML asks for that, and as no comment', async () => {
    started.service.simulator.script('shown', readingReplies(12, 1_500));
    const stream = await streamOf('shown');
    const notice = /⚙️ Compacting…\n\n✅ Compacted: \d+ → \d+ tokens/;
    const text = textIn(framesOf(stream));
    expect(text).toMatch(notice);
    expect(text).toMatch(/\n\nAll read\.$/);
    expect(stream).not.toMatch(/^: compact/m);
  });

  test('ends with an error chunk of its own shape above 100 %, which the library throws', async () => {
    started.service.simulator.script('small', readingReplies(30, 1_500));
    const frames = framesOf(await streamOf('small'));
    const ends = frames.map((frame) => (frame.startsWith('{"error"') ? 'error' : 'chunk'));
    // The answer had begun, and no chunk follows its error.
    expect([ends.indexOf('error'), ends.length > 1]).toEqual([ends.length - 1, true]);
    expect(JSON.parse(frames.at(-1) ?? '')).toEqual({
      error: {
        message: expect.stringMatching(/\d/),
        type: 'invalid_request_error',
        code: 'context_length_exceeded',
        param: null,
      },
    });
    started.service.simulator.script('small', readingReplies(30, 1_500));
    const client = new OpenAI({ baseURL: `${started.url}/v1`, apiKey: 'none', maxRetries: 0 });
    const again = { ...body('small'), messages: [{ role: 'user' as const, content: 'Read them all, once more.' }] };
    const told = client.chat.completions.create(again).then((chunks) => Array.fromAsync(chunks));
    await expect(told).rejects.toMatchObject({ code: 'context_length_exceeded', type: 'invalid_request_error' });
  });
});
