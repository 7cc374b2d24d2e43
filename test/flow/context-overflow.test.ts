import { describe, expect, it } from 'vitest';
import { parseId } from '../../src/domain/ids.ts';
import { requestCancel } from '../../src/store/changes/cancels.ts';
import { eventsOf, readingReplies, requestsOf } from '../compaction/compaction-support.ts';
import { startScenario } from './context-scenario.ts';

const WINDOW = 16_000;
const TASK = 'Read all the files.';
/** Pruning is off: these tests count compactions. */
const COMPACTING = { maxContextTokens: WINDOW, prune: { enabled: false } };
const OVERFLOW = { kind: 'context-overflow' } as const;

/** Ends of a run, as the API answers with them. */
const EXHAUSTED = { status: 'incomplete', reason: 'context_exhausted', error: { code: 'context_exhausted' } };
const COMPLETED = { status: 'completed', error: null };

describe('an overflow that the provider reports', () => {
  it('on the very first call leaves nothing to compact: the run ends, and nobody is asked again', async () => {
    await using scenario = await startScenario({ window: WINDOW, context: COMPACTING });
    const { simulator } = scenario.service;
    simulator.script('test', [{ text: 'never' }]);
    simulator.fault('test', [OVERFLOW, OVERFLOW]);
    const run = await scenario.ask(TASK);
    expect(run).toMatchObject(EXHAUSTED);
    expect(run.error?.message).toMatch(/larger than what the provider takes: \d+ of 16000 tokens/);
    expect(scenario.calls()).toEqual({ model: 1, refused: 1, summarizer: 0 });
  });

  it('on the first call of a run is one compaction and the same call again', async () => {
    await using scenario = await startScenario({ window: WINDOW, context: COMPACTING });
    const { simulator } = scenario.service;
    simulator.script('test', [...readingReplies(4, 1_500), { text: 'Yes.' }]);
    expect(await scenario.ask(TASK)).toMatchObject(COMPLETED);
    expect(scenario.calls()).toEqual({ model: 5, refused: 0, summarizer: 0 });
    simulator.fault('test', OVERFLOW);
    expect(await scenario.ask('All of them?')).toMatchObject({ ...COMPLETED, steps: 1 });
    expect(scenario.calls()).toEqual({ model: 7, refused: 1, summarizer: 1 });
    expect(await scenario.rounds()).toMatchObject([{ reason: 'overflow', state: 'completed', attempts: 1 }]);
    // The summary is reference: the model reads the current task last (crush#2551).
    const again = requestsOf(scenario.service).steps.at(-1)?.request?.messages ?? [];
    expect(again[0]?.text).toContain('<conversation_summary>');
    expect(again.at(-1)?.text).toContain('All of them?');
  });

  it('three times in one step ends the run: two attempts are made at it', async () => {
    await using scenario = await startScenario({ window: WINDOW, context: COMPACTING });
    const { simulator } = scenario.service;
    simulator.script('test', [...readingReplies(4, 1_500), { text: 'never' }]);
    await scenario.ask(TASK);
    simulator.fault('test', [OVERFLOW, OVERFLOW, OVERFLOW, OVERFLOW]);
    expect(await scenario.ask('All of them?')).toMatchObject({ ...EXHAUSTED, steps: 0 });
    expect(scenario.calls()).toEqual({ model: 5 + 3, refused: 3, summarizer: 2 });
    expect((await scenario.rounds()).map(({ state }) => state)).toEqual(['completed', 'completed']);
  });

  it('by bytes takes the images out, not the history, and the session goes on (opencode#14562, senpi#302)', async () => {
    const window = { tokens: WINDOW, maxBytes: 90_000 };
    await using scenario = await startScenario({ window, context: COMPACTING, isPaused: true });
    const { simulator } = scenario.service;
    simulator.script('test', [{ text: 'I see.' }, { text: 'Still here.' }]);
    const { runId } = await scenario.send('Look.');
    await scenario.attachImages('Look.', 5);
    await scenario.startWorker();
    expect(await scenario.ended(runId)).toMatchObject(COMPLETED);
    expect(scenario.calls()).toEqual({ model: 2, refused: 1, summarizer: 0 });
    const [refused, taken] = requestsOf(scenario.service).steps;
    expect(refused).toMatchObject({ refusal: 'bytes' });
    // The request is far below the window in tokens: its bytes were too many.
    expect(refused?.promptTokens).toBeLessThan(WINDOW / 2);
    const parts = taken?.request?.messages.flatMap((message) => message.parts) ?? [];
    expect(parts.filter(({ type }) => type === 'image')).toEqual([]);
    expect(taken?.request?.messages[0]?.text).toContain('shot-4.png');
    expect(await scenario.ask('Are you there?')).toMatchObject(COMPLETED);
    expect(scenario.calls()).toEqual({ model: 3, refused: 1, summarizer: 0 });
  });

  it('by bytes is no matter of a compaction where no image is in the view: the run ends with that error', async () => {
    await using scenario = await startScenario({ window: { maxBytes: 2_000 }, context: COMPACTING });
    scenario.service.simulator.script('test', [{ text: 'never' }]);
    expect(await scenario.ask('word '.repeat(1_000))).toMatchObject({
      status: 'failed',
      error: { code: 'byte_overflow' },
    });
    expect(scenario.calls()).toEqual({ model: 1, refused: 1, summarizer: 0 });
  });
});

describe('a window that is smaller than the registry says', () => {
  it('costs one refused request and one summary where the provider tells no limit', async () => {
    await using scenario = await startScenario({ window: 12_000, context: { prune: { enabled: false } } });
    scenario.service.simulator.script('test', readingReplies(10, 1_500));
    expect(await scenario.ask(TASK)).toMatchObject({ ...COMPLETED, steps: 11 });
    expect(scenario.calls()).toEqual({ model: 11 + 1, refused: 1, summarizer: 1 });
    expect(await scenario.rounds()).toMatchObject([{ reason: 'overflow', state: 'completed' }]);
  });

  it.each(['simulated-chat/test', 'simulated-anthropic/test'])(
    'costs one refused request in all where it tells one: what is learned holds from then on (%s, goose#3635)',
    async (model) => {
      await using scenario = await startScenario({
        window: 12_000,
        context: { prune: { enabled: false } },
        agent: { model },
      });
      scenario.service.simulator.script('test', readingReplies(10, 1_500));
      expect(await scenario.ask(TASK)).toMatchObject({ ...COMPLETED, steps: 11 });
      expect(scenario.calls()).toEqual({ model: 11 + 1, refused: 1, summarizer: 2 });
      // Only its output limit made the refused request too large. It is sent again with a lower one, not compacted.
      const [refused, again] = requestsOf(scenario.service).steps;
      expect(again?.promptTokens).toBe(refused?.promptTokens);
      expect(again?.request?.maxOutputTokens).toBeLessThan(12_000);
      expect((await scenario.rounds()).map(({ reason }) => reason)).toEqual(['threshold', 'threshold']);
    },
  );
});

describe('a provider that cuts the request without a word (ollama#17427)', () => {
  const SILENT = { tokens: 12_000, overflow: 'truncate' } as const;
  const reading = readingReplies(9, 1_500).slice(0, 9);

  it('is found by its bill: an answer in text is dropped, and the step is taken again after a compaction', async () => {
    await using scenario = await startScenario({ window: SILENT, context: { prune: { enabled: false } } });
    scenario.service.simulator.script('test', [
      ...reading,
      { text: 'An answer to half of it.' },
      { text: 'All read.' },
    ]);
    expect(await scenario.ask(TASK)).toMatchObject({ ...COMPLETED, steps: 10 });
    expect(scenario.calls()).toEqual({ model: 10 + 1, refused: 0, summarizer: 1 });
    expect(await scenario.rounds()).toMatchObject([{ reason: 'overflow', state: 'completed', attempts: 1 }]);
    const texts = (await scenario.messages()).flatMap(({ parts }) => parts.map(({ text }) => text));
    expect(texts).toContain('All read.');
    expect(texts).not.toContain('An answer to half of it.');
    // No later request shows the dropped answer (prime-agent#900).
    const [summary] = requestsOf(scenario.service).summaries;
    expect(summary?.rawBody).not.toContain('An answer to half of it.');
  });

  it('keeps such an answer of a run that somebody has cancelled: nothing comes in its place', async () => {
    await using scenario = await startScenario({ window: SILENT, context: { prune: { enabled: false } } });
    const { simulator, deps } = scenario.service;
    simulator.script('test', [...reading, { text: 'An answer to half of it.', gates: { beforeEnd: 'said' } }]);
    const { runId } = await scenario.send(TASK);
    await simulator.gate('said').reached;
    // The flag is set, but the worker's notice of the cancel is late.
    await requestCancel(deps.db, 'default', parseId('run', runId) ?? '');
    simulator.gate('said').release();
    expect(await scenario.ended(runId)).toMatchObject({ status: 'cancelled' });
    expect((await scenario.messages()).at(-1)?.parts.at(-1)?.text).toBe('An answer to half of it.');
    expect(await eventsOf(scenario.service, scenario.sessionId, 'step:reset')).toEqual([]);
    expect(scenario.calls()).toEqual({ model: 10, refused: 0, summarizer: 0 });
  });

  it('keeps an answer with calls, which have happened, and is compacted before the next step', async () => {
    await using scenario = await startScenario({ window: SILENT, context: { prune: { enabled: false } } });
    scenario.service.simulator.script('test', readingReplies(10, 1_500));
    expect(await scenario.ask(TASK)).toMatchObject({ ...COMPLETED, steps: 11 });
    expect(scenario.calls()).toEqual({ model: 11, refused: 0, summarizer: 1 });
    expect(await scenario.rounds()).toMatchObject([{ reason: 'overflow', state: 'completed' }]);
  });
});

describe('manual: nothing is compacted unasked (opencode#30664)', () => {
  const NEVER = { ...COMPACTING, compaction: { strategy: 'manual' } };

  it('when the view outgrows what can be used: the run ends before that request', async () => {
    await using scenario = await startScenario({ window: WINDOW, context: NEVER });
    scenario.service.simulator.script('test', readingReplies(20, 1_500));
    // The run's last request fills 98 % of the window.
    expect(await scenario.ask(TASK)).toMatchObject({ ...EXHAUSTED, steps: 12 });
    expect(scenario.calls()).toEqual({ model: 12, refused: 0, summarizer: 0 });
  });

  it('when the provider reports an overflow', async () => {
    await using scenario = await startScenario({ window: WINDOW, context: NEVER });
    const { simulator } = scenario.service;
    simulator.script('test', [...readingReplies(4, 1_500), { text: 'never' }]);
    await scenario.ask(TASK);
    simulator.fault('test', OVERFLOW);
    expect(await scenario.ask('All of them?')).toMatchObject(EXHAUSTED);
    expect(scenario.calls()).toEqual({ model: 5 + 1, refused: 1, summarizer: 0 });
  });

  it('but images go that are too many bytes at a quarter of the window (opencode#16882)', async () => {
    const window = { tokens: WINDOW, maxBytes: 90_000 };
    await using scenario = await startScenario({ window, context: NEVER, isPaused: true });
    scenario.service.simulator.script('test', [{ text: 'Seen.' }]);
    const { runId } = await scenario.send('Look.');
    await scenario.attachImages('Look.', 5);
    await scenario.startWorker();
    expect(await scenario.ended(runId)).toMatchObject({ ...COMPLETED, steps: 1 });
    expect(scenario.calls()).toEqual({ model: 2, refused: 1, summarizer: 0 });
  });

  it('when a request was cut without a word: there is no answer that could count', async () => {
    const window = { tokens: 12_000, overflow: 'truncate' } as const;
    await using scenario = await startScenario({ window, context: NEVER });
    const reading = readingReplies(9, 1_500).slice(0, 9);
    scenario.service.simulator.script('test', [...reading, { text: 'An answer to half of it.' }]);
    expect(await scenario.ask(TASK)).toMatchObject(EXHAUSTED);
    expect(scenario.calls()).toEqual({ model: 10, refused: 0, summarizer: 0 });
  });

  it('unless somebody asks for it', async () => {
    await using scenario = await startScenario({ window: WINDOW, context: NEVER });
    scenario.service.simulator.script('test', readingReplies(6, 1_500));
    await scenario.ask(TASK);
    expect(await scenario.ended((await scenario.compact()).runId)).toMatchObject({ ...COMPLETED, steps: 0 });
    expect(scenario.calls()).toEqual({ model: 7, refused: 0, summarizer: 1 });
    expect(await scenario.rounds()).toMatchObject([{ reason: 'manual', state: 'completed' }]);
    expect(await eventsOf(scenario.service, scenario.sessionId, 'compaction:complete')).toHaveLength(1);
  });
});
