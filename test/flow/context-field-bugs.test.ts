// Failures in the field, in the compactions of other agents. Each test names the reports that it stands for.
import { describe, expect, it } from 'vitest';
import { formatId } from '../../src/domain/ids.ts';
import { eventsOf, prose, readingReplies, requestsOf, sessionOf } from '../compaction/compaction-support.ts';
import { type Scenario, startScenario } from './context-scenario.ts';

const WINDOW = 16_000;
const TASK = 'Read all the files.';
/** Pruning is off: these tests count compactions. */
const COMPACTING = { maxContextTokens: WINDOW, prune: { enabled: false } };
const COMPLETED = { status: 'completed', error: null };

const start = (options: Partial<Parameters<typeof startScenario>[0]> = {}): Promise<Scenario> =>
  startScenario({ window: WINDOW, context: COMPACTING, ...options });

const compacted = async (scenario: Scenario) => scenario.ended((await scenario.compact()).runId);

describe('a compaction of a conversation that has come to its end', () => {
  it('is not made before there is more to do, and asks for nothing by itself (opencode#15533)', async () => {
    await using scenario = await start();
    // The answer brings the view from 72 % to 89 %.
    const closing = prose(5, 2_500);
    scenario.service.simulator.script('test', [...readingReplies(8, 1_500, closing), { text: 'You are welcome.' }]);
    expect(await scenario.ask(TASK)).toMatchObject({ ...COMPLETED, steps: 9 });
    expect(await sessionOf(scenario.service, scenario.sessionId)).toMatchObject({ status: 'idle' });
    expect(scenario.calls()).toEqual({ model: 9, refused: 0, summarizer: 0 });
    expect(await scenario.ask('Thank you.')).toMatchObject({ ...COMPLETED, steps: 1 });
    expect(scenario.calls()).toEqual({ model: 10, refused: 0, summarizer: 1 });
  });

  it('made twice in a row is one, and leaves the run at its end (opencode#27468, opencode#13217)', async () => {
    await using scenario = await start();
    scenario.service.simulator.script('test', [...readingReplies(5, 1_500), { text: 'Yes.' }]);
    await scenario.ask(TASK);
    expect(await compacted(scenario)).toMatchObject(COMPLETED);
    expect(await compacted(scenario)).toMatchObject(COMPLETED);
    expect(scenario.calls()).toEqual({ model: 6, refused: 0, summarizer: 1 });
    expect(await scenario.ask('All of them?')).toMatchObject({ ...COMPLETED, steps: 1 });
    expect(scenario.calls()).toEqual({ model: 7, refused: 0, summarizer: 1 });
  });
});

describe('a compaction of a view that is above the window', () => {
  it('is made all the same (codex#29319, gemini-cli#14766)', async () => {
    await using scenario = await start();
    scenario.service.simulator.script('test', [...readingReplies(7, 1_500), { text: 'Understood.' }]);
    await scenario.ask(TASK);
    // The view so far is 63 % of the window and the note 45 %: no request with both was ever sent.
    const note = `Note this: ${prose(3, 8_000)}`;
    expect(await scenario.ask(note)).toMatchObject({ ...COMPLETED, steps: 1 });
    expect(scenario.calls()).toEqual({ model: 9, refused: 0, summarizer: 1 });
    const [round] = await scenario.rounds();
    expect(round).toMatchObject({ state: 'completed', strategy: 'auto' });
    expect(round?.tokensBefore).toBeGreaterThan(WINDOW);
    expect(requestsOf(scenario.service).steps.at(-1)?.request?.messages.at(-1)?.text).toContain(note);
  });

  it('brings a session back that has come to its end for want of room (claude-code#23047)', async () => {
    await using scenario = await start({ context: { ...COMPACTING, compaction: { strategy: 'manual' } } });
    scenario.service.simulator.script('test', readingReplies(20, 1_500));
    expect(await scenario.ask(TASK)).toMatchObject({ reason: 'context_exhausted', steps: 12 });
    expect(await compacted(scenario)).toMatchObject(COMPLETED);
    expect(scenario.calls()).toEqual({ model: 12, refused: 0, summarizer: 1 });
    scenario.service.simulator.script('test', [{ text: 'Here I am.' }]);
    expect(await scenario.ask('Are you there?')).toMatchObject({ ...COMPLETED, steps: 1 });
    expect(scenario.calls()).toEqual({ model: 13, refused: 0, summarizer: 1 });
  });
});

describe('a compaction and the meter', () => {
  it('measure by one meter: what it is accepted for is what the next step is judged by (eve#2216)', async () => {
    await using scenario = await start();
    scenario.service.simulator.script('test', readingReplies(5, 1_500));
    await scenario.ask(TASK);
    const before = await scenario.used();
    await compacted(scenario);
    const [round] = await scenario.rounds();
    expect(round?.tokensAfter).toBe(await scenario.used());
    // Before the compaction the meter rests on the billed tokens, and the round estimates the whole view. The two
    // differ by the estimate alone.
    expect(Math.abs((round?.tokensBefore ?? 0) - before)).toBeLessThan(before * 0.1);
  });
});

describe('the transcript', () => {
  it('is after a compaction what it was before it, and the summary (codex#44363)', async () => {
    await using scenario = await start();
    scenario.service.simulator.script('test', readingReplies(5, 1_500));
    await scenario.ask(TASK);
    const before = await scenario.messages();
    await compacted(scenario);
    const [summary, ...others] = (await scenario.messages()).slice(before.length);
    expect((await scenario.messages()).slice(0, before.length)).toEqual(before);
    expect(summary?.parts[0]).toMatchObject({ type: 'compaction' });
    expect(others).toEqual([]);
  });

  it('takes nothing from a compaction that failed, and nobody is told of one (codex#17392, prime-agent#900)', async () => {
    await using scenario = await start();
    scenario.service.simulator.summaries([], 'garbage');
    scenario.service.simulator.script('test', readingReplies(10, 1_500));
    expect(await scenario.ask(TASK)).toMatchObject({ ...COMPLETED, steps: 11 });
    expect(scenario.calls()).toEqual({ model: 11, refused: 0, summarizer: 4 });
    const messages = await scenario.messages();
    expect(messages.map(({ role }) => role)).toEqual(['user', ...Array(11).fill('assistant')]);
    const garbage = 'What would you like me to do next?';
    expect(JSON.stringify(messages)).not.toContain(garbage);
    for (const { rawBody } of scenario.service.simulator.requests) expect(rawBody).not.toContain(garbage);
    const session = await sessionOf(scenario.service, scenario.sessionId);
    expect(session).toMatchObject({ compaction_count: 0, compacting_since: null });
    for (const type of ['compaction:complete', 'context:compressed']) {
      expect(await eventsOf(scenario.service, scenario.sessionId, type)).toEqual([]);
    }
  });

  it('has its order from the server, not from the ids that clients make (opencode#28618)', async () => {
    await using scenario = await start();
    scenario.service.simulator.script('test', [{ text: 'One.' }, { text: 'Two.' }]);
    const [late, early] = ['ffffffff-ffff-7fff-bfff-ffffffffffff', '00000000-0000-7000-8000-000000000001'];
    for (const [text, id] of [
      ['First.', late],
      ['Second.', early],
    ] as const) {
      const { runId } = await scenario.send(text, { id: formatId('message', id) });
      expect(await scenario.ended(runId)).toMatchObject({ ...COMPLETED, steps: 1 });
    }
    expect(scenario.calls()).toEqual({ model: 2, refused: 0, summarizer: 0 });
    const shown = requestsOf(scenario.service).steps.at(-1)?.request?.messages ?? [];
    expect(shown.map(({ text }) => text)).toEqual(['First.', 'One.', 'Second.']);
  });
});

describe('a message that comes while a compaction is under way', () => {
  it('is answered after one that somebody asked for (openclaw#117810, code#1272)', async () => {
    await using scenario = await start();
    const { simulator } = scenario.service;
    simulator.summaries([{ mode: 'ok', gate: 'summary' }]);
    simulator.script('test', [...readingReplies(5, 1_500), { text: 'Yes.' }]);
    await scenario.ask(TASK);
    const compaction = await scenario.compact();
    await simulator.gate('summary').reached;
    const { runId, ...accepted } = await scenario.send('All of them?');
    expect(runId).not.toBe(compaction.runId);
    expect(accepted).toMatchObject({ queued: true, position: 1, status: 'queued' });
    simulator.gate('summary').release();
    expect(await scenario.ended(runId)).toMatchObject({ ...COMPLETED, steps: 1 });
    expect(scenario.calls()).toEqual({ model: 7, refused: 0, summarizer: 1 });
    const shown = requestsOf(scenario.service).steps.at(-1)?.request?.messages ?? [];
    expect(shown[0]?.text).toContain('<conversation_summary>');
    expect(shown.at(-1)?.text).toBe('All of them?');
  });

  it('outlives the worker that was at it (openclaw#130810, opencode#19023)', async () => {
    await using scenario = await start({ environment: { BATON_SHUTDOWN_GRACE_MS: '0' }, isPaused: true });
    const { simulator } = scenario.service;
    simulator.summaries([{ mode: 'ok', gate: 'never' }]);
    simulator.script('test', readingReplies(9, 1_500));
    const worker = await scenario.startWorker();
    const { runId } = await scenario.send(TASK);
    await simulator.gate('never').reached;
    expect(await scenario.send('And the last one too.')).toMatchObject({ runId, queued: true });
    await worker[Symbol.asyncDispose]();
    await scenario.startWorker();
    expect(await scenario.ended(runId)).toMatchObject({ ...COMPLETED, steps: 10 });
    expect(scenario.calls()).toEqual({ model: 10, refused: 0, summarizer: 2 });
    const texts = (await scenario.messages()).flatMap(({ parts }) => parts.map(({ text }) => text));
    expect(texts.filter((text) => text === 'And the last one too.')).toHaveLength(1);
  });
});

describe('many compactions in a row', () => {
  it('are each followed by a step that succeeds, and leave one summary in the view (claude-code#82131, jcode#175)', async () => {
    await using scenario = await start({
      context: { ...COMPACTING, compaction: { options: { thresholdPercent: 60 } } },
    });
    // Each step brings three results of 10 % of the window: the second one after a compaction refills the freed room.
    const read = (at: number) => ({ name: 'read', input: { path: `src/file-${at}.ts`, tokens: 1_600 } });
    const batches = Array.from({ length: 12 }, (_, no) => ({ toolCalls: [0, 1, 2].map((at) => read(3 * no + at)) }));
    scenario.service.simulator.script('test', [...batches, { text: 'All read.' }]);
    expect(await scenario.ask(TASK)).toMatchObject({ ...COMPLETED, steps: 13 });
    const { summarizer, ...calls } = scenario.calls();
    expect(calls).toEqual({ model: 13, refused: 0 });
    expect(summarizer).toBeGreaterThanOrEqual(8);
    expect((await scenario.rounds()).map(({ state }) => state)).toEqual(Array(summarizer).fill('completed'));
    const { requests } = scenario.service.simulator;
    for (const [at, { summary }] of requests.entries()) {
      if (summary) expect(requests[at + 1]?.summary).toBe(false);
    }
    for (const { rawBody = '' } of requests) {
      expect(rawBody.split('<conversation_summary>').length).toBeLessThanOrEqual(2);
    }
  });
});

describe('the request for a summary', () => {
  it('asks for no more than its model can answer (gemini-cli#7784)', async () => {
    const small = { provider: 'simulated-chat', model: 'small', contextWindow: 12_000, maxOutput: 700 };
    await using scenario = await start({
      context: { ...COMPACTING, compaction: { model: 'simulated-chat/small' } },
      models: [small],
    });
    const { simulator } = scenario.service;
    simulator.setWindow('small', 12_000);
    // The session's own model reasons, which says nothing about the summarizer's model.
    simulator.script(
      'test',
      readingReplies(9, 1_500).map((reply) => ({ ...reply, reasoning: 'Let me see.' })),
    );
    expect(await scenario.ask(TASK)).toMatchObject({ ...COMPLETED, steps: 10 });
    expect(scenario.calls()).toEqual({ model: 10, refused: 0, summarizer: 1 });
    const [summary] = requestsOf(scenario.service).summaries;
    expect(summary).toMatchObject({ model: 'small', outcome: 'completed' });
    expect(summary?.request?.maxOutputTokens).toBeLessThanOrEqual(700);
    const words = Number(/At most (\d+) words/.exec(summary?.request?.messages.at(-1)?.text ?? '')?.[1]);
    expect(words).toBeLessThan(700 * 0.75);
  });
});

describe('an image', () => {
  it('does not pin the cut of a compaction (command-code#767)', async () => {
    await using scenario = await start({ isPaused: true });
    const { simulator } = scenario.service;
    simulator.script('test', readingReplies(12, 1_500));
    const { runId } = await scenario.send(TASK);
    await scenario.attachImages(TASK, 3);
    await scenario.startWorker();
    expect(await scenario.ended(runId)).toMatchObject({ ...COMPLETED, steps: 13 });
    expect(scenario.calls()).toEqual({ model: 13, refused: 0, summarizer: 1 });
    const last = requestsOf(scenario.service).steps.at(-1)?.request?.messages ?? [];
    expect(last[0]?.text).toContain('<conversation_summary>');
    expect(last[0]?.parts.filter(({ type }) => type === 'image')).toHaveLength(3);
  });
});
