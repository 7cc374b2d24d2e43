import { describe, expect, it } from 'vitest';
import type { Reply } from '../../simulator/reply.ts';
import type { RequestRecord } from '../../simulator/request.ts';
import { contextPolicySchema } from '../../src/domain/context/limits/policy.ts';
import { listMessages } from '../../src/store/transcript/messages.ts';
import type { Tool } from '../../src/tools/tool.ts';
import { readingReplies, readTool } from '../compaction/compaction-support.ts';
import { anyBackend } from '../support/backends.ts';
import { startTestService, type TestService } from '../support/service.ts';

const MODEL = 'simulated-anthropic/test';
/** About 1600 tokens: a prefix below 1024 tokens is not cached. */
const INSTRUCTIONS = 'The kettle whistles before anyone has filled it. '.repeat(160);

const look: Tool = {
  name: 'look',
  description: 'Looks at a file.',
  inputSchema: { type: 'object', properties: { path: { type: 'string' } } },
  execute: async () => 'It says: 42.',
};
const calls = (...ids: string[]): Reply => ({
  reasoning: 'I should look first.',
  text: 'I look.',
  toolCalls: ids.map((id) => ({ id, name: 'look', input: { path: `${id}.md` } })),
});

const agent = { model: MODEL, tools: ['test'] };

/** A model that reads this many files of 1500 tokens and reasons before each. */
const thinkingReader = (count: number): Reply[] =>
  readingReplies(count, 1_500).map((reply, at) => ({ ...reply, reasoning: `File ${at} could matter.` }));

const start = (backend: 'postgres' | 'redis') => startTestService({ backend, tools: [look] });
const createSession = (service: TestService, model = MODEL) =>
  service.createSession({ model, instructions: INSTRUCTIONS });

function expectAccepted(requests: readonly RequestRecord[]): void {
  expect(requests.flatMap(({ violations }) => violations)).toEqual([]);
  expect(requests.map(({ protocol, outcome }) => `${protocol} ${outcome}`)).toEqual(
    requests.map(() => 'messages completed'),
  );
}

describe('a session with a model of Anthropic’s', () => {
  const backend = anyBackend();
  it('calls tools, sends its thinking back, and reads all that it sent before from the cache', async () => {
    await using service = await start(backend);
    service.simulator.script('test', [calls('a', 'b'), calls('c'), { text: 'It is 42.' }]);
    await service.startWorker();
    const session = await createSession(service);
    const { runId } = await service.send(session, 'What does it say?');
    expect(await service.ended(runId)).toMatchObject({ status: 'completed' });
    const { requests } = service.simulator;
    expect(requests).toHaveLength(3);
    expectAccepted(requests);
    const [first, second, third] = requests;
    expect(third?.request?.messages.map(({ role }) => role)).toEqual([
      'user',
      'assistant',
      'tool',
      'assistant',
      'tool',
    ]);
    const thoughts = third?.request?.messages.flatMap(({ parts }) => parts.filter(({ type }) => type === 'reasoning'));
    expect(thoughts).toHaveLength(2);
    expect(first).toMatchObject({ cachedTokens: 0 });
    expect(second?.cachedTokens).toBe(first?.cacheWriteTokens);
    expect(second?.cacheWriteTokens).toBeGreaterThan(0);
    expect(third?.cachedTokens).toBe((second?.cachedTokens ?? 0) + (second?.cacheWriteTokens ?? 0));
  });

  it('counts the cached part of the input once', async () => {
    await using service = await start(backend);
    service.simulator.script('test', [calls('a'), { text: 'It is 42.' }]);
    await service.startWorker();
    const session = await createSession(service);
    const { runId } = await service.send(session, 'What does it say?');
    await service.ended(runId);
    const steps = (await listMessages(service.deps.db, 'default', session, { afterSeq: 0, limit: 10 })).filter(
      ({ role }) => role === 'assistant',
    );
    expect(steps.map(({ usage }) => usage)).toMatchObject(
      service.simulator.requests.map(({ promptTokens, cachedTokens, cacheWriteTokens, usage }) => ({
        inputTokens: promptTokens,
        cacheReadTokens: cachedTokens,
        cacheWriteTokens,
        totalTokens: promptTokens + (usage?.output ?? 0),
      })),
    );
  });

  it('is steered in the middle of its work: results first, then what the user adds', async () => {
    await using service = await start(backend);
    service.simulator.script('test', [
      { ...calls('a'), gates: { beforeEnd: 'hold' } },
      { text: 'Only the number: 42.' },
    ]);
    await service.startWorker();
    const session = await createSession(service);
    const { runId } = await service.send(session, 'What does it say?');
    await service.simulator.gate('hold').reached;
    const steer = await service.send(session, 'Only the number, please.');
    expect(steer.runId).toBe(runId);
    service.simulator.gate('hold').release();
    expect(await service.ended(runId)).toMatchObject({ status: 'completed' });
    expectAccepted(service.simulator.requests);
    const shown = service.simulator.requests.at(-1)?.request?.messages ?? [];
    expect(shown.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool', 'user']);
    expect(shown.at(-1)?.text).toContain('Only the number, please.');
  });

  it('goes on after another model of the provider, without the thinking that was signed for that one', async () => {
    await using service = await start(backend);
    service.simulator.script('test', [calls('a'), { reasoning: 'Clear.', text: 'It is 42.' }]);
    service.simulator.script('other', [calls('b'), { text: 'Still 42.' }]);
    await service.startWorker();
    const session = await createSession(service);
    await service.ended((await service.send(session, 'What does it say?')).runId);
    const { agent_snapshot: agent } = await service.deps.db
      .selectFrom('sessions')
      .select('agent_snapshot')
      .where('id', '=', session)
      .executeTakeFirstOrThrow();
    const switched = JSON.stringify({ ...Object(agent), model: 'simulated-anthropic/other' });
    await service.deps.db.updateTable('sessions').set({ agent_snapshot: switched }).where('id', '=', session).execute();
    expect(await service.ended((await service.send(session, 'And now?')).runId)).toMatchObject({ status: 'completed' });
    const later = service.simulator.requests.filter(({ model }) => model === 'other');
    expect(later).toHaveLength(2);
    expectAccepted(later);
    const thoughts = later.map(({ request }) =>
      (request?.messages ?? []).flatMap(({ parts }) => parts.filter(({ type }) => type === 'reasoning')),
    );
    expect(thoughts.map(({ length }) => length)).toEqual([0, 1]);
  });

  it.each([
    ['a prune', {}],
    ['a compaction', { prune: { enabled: false } }],
  ])('goes on after %s, which changes the prompt that its thinking is bound to', async (_what, policy) => {
    await using service = await startTestService({ backend, tools: [readTool] });
    service.simulator.script('test', thinkingReader(16));
    await service.startWorker();
    const context = contextPolicySchema.parse({ maxContextTokens: 16_000, ...policy });
    const session = await service.createSession({ ...agent, context });
    const run = await service.ended((await service.send(session, 'Read all the files.')).runId);
    expect(run).toMatchObject({ status: 'completed', step_count: 17 });
    const { requests } = service.simulator;
    expectAccepted(requests);
    expect(requests.some(({ extendsPrefix, summary }) => !extendsPrefix && !summary)).toBe(true);
    expect(requests.at(-1)?.request?.messages.flatMap(({ parts }) => parts.map(({ type }) => type))).toContain(
      'reasoning',
    );
  });

  it('is summarized by the request that its cache already holds', async () => {
    await using service = await startTestService({ backend, tools: [readTool] });
    service.simulator.script('test', thinkingReader(16));
    await service.startWorker();
    const context = contextPolicySchema.parse({ maxContextTokens: 16_000, prune: { enabled: false } });
    const session = await service.createSession({ ...agent, context });
    await service.ended((await service.send(session, 'Read all the files.')).runId);
    const summaries = service.simulator.requests.filter(({ summary }) => summary);
    expect(summaries.length).toBeGreaterThan(0);
    for (const { cachedTokens, promptTokens } of summaries) {
      expect(cachedTokens / promptTokens).toBeGreaterThan(0.8);
    }
  });
});
