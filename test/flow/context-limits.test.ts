import { describe, expect, it } from 'vitest';
import { eventsOf, prose, readingReplies } from '../compaction/compaction-support.ts';
import { startScenario } from './context-scenario.ts';

const WINDOW = 16_000;
const TASK = 'Read all the files.';
const COMPLETED = { status: 'completed', error: null };

/** Almost all of the window is usable: the stop at 90 % of it lies below. */
const NEARLY_ALL = { prune: { enabled: false }, outputReserve: 600 };
const models = [{ provider: 'simulated', model: 'test', contextWindow: WINDOW, maxOutput: 8_000 }];

describe('between 80 and 100 % of what can be used', () => {
  it('the run goes on without a summarizer, and no answer is stopped for a compaction that has just failed', async () => {
    await using scenario = await startScenario({ window: WINDOW, context: NEARLY_ALL, models });
    const { simulator } = scenario.service;
    simulator.summaries([], 'empty');
    const talking = Array.from({ length: 8 }, (_, at) => ({
      text: `Part ${at}. ${prose(at + 5, 350)}`,
      chunkChars: 500,
      toolCalls: [{ id: `t${at}`, name: 'read', input: { path: `x${at}.ts`, tokens: 30 } }],
    }));
    simulator.script('test', [...readingReplies(9, 1_500).slice(0, 9), ...talking, { text: 'Done.' }]);
    expect(await scenario.ask(TASK)).toMatchObject(COMPLETED);
    const rounds = await scenario.rounds();
    expect(rounds.length).toBeGreaterThan(0);
    expect(rounds.map(({ reason, state }) => [reason, state])).not.toContainEqual(['stream', 'failed']);
  });
});

describe('manual', () => {
  const context = {
    maxContextTokens: WINDOW,
    compaction: { strategy: 'manual' },
    prune: { minimumTokens: 1_000, protectTokens: 1_000 },
  };
  const prunesAt = async (more: object): Promise<number> => {
    await using scenario = await startScenario({ window: WINDOW, context: { ...context, ...more } });
    scenario.service.simulator.script('test', readingReplies(10, 1_500));
    expect(await scenario.ask(TASK)).toMatchObject(COMPLETED);
    expect(scenario.calls()).toMatchObject({ summarizer: 0 });
    return (await eventsOf(scenario.service, scenario.sessionId, 'context:pruned')).length;
  };

  it('goes on pruning, so that the run need not end', async () => {
    expect(await prunesAt({})).toBeGreaterThan(0);
  });

  it('prunes nothing where pruning is off', async () => {
    expect(await prunesAt({ prune: { enabled: false } })).toBe(0);
  });
});

describe('an agent that keeps room for a few tokens only', () => {
  it('is answered', async () => {
    await using scenario = await startScenario({ window: WINDOW, context: { outputReserve: 32 } });
    scenario.service.simulator.script('test', [{ text: 'Hi.' }]);
    expect(await scenario.ask('Hi')).toMatchObject({ ...COMPLETED, steps: 1 });
  });
});

describe('a threshold below what no compaction takes out', () => {
  it('does not compact at every step, and is told of in the context, the events and once in the log', async () => {
    await using scenario = await startScenario({
      window: WINDOW,
      context: {
        maxContextTokens: WINDOW,
        prune: { enabled: false },
        compaction: { strategy: 'middle-removal', options: { thresholdPercent: 25 } },
      },
      agent: { instructions: prose(1, 3_000) },
    });
    const { service, sessionId } = scenario;
    service.simulator.script('test', readingReplies(24, 1_300));
    expect(await scenario.ask(TASK)).toMatchObject({ ...COMPLETED, steps: 25 });
    const rounds = await scenario.rounds();
    expect(rounds.length).toBeGreaterThan(2);
    expect(rounds.length).toBeLessThanOrEqual(12);
    // By another measure, which has the bill of the last call: it differs by a few tokens.
    rounds.slice(1).forEach(({ tokensBefore }, at) => {
      expect(tokensBefore).toBeGreaterThan(0.97 * 1.5 * Number(rounds[at]?.tokensAfter));
    });
    expect(await scenario.context()).toMatchObject({ warning: expect.stringContaining('raise thresholdPercent') });
    const completed = await eventsOf(service, sessionId, 'compaction:complete');
    for (const { data } of completed) expect(data).toMatchObject({ waitsUntilTokens: expect.any(Number) });
    expect(service.logged.filter(({ event }) => event === 'compaction_threshold_low')).toHaveLength(1);
  });
});

describe('a session that is compacting', () => {
  it('says so, to those who ask and to those who join, and tells how full it is', async () => {
    await using scenario = await startScenario({
      window: WINDOW,
      context: { maxContextTokens: WINDOW, prune: { enabled: false } },
    });
    const { simulator } = scenario.service;
    simulator.summaries([{ mode: 'ok', gate: 'summary' }]);
    simulator.script('test', readingReplies(9, 1_500));
    const { runId } = await scenario.send(TASK);
    await simulator.gate('summary').reached;
    const compacting = { compactingSince: expect.any(String) };
    expect(await scenario.session()).toMatchObject(compacting);
    const snapshot = await scenario.snapshot();
    expect(snapshot).toMatchObject({ ...compacting, context: { usable: expect.any(Number) } });
    expect(snapshot.context?.used).toBeGreaterThan(0.8 * (snapshot.context?.usable ?? 0));
    simulator.gate('summary').release();
    expect(await scenario.ended(runId)).toMatchObject(COMPLETED);
    expect(await scenario.session()).toMatchObject({ compactingSince: null });
    expect((await scenario.snapshot()).context?.used).toBeLessThan(0.8 * WINDOW);
  });
});
