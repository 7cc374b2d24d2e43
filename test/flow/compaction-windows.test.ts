import { describe, expect, it } from 'vitest';
import {
  agentWith,
  readingReplies,
  readTool,
  requestsOf,
  roundsOf,
  sessionOf,
} from '../compaction/compaction-support.ts';
import { anyBackend } from '../support/backends.ts';
import { startTestService, type TestService } from '../support/service.ts';

const backend = anyBackend();
const TASK = 'Read all the files. Never touch the file secrets.txt.';

async function serviceWith(windowTokens: number): Promise<TestService> {
  const service = await startTestService({ backend, tools: [readTool] });
  service.simulator.setWindow('test', windowTokens);
  await service.startWorker();
  return service;
}

const refusals = ({ simulator }: TestService) => simulator.requests.filter(({ refusal }) => refusal === 'window');

describe('a window', () => {
  it('of 8k tokens holds a run of many times its size, over many rounds that do not grow', async () => {
    await using service = await serviceWith(8_000);
    service.simulator.script('test', readingReplies(60, 700));
    const session = await service.createSession(agentWith({ maxContextTokens: 6_000, prune: { enabled: false } }));
    const run = await service.ended((await service.send(session, TASK)).runId);
    expect(run).toMatchObject({ status: 'completed', step_count: 61 });
    const rounds = await roundsOf(service, session);
    expect(rounds.length).toBeGreaterThan(5);
    expect(rounds.map(({ state, round }) => `${round} ${state}`)).toEqual(rounds.map((_, at) => `${at + 1} completed`));
    for (const { tokens_after } of rounds) expect(tokens_after).toBeLessThanOrEqual(3_000);
    expect(refusals(service)).toEqual([]);
    const { steps, violations } = requestsOf(service);
    expect(violations).toEqual([]);
    // Field bugs: codex#25792, codex#31659, goal and rules were lost.
    for (const { request } of steps) expect(request?.messages.map(({ text }) => text).join('\n')).toContain(TASK);
    const summary = steps.at(-1)?.request?.messages[0]?.text;
    // The summary names the newest files that were read; the list tool has the others.
    expect(summary).toContain('read src/file-40.ts');
    expect(summary).toMatch(/\(\d+ more, touched longer ago\)/);
  });

  it.each(['simulated/test', 'simulated-chat/test'])(
    'that is smaller than anybody knew costs refused requests, not the run (%s)',
    async (model) => {
      await using service = await serviceWith(12_000);
      service.simulator.script('test', readingReplies(20, 1_200));
      const context = { prune: { enabled: false }, compaction: { options: { thresholdPercent: 80 } } };
      const session = await service.createSession(agentWith(context, { model }));
      const run = await service.ended((await service.send(session, TASK)).runId);
      expect(run.status).toBe('completed');
      const rounds = await roundsOf(service, session);
      expect(new Set(rounds.map(({ state }) => state))).toEqual(new Set(['completed']));
      // The service remembers a limit that the provider names. Without one, each round begins with a refused request.
      const tellsLimit = model.startsWith('simulated-chat');
      const overflows = rounds.filter(({ reason }) => reason === 'overflow').length;
      expect(overflows).toBe(tellsLimit ? 0 : rounds.length);
      expect(refusals(service).length).toBe(tellsLimit ? 1 : overflows);
      expect(requestsOf(service).steps.length).toBe(21 + refusals(service).length);
      expect(requestsOf(service).summaries.length).toBe(3);
    },
  );

  it('that nothing fits ends the run with the first request that is refused', async () => {
    await using service = await serviceWith(1_000);
    service.simulator.script('test', readingReplies(20, 1_200));
    const session = await service.createSession(agentWith({ prune: { enabled: false } }));
    const run = await service.ended((await service.send(session, TASK)).runId);
    expect(run).toMatchObject({ status: 'incomplete', status_reason: 'context_exhausted' });
    // The output of the first call cannot be taken out: the model has not seen it yet.
    expect(requestsOf(service).steps.map(({ refusal }) => refusal)).toEqual([undefined, 'window']);
    expect(requestsOf(service).summaries).toEqual([]);
    expect(await sessionOf(service, session)).toMatchObject({ status: 'idle', compacting_since: null });
  });
});

describe('the request for a summary', () => {
  it('is the conversation as it was sent before and the order at its end: the provider’s cache serves it', async () => {
    await using service = await serviceWith(16_000);
    service.simulator.script('test', readingReplies(12, 1_500));
    const agent = agentWith(
      { maxContextTokens: 16_000, prune: { enabled: false } },
      { instructions: 'You read files.' },
    );
    const session = await service.createSession(agent);
    await service.ended((await service.send(session, TASK)).runId);
    const { steps, summaries } = requestsOf(service);
    const [summary] = summaries;
    const before = steps.filter(({ no }) => no < (summary?.no ?? 0)).at(-1);
    const own = summary?.request?.messages ?? [];
    expect(own.length).toBeGreaterThan(5);
    expect(before?.request?.messages.slice(0, own.length - 1)).toEqual(own.slice(0, -1));
    expect(summary?.request?.tools).toEqual(before?.request?.tools);
    expect(summary?.request?.toolChoice).toBe('none');
    expect(summary?.cachedTokens).toBeGreaterThan((summary?.promptTokens ?? 0) * 0.85);
  });

  it('leaves the tool choice as it was where another would miss the cache, and takes no call for a summary', async () => {
    await using service = await serviceWith(16_000);
    service.simulator.script('test', readingReplies(12, 1_500));
    service.simulator.summaries(['tool_call']);
    const agent = agentWith(
      { maxContextTokens: 16_000, prune: { enabled: false } },
      { model: 'simulated-anthropic/test' },
    );
    const session = await service.createSession(agent);
    expect(await service.ended((await service.send(session, TASK)).runId)).toMatchObject({ step_count: 13 });
    const { steps, summaries, violations } = requestsOf(service);
    expect(violations).toEqual([]);
    const choices = [...steps, ...summaries].map(({ request }) => request?.toolChoice);
    expect(new Set(choices)).toEqual(new Set(['auto']));
    expect(summaries.length).toBeGreaterThan(1);
    for (const { cachedTokens, promptTokens } of summaries) expect(cachedTokens).toBeGreaterThan(promptTokens * 0.85);
    expect(summaries[1]?.request?.messages.at(-1)?.text).toContain('could not be used (tool call)');
    expect((await roundsOf(service, session))[0]).toMatchObject({ state: 'completed', attempts: 2 });
  });
});
