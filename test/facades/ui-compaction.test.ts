import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { contextPolicySchema } from '../../src/domain/context/policy.ts';
import { prose, readingReplies, readTool, requestsOf } from '../compaction/compaction-support.ts';
import { type ChatService, startChatService, textOf } from './ui-chat-fixture.ts';

const WINDOW = 16_000;
const policy = (notice: 'text' | 'comment', more = {}) =>
  contextPolicySchema.parse({ maxContextTokens: WINDOW, prune: { enabled: false }, compaction: { notice }, ...more });
let started: ChatService;

describe('useChat with a context that gets full', () => {
  beforeAll(async () => {
    started = await startChatService(
      [
        { name: 'shown', tools: ['test'], context: policy('text') },
        { name: 'noted', tools: ['test'], context: policy('comment') },
        { name: 'small', context: policy('comment', { auto: false }) },
      ],
      [readTool],
    );
    for (const name of ['shown', 'noted', 'small']) started.service.simulator.setWindow(name, WINDOW);
  });
  afterAll(() => started[Symbol.asyncDispose]());

  test('shows a compaction in mid-answer, and uses it for every later request that sends the whole history again', async () => {
    const { simulator } = started.service;
    simulator.script('shown', [...readingReplies(12, 1_500), { text: 'Two.' }, { text: 'Three.' }, { text: 'Four.' }]);
    const data: unknown[] = [];
    const chat = started.chat('shown', { body: { agent: 'shown' }, onData: (part) => data.push(part) });
    await chat.sendMessage({ text: 'Read all the files.' });
    expect(textOf(chat.lastMessage)).toBe('All read.');
    const notices = data.map((part) => Object(part).data.text);
    expect(notices[0]).toBe('⚙️ Compacting…');
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
    const sessions = started.service.deps.db.selectFrom('sessions').select('id').where('agent_name', '=', 'shown');
    expect(await sessions.execute()).toHaveLength(1);
  });

  test('notes it in a comment by default', async () => {
    started.service.simulator.script('noted', readingReplies(12, 1_500));
    const message = { role: 'user', parts: [{ type: 'text', text: 'Read all the files.' }] };
    const response = await fetch(`${started.url}/api/chat`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ id: 'noted', agent: 'noted', message }),
    });
    const stream = await response.text();
    expect(stream).toMatch(/^: compacting tokensBefore=\d+$/m);
    expect(stream).toMatch(/^: compacted tokensBefore=\d+ tokensAfter=\d+$/m);
    expect(stream).not.toContain('data-compaction');
  });

  test('ends with an error that says so where nothing may be taken out', async () => {
    const chat = started.chat('small', { body: { agent: 'small' } });
    await chat.sendMessage({ text: prose(1, 20_000) });
    expect(chat.status).toBe('error');
    expect(chat.error?.message).toMatch(/\d.*\(context_exhausted\)$/s);
  });
});
