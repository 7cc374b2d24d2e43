import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { parseId } from '../../src/domain/ids.ts';
import { requestCancel } from '../../src/store/changes/cancels.ts';
import { eventsOf, prose, readingReplies, requestsOf, sessionOf } from '../compaction/compaction-support.ts';
import { eventually } from '../support/eventually.ts';
import { type Scenario, startScenario } from './context-scenario.ts';

const WINDOW = 16_000;
const TASK = 'Read all the files.';
/** Pruning is off: these tests count compactions. */
const COMPACTING = { maxContextTokens: WINDOW, prune: { enabled: false } };
const COMPLETED = { status: 'completed', error: null };

/** The model reads this many files of 1,500 tokens. Its 9th request is the first one above 80 % of the window. */
function readFiles(scenario: Scenario, count: number) {
  scenario.service.simulator.script('test', readingReplies(count, 1_500));
  return scenario.ask(TASK);
}

const FAILURES = [
  // Asked with the cached prefix and as data, each time once more with a reminder (codex#36642: an empty history).
  { answer: 'empty', asked: 4, code: 'summary_invalid' },
  { answer: 'garbage', asked: 4, code: 'summary_invalid' },
  { answer: 'cut', asked: 4, code: 'summary_invalid' },
  // A summary that is no smaller than its source is not worth a reminder (codex#40619, gemini-cli#15225).
  { answer: 'longer', asked: 3, code: 'summary_invalid' },
  // A rate limit must not hold up the session either (oh-my-openagent#2138).
  { answer: '429', asked: 1, code: 'rate_limited' },
  // Asked with the prefix, as data in one piece, and with the first of smaller pieces.
  { answer: 'overflow', asked: 3, code: 'input_overflow' },
] as const;
/** The answer never comes (lossless-claw#711: a stall of 20 minutes). */
const SILENCE = { answer: 'hang', asked: 1, code: 'timeout' } as const;

describe('between 80 and 100 % of the window a run goes on without a summary', () => {
  it.each(FAILURES)('when the summarizer answers: $answer', async ({ answer, asked, code }) => {
    await using scenario = await startScenario({ window: WINDOW, context: COMPACTING });
    scenario.service.simulator.summaries(Array.from({ length: asked }, () => answer));
    expect(await readFiles(scenario, 12)).toMatchObject({ ...COMPLETED, steps: 13 });
    // One failed round, and a completed one after the view had grown.
    expect(scenario.calls()).toEqual({ model: 13, refused: 0, summarizer: asked + 1 });
    const [failed, next, ...others] = await scenario.rounds();
    expect(failed).toMatchObject({ state: 'failed', attempts: asked, error: { code }, tokensAfter: null });
    expect(next).toMatchObject({ state: 'completed', attempts: 1 });
    expect(next?.tokensBefore).toBeGreaterThan((failed?.tokensBefore ?? 0) + WINDOW * 0.05);
    expect(others).toEqual([]);
    expect(await eventsOf(scenario.service, scenario.sessionId, 'compaction:failed')).toHaveLength(1);
  });

  it('when the summarizer says nothing until the time of a compaction is up', async () => {
    await using scenario = await startScenario({ window: WINDOW, context: COMPACTING, compactionTimeoutMs: 2_500 });
    scenario.service.simulator.summaries([], SILENCE.answer);
    expect(await readFiles(scenario, 10)).toMatchObject({ ...COMPLETED, steps: 11 });
    expect(scenario.calls()).toEqual({ model: 11, refused: 0, summarizer: 1 });
    const { asked, code } = SILENCE;
    expect(await scenario.rounds()).toMatchObject([{ state: 'failed', attempts: asked, error: { code } }]);
  });
});

/** Failures that last. A run waits for one that passes by itself, which has its own tests. */
const LASTING = FAILURES.filter(({ answer }) => answer !== '429');

describe('above 100 % of the window the middle goes without a summary', () => {
  it.each([...LASTING, SILENCE])('when the summarizer only ever answers: $answer', async ({ answer, asked }) => {
    const timeout = answer === SILENCE.answer ? { compactionTimeoutMs: 2_500 } : {};
    await using scenario = await startScenario({ window: WINDOW, context: COMPACTING, ...timeout });
    const { simulator } = scenario.service;
    simulator.summaries([], answer);
    expect(await readFiles(scenario, 10)).toMatchObject({ ...COMPLETED, steps: 11 });
    expect(scenario.calls()).toEqual({ model: 11, refused: 0, summarizer: asked });
    simulator.script('test', [{ text: 'Understood.' }]);
    const note = `Note this: ${prose(3, 4_000)}`;
    expect(await scenario.ask(note)).toMatchObject({ ...COMPLETED, steps: 1 });
    expect(scenario.calls()).toEqual({ model: 12, refused: 0, summarizer: 2 * asked });
    const [first, last, ...others] = await scenario.rounds();
    expect(first).toMatchObject({ state: 'failed', attempts: asked, tokensAfter: null });
    expect(last).toMatchObject({ state: 'completed', strategy: 'middle-removal', attempts: asked });
    expect(others).toEqual([]);
    expect(requestsOf(scenario.service).steps.at(-1)?.request?.messages.at(-1)?.text).toContain(note);
    expect(await sessionOf(scenario.service, scenario.sessionId)).toMatchObject({
      status: 'idle',
      compacting_since: null,
    });
  });
});

describe('above 100 % of the window a summarizer that may answer later is waited for', () => {
  const NOTE = `Note this: ${prose(3, 7_000)}`;
  const BUSY = { mode: '429', retryAfterMs: 1_000 } as const;
  const OVERLOADED = { mode: '503', retryAfterMs: 100 } as const;

  /**
   * A session below all thresholds. The note brings it above the usable tokens, so that the summarizer is asked next.
   */
  async function nearlyFull(compaction: object = {}) {
    const scenario = await startScenario({ window: WINDOW, context: { ...COMPACTING, compaction } });
    expect(await readFiles(scenario, 7)).toMatchObject({ ...COMPLETED, steps: 8 });
    expect(scenario.calls()).toMatchObject({ model: 8, summarizer: 0 });
    scenario.service.simulator.script('test', [{ text: 'Understood.' }]);
    return scenario;
  }

  /** The course of the compactions, as readers are told. */
  async function toldOf({ service, sessionId }: Scenario): Promise<string[]> {
    const told = (await eventsOf(service, sessionId)).map(({ type }) => type);
    return told.filter((type) => type.startsWith('compaction:') || type === 'step:retrying');
  }

  it.each([
    { strategy: 'auto', code: 'rate_limited', answers: [BUSY] },
    // The requests with the prefix and as data are each sent once more at once.
    { strategy: 'auto', code: 'overloaded', answers: [OVERLOADED, OVERLOADED, OVERLOADED, OVERLOADED] },
    { strategy: 'pruning-agent', code: 'overloaded', answers: [OVERLOADED, OVERLOADED, OVERLOADED, OVERLOADED] },
  ])('$strategy, $code: nothing is taken out without a summary', async ({ strategy, code, answers }) => {
    await using scenario = await nearlyFull({ strategy });
    scenario.service.simulator.summaries(answers);
    expect(await scenario.ask(NOTE)).toMatchObject({ ...COMPLETED, steps: 1 });
    expect(scenario.calls()).toEqual({ model: 9, refused: 0, summarizer: answers.length + 1 });
    expect(await scenario.rounds()).toMatchObject([
      { strategy, state: 'failed', attempts: answers.length, error: { code } },
      { strategy, state: 'completed', attempts: 1 },
    ]);
    expect(await toldOf(scenario)).toEqual([
      'compaction:start',
      'compaction:failed',
      'step:retrying',
      'compaction:start',
      'compaction:complete',
    ]);
    const [retrying] = await eventsOf(scenario.service, scenario.sessionId, 'step:retrying');
    expect(retrying?.data).toMatchObject({ error: { code } });
    expect(requestsOf(scenario.service).steps.at(-1)?.request?.messages[0]?.text).toContain('Summary no. 2');
  });

  it('for as long as its provider asks for, and can be cancelled meanwhile', async () => {
    await using scenario = await nearlyFull();
    const { simulator, deps } = scenario.service;
    simulator.summaries([], { mode: '503', retryAfterMs: 600_000 });
    const { runId } = await scenario.send(NOTE);
    await eventually(async () => (await toldOf(scenario)).includes('step:retrying'), 'the run waits');
    const [retrying] = await eventsOf(scenario.service, scenario.sessionId, 'step:retrying');
    const { pending_at: dueAt } = await deps.db
      .selectFrom('runs')
      .select('pending_at')
      .where('id', '=', parseId('run', runId) ?? '')
      .executeTakeFirstOrThrow();
    expect(retrying?.data['nextAttemptAt']).toBe(dueAt?.toISOString());
    expect(Number(dueAt) - Date.now()).toBeGreaterThan(500_000);
    expect(await sessionOf(scenario.service, scenario.sessionId)).toMatchObject({ compacting_since: null });
    await requestCancel(deps.db, 'default', parseId('run', runId) ?? '');
    expect(await scenario.ended(runId)).toMatchObject({ status: 'cancelled' });
    expect(await scenario.rounds()).toMatchObject([{ state: 'failed', tokensAfter: null }]);
    expect(scenario.calls()).toMatchObject({ model: 8, summarizer: 4 });
  });

  it('but not for ever: then the middle goes without a summary', async () => {
    await using scenario = await nearlyFull();
    scenario.service.simulator.summaries([], '429');
    const { runId } = await scenario.send(NOTE);
    // The run counts as having waited nearly as often as it may, because real pauses grow.
    await eventually(() => failedBefore(scenario, 5), 'the run waits');
    expect(await scenario.ended(runId)).toMatchObject({ ...COMPLETED, steps: 1 });
    const rounds = await scenario.rounds();
    expect(rounds.at(-1)).toMatchObject({ state: 'completed', strategy: 'middle-removal', attempts: 1 });
    expect(rounds.slice(0, -1).map(({ state, error }) => [state, error?.code])).toEqual(
      rounds.slice(1).map(() => ['failed', 'rate_limited']),
    );
    expect(scenario.calls()).toEqual({ model: 9, refused: 0, summarizer: rounds.length });
    expect((await toldOf(scenario)).filter((type) => type === 'step:retrying')).toHaveLength(rounds.length - 1);
  });

  /** Sets the number of failed rounds. Returns false, without a change, while a worker has the compaction. */
  async function failedBefore({ service, sessionId }: Scenario, failures: number): Promise<boolean> {
    const { numAffectedRows } = await sql`
      update sessions s set context_state = jsonb_set(context_state, '{pending,failures}', ${failures}::text::jsonb)
      from runs r where s.id = ${sessionId} and r.id = s.active_run_id and r.pending_kind = 'compaction'
        and r.claim_id is null and context_state #> '{pending,failures}' is not null`.execute(service.deps.db);
    return numAffectedRows === 1n;
  }
});

describe('a pruning agent', () => {
  const context = { ...COMPACTING, compaction: { strategy: 'pruning-agent' } };

  it('that sends no JSON is asked three times more, then whole steps at the end are kept', async () => {
    await using scenario = await startScenario({ window: WINDOW, context });
    scenario.service.simulator.summaries([], 'garbage');
    expect(await readFiles(scenario, 10)).toMatchObject({ ...COMPLETED, steps: 11 });
    expect(scenario.calls()).toEqual({ model: 11, refused: 0, summarizer: 4 });
    expect(await scenario.rounds()).toMatchObject([{ strategy: 'pruning-agent', state: 'completed', attempts: 4 }]);
  });

  it('whose window is smaller than the conversation summarizes it in pieces', async () => {
    const models = [{ provider: 'simulated', model: 'small', contextWindow: 4_000, maxOutput: 4_000 }];
    const compaction = { strategy: 'pruning-agent', model: 'simulated/small' };
    await using scenario = await startScenario({ window: WINDOW, context: { ...COMPACTING, compaction }, models });
    const { simulator } = scenario.service;
    simulator.setWindow('small', 4_000);
    simulator.script('test', [
      ...readingReplies(9, 200).map((reply) => ({ ...reply, text: prose(7, 1_300) })),
      { text: 'Done.' },
    ]);
    expect(await scenario.ask(TASK)).toMatchObject(COMPLETED);
    expect(await scenario.rounds()).toMatchObject([{ strategy: 'pruning-agent', state: 'completed' }]);
    const { steps, summaries } = requestsOf(scenario.service);
    expect(summaries.length).toBeGreaterThan(1);
    expect(summaries.filter(({ refusal, model }) => refusal !== undefined || model !== 'small')).toEqual([]);
    expect(steps.at(-1)?.request?.messages[0]?.text).toContain('## Goal');
  });

  it('whose request was too large summarizes the conversation as data', async () => {
    await using scenario = await startScenario({ window: WINDOW, context });
    scenario.service.simulator.summaries(['overflow']);
    expect(await readFiles(scenario, 10)).toMatchObject({ ...COMPLETED, steps: 11 });
    expect(scenario.calls()).toEqual({ model: 11, refused: 0, summarizer: 2 });
    const [refused, answered] = requestsOf(scenario.service).summaries;
    expect(answered?.promptTokens).toBeLessThan(refused?.promptTokens ?? 0);
    expect(await scenario.rounds()).toMatchObject([{ strategy: 'pruning-agent', state: 'completed', attempts: 2 }]);
    expect(requestsOf(scenario.service).steps.at(-1)?.request?.messages[0]?.text).toContain('## Goal');
  });

  it.each(['pruning-agent', 'auto'])(
    'may be an agent of its own, with its model and instructions (%s)',
    async (strategy) => {
      const compaction = { strategy, model: 'agent:scribe' };
      const scribe = { name: 'scribe', model: 'simulated-chat/scribe', instructions: 'You keep the minutes.' };
      await using scenario = await startScenario({
        window: WINDOW,
        context: { ...COMPACTING, compaction },
        others: [scribe],
      });
      expect(await readFiles(scenario, 10)).toMatchObject({ ...COMPLETED, steps: 11 });
      expect(await scenario.rounds()).toMatchObject([{ strategy, state: 'completed', attempts: 1 }]);
      const [sent] = requestsOf(scenario.service).summaries;
      expect(sent).toMatchObject({ model: 'scribe', request: { system: scribe.instructions } });
    },
  );

  it('that is an agent which is there no more fails the round: the run goes on', async () => {
    const compaction = { strategy: 'pruning-agent', model: 'agent:scribe' };
    await using scenario = await startScenario({ window: WINDOW, context: { ...COMPACTING, compaction } });
    expect(await readFiles(scenario, 10)).toMatchObject({ ...COMPLETED, steps: 11 });
    expect(scenario.calls()).toMatchObject({ summarizer: 0 });
    expect(await scenario.rounds()).toMatchObject([{ state: 'failed', error: { code: 'agent_not_found' } }]);
  });

  it('that is rate-limited ends the round: the run goes on', async () => {
    await using scenario = await startScenario({ window: WINDOW, context });
    scenario.service.simulator.summaries(['429']);
    expect(await readFiles(scenario, 10)).toMatchObject({ ...COMPLETED, steps: 11 });
    expect(scenario.calls()).toEqual({ model: 11, refused: 0, summarizer: 1 });
    expect(await scenario.rounds()).toMatchObject([{ state: 'failed', error: { code: 'rate_limited' } }]);
  });
});

describe('an overflow inside a compaction', () => {
  it('is answered with a smaller request, not with the same one (goose#8642)', async () => {
    await using scenario = await startScenario({ window: WINDOW, context: COMPACTING });
    scenario.service.simulator.summaries(['overflow', 'overflow']);
    expect(await readFiles(scenario, 10)).toMatchObject({ ...COMPLETED, steps: 11 });
    // Asked with the prefix, as data in one piece, and as data in three pieces, which are cut between messages.
    expect(scenario.calls()).toEqual({ model: 11, refused: 0, summarizer: 5 });
    const [prefix = 0, whole = 0, ...pieces] = requestsOf(scenario.service).summaries.map((sent) => sent.promptTokens);
    expect(whole).toBeLessThan(prefix);
    for (const piece of pieces) expect(piece).toBeLessThan(whole);
    expect(await scenario.rounds()).toMatchObject([{ state: 'completed', attempts: 5 }]);
  });
});
