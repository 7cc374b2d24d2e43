import { describe, expect, it } from 'vitest';
import type { SimulatedRequest } from '../../simulator/request.ts';
import type { Tool } from '../../src/tools/tool.ts';
import { eventsOf, prose, readingReplies, requestsOf } from '../compaction/compaction-support.ts';
import { startScenario } from './context-scenario.ts';

const WINDOW = 16_000;
const TASK = 'Read all the files. Never touch the file secrets.txt.';
/** Pruning is off: these tests count compactions. */
const COMPACTING = { maxContextTokens: WINDOW, prune: { enabled: false } };
const EXHAUSTED = { status: 'incomplete', reason: 'context_exhausted', error: { code: 'context_exhausted' } };
const COMPLETED = { status: 'completed', error: null };

const modelOf = (contextWindow: number, maxOutput: number) => [
  { provider: 'simulated', model: 'test', contextWindow, maxOutput },
];
const resultsIn = ({ messages }: SimulatedRequest) => messages.flatMap(({ toolResults }) => toolResults).length;
const isCompacted = ({ messages }: SimulatedRequest) => messages[0]?.text.includes('<conversation_summary>') === true;

describe('what is larger than the window', () => {
  it('as a tool result is cut and kept by reference: no summary, no refusal (Roo-Code#4186)', async () => {
    await using scenario = await startScenario({ window: WINDOW, context: COMPACTING });
    scenario.service.simulator.script('test', readingReplies(1, 60_000));
    expect(await scenario.ask(TASK)).toMatchObject({ ...COMPLETED, steps: 2 });
    expect(scenario.calls()).toEqual({ model: 2, refused: 0, summarizer: 0 });
  });

  it('as eight results of one step is shared out among them: one giant step is within its budget (senpi#1194)', async () => {
    await using scenario = await startScenario({ window: WINDOW, context: COMPACTING });
    const read = (at: number) => ({ name: 'read', input: { path: `src/${at}.ts`, tokens: 30_000 } });
    const toolCalls = Array.from({ length: 8 }, (_, at) => read(at));
    scenario.service.simulator.script('test', [{ toolCalls }, { text: 'All read.' }]);
    expect(await scenario.ask(TASK)).toMatchObject({ ...COMPLETED, steps: 2 });
    expect(scenario.calls()).toEqual({ model: 2, refused: 0, summarizer: 0 });
  });

  it('as a user message ends the run before anybody is asked, and is named', async () => {
    await using scenario = await startScenario({ window: WINDOW, context: COMPACTING });
    scenario.service.simulator.script('test', [...readingReplies(2, 1_500), { text: 'never' }]);
    expect(await scenario.ask(TASK)).toMatchObject(COMPLETED);
    const run = await scenario.ask(prose(1, 20_000));
    expect(run).toMatchObject({ ...EXHAUSTED, steps: 0 });
    expect(run.error?.message).toContain('user message no. 5');
    expect(scenario.calls()).toEqual({ model: 3, refused: 0, summarizer: 0 });
  });

  it('as a user message does not end the runs after its own (opencode#14562, claude-code#23047)', async () => {
    await using scenario = await startScenario({ window: WINDOW, context: COMPACTING });
    scenario.service.simulator.script('test', [...readingReplies(2, 1_500), { text: 'Here I am.' }]);
    await scenario.ask(TASK);
    await scenario.ask(prose(1, 20_000));
    expect(await scenario.ask('Are you there?')).toMatchObject({ ...COMPLETED, steps: 1 });
    expect(scenario.calls()).toEqual({ model: 4, refused: 0, summarizer: 1 });
    const shown = requestsOf(scenario.service).steps.at(-1)?.request?.messages ?? [];
    expect(shown.at(-1)?.text).toContain('Are you there?');
  });

  it('as a user message may come as often as it likes: the breaker holds for a run, not for the session', async () => {
    await using scenario = await startScenario({ window: WINDOW, context: COMPACTING });
    scenario.service.simulator.script('test', [...readingReplies(2, 1_500), { text: 'Here I am.' }]);
    await scenario.ask(TASK);
    for (let at = 0; at < 3; at++) expect(await scenario.ask(prose(1, 20_000))).toMatchObject(EXHAUSTED);
    expect(await scenario.ask('Are you there?')).toMatchObject({ ...COMPLETED, steps: 1 });
  });

  it.each([
    ['instructions', { agent: { instructions: prose(2, 20_000) } }],
    ['tools', { tools: [toolDescribedBy(prose(2, 20_000))] }],
  ])('as %s ends the run before anybody is asked (happyclaw#300)', async (_what, options) => {
    await using scenario = await startScenario({ window: WINDOW, context: COMPACTING, ...options });
    scenario.service.simulator.script('test', [{ text: 'never' }]);
    const run = await scenario.ask(TASK);
    expect(run).toMatchObject({ ...EXHAUSTED, steps: 0 });
    expect(run.error?.message).toContain('The instructions and tools alone');
    expect(scenario.calls()).toEqual({ model: 0, refused: 0, summarizer: 0 });
  });

  it('but for its last quarter in its fixed part is compacted as often as that quarter fills (opencode#27924)', async () => {
    const agent = { instructions: prose(2, 12_300) };
    await using scenario = await startScenario({ window: WINDOW, context: COMPACTING, agent });
    scenario.service.simulator.script('test', readingReplies(10, 1_000));
    expect(await scenario.ask(TASK)).toMatchObject({ ...COMPLETED, steps: 11 });
    expect(scenario.calls()).toEqual({ model: 11, refused: 0, summarizer: 2 });
    for (const { state, tokensBefore, tokensAfter } of await scenario.rounds()) {
      expect(state).toBe('completed');
      expect(tokensAfter).toBeLessThanOrEqual(tokensBefore * 0.9);
    }
  });
});

function toolDescribedBy(description: string): Tool {
  return { name: 'read', description, inputSchema: { type: 'object' }, execute: async () => 'never' };
}

describe('a window', () => {
  it('of 8k whose model could answer 32k has room to work in: "hi" is one call (opencode#31152)', async () => {
    await using scenario = await startScenario({ window: 8_000, models: modelOf(8_000, 32_000) });
    scenario.service.simulator.script('test', [{ text: 'Hello.' }]);
    expect(await scenario.ask('hi')).toMatchObject({ ...COMPLETED, steps: 1 });
    expect(scenario.calls()).toEqual({ model: 1, refused: 0, summarizer: 0 });
  });

  it('of 8k holds a run of seven times its size, by a summary every few steps (opencrabs#1649)', async () => {
    const context = { prune: { enabled: false } };
    await using scenario = await startScenario({ window: 8_000, context, models: modelOf(8_000, 4_000) });
    scenario.service.simulator.script('test', readingReplies(60, 700));
    expect(await scenario.ask(TASK)).toMatchObject({ ...COMPLETED, steps: 61 });
    const rounds = await scenario.rounds();
    expect(scenario.calls()).toEqual({ model: 61, refused: 0, summarizer: 14 });
    expect(rounds.map(({ state, attempts }) => `${state} ${attempts}`)).toEqual(Array(14).fill('completed 1'));
    for (const { tokensAfter } of rounds) expect(tokensAfter).toBeLessThan(8_000 / 3);
  });

  it('of 1M is used to 85 %, and one summary frees most of it', async () => {
    const context = { prune: { enabled: false }, compaction: { options: {} } };
    await using scenario = await startScenario({ window: 1_000_000, context, models: modelOf(1_000_000, 128_000) });
    const batch = (no: number) => ({
      toolCalls: Array.from({ length: 10 }, (_, at) => ({
        name: 'read',
        input: { path: `${no}-${at}`, tokens: 19_000 },
      })),
    });
    scenario.service.simulator.script('test', [
      batch(1),
      batch(2),
      batch(3),
      batch(4),
      batch(5),
      { text: 'All read.' },
    ]);
    expect(await scenario.ask(TASK)).toMatchObject({ ...COMPLETED, steps: 6 });
    expect(scenario.calls()).toEqual({ model: 6, refused: 0, summarizer: 1 });
    const [round] = await scenario.rounds();
    expect(round?.tokensBefore).toBeGreaterThan(850_000 - 1);
    expect(round?.tokensAfter).toBeLessThan(0.25 * 968_000);
  });
});

describe('an answer that fills the window', () => {
  it('with a large tool input is stopped at 90 %, its call is dropped, and the step is taken again', async () => {
    // Nothing is due before the window is full, so that a request of 70 % meets an answer of 50 %.
    const context = { ...COMPACTING, compaction: { strategy: 'reactive-overflow' } };
    await using scenario = await startScenario({ window: WINDOW, context, models: modelOf(WINDOW, 8_000) });
    const { simulator } = scenario.service;
    const large = { path: 'large.ts', tokens: 1, text: prose(3, 8_000) };
    simulator.script('test', (request) => {
      if (isCompacted(request)) return { text: 'Done.' };
      const read = readingReplies(8, 1_500)[resultsIn(request)];
      // The answer would never end by itself.
      const gates = { afterChunks: { count: 40, gate: 'the rest' } };
      return resultsIn(request) < 7
        ? { ...read }
        : { toolCalls: [{ name: 'read', input: large }], chunkChars: 1_000, gates };
    });
    expect(await scenario.ask(TASK)).toMatchObject({ ...COMPLETED, steps: 8 });
    expect(scenario.calls()).toEqual({ model: 7 + 1 + 1, refused: 0, summarizer: 1 });
    expect(await scenario.rounds()).toMatchObject([{ reason: 'stream', state: 'completed' }]);
    const { steps, violations } = requestsOf(scenario.service);
    expect(violations).toEqual([]);
    expect(steps.map(({ outcome }) => outcome)).toEqual([
      ...Array(7).fill('completed'),
      'aborted-by-client',
      'completed',
    ]);
    expect(JSON.stringify(await scenario.messages())).not.toContain('large.ts');
  });
});

describe('while a compaction is under way', () => {
  it('ten messages and a steer wait and are all read after it, in their order (pi#179, atomic#1984)', async () => {
    await using scenario = await startScenario({ window: WINDOW, context: COMPACTING });
    const { simulator } = scenario.service;
    simulator.summaries([{ mode: 'ok', gate: 'summary' }]);
    simulator.script('test', readingReplies(9, 1_500));
    const { runId } = await scenario.send(TASK);
    await simulator.gate('summary').reached;
    const texts = Array.from({ length: 10 }, (_, at) => `Message ${at} while compacting.`);
    for (const [at, text] of texts.entries()) {
      expect(await scenario.send(text)).toMatchObject({ runId, queued: true, position: at + 1 });
    }
    expect(await scenario.send('Steer left.', { delivery: 'steer' })).toMatchObject({
      runId,
      queued: true,
      position: 11,
    });
    simulator.gate('summary').release();
    expect(await scenario.ended(runId)).toMatchObject({ ...COMPLETED, steps: 10 });
    expect(scenario.calls()).toEqual({ model: 10, refused: 0, summarizer: 1 });
    const { steps, summaries, violations } = requestsOf(scenario.service);
    expect(violations).toEqual([]);
    const after = steps.find(({ no }) => no > (summaries[0]?.no ?? 0))?.request?.messages ?? [];
    const shown = after.flatMap(({ parts }) => parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])));
    const sent = [...texts, 'Steer left.'];
    expect(shown.slice(-11)).toEqual(sent.map((text, at) => `[${at + 1}]: ${text}`));
    expect(await eventsOf(scenario.service, scenario.sessionId, 'message:queued')).toHaveLength(11);
    const said = (await scenario.messages()).filter(({ role, parts }) => role === 'user' && parts[0]?.type === 'text');
    expect(said.map(({ parts }) => parts.map(({ text }) => text))).toEqual([[TASK], sent]);
  });
});
