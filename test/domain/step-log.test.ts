import { describe, expect, test } from 'vitest';
import {
  foldSteps,
  type LoggedCall,
  type LoggedEvent,
  type LoggedMessage,
  type StepLogInput,
  type StepRow,
} from '../../src/domain/run/step-log.ts';
import { NO_USAGE } from '../../src/domain/usage.ts';

const START = Date.parse('2026-01-31T12:00:00Z');
const at = (ms: number): Date => new Date(START + ms);
const run = { runId: 'run_1' };

const message = (fields: Partial<LoggedMessage> = {}): LoggedMessage => ({
  id: 'm1',
  seq: 2,
  step: 1,
  attempt: 1,
  startedAt: at(0),
  finishedAt: at(900),
  superseded: false,
  model: 'simulated/test',
  finishReason: 'tool-calls',
  usage: { ...NO_USAGE, inputTokens: 100, cacheReadTokens: 80, totalTokens: 100 },
  error: null,
  ...fields,
});

const call = (fields: Partial<LoggedCall> = {}): LoggedCall => ({
  messageId: 'm1',
  index: 1,
  toolName: 'grep',
  state: 'completed',
  startedAt: at(900),
  finishedAt: at(1_000),
  truncated: false,
  ...fields,
});

const event = (type: string, ms: number, data: object): LoggedEvent => ({ type, createdAt: at(ms), data: { ...data } });

const started = (messageId: string, ms: number, { step = 1, attempt = 1, workerId = 'a', waitedMs = 12 } = {}) =>
  event('step:started', ms, { ...run, step, attempt, messageId, workerId, waitedMs });
const answered = (messageId: string, ms: number, workerId = 'a') =>
  event('llm:response', ms, {
    messageId,
    content: '',
    provider: 'p',
    model: 'm',
    finishReason: 'stop',
    tokenUsage: NO_USAGE,
    costUsd: 0.5,
    workerId,
    timing: { waitedMs: 12, claimMs: 4, viewMs: 9, firstTokenMs: 410, streamMs: 400 },
    context: { usedTokens: 100, usableTokens: 1_000 },
  });
const completed = (messageId: string, ms: number, { step = 1, workerId = 'a' } = {}) =>
  event('step:completed', ms, {
    ...run,
    step,
    attempt: 1,
    messageId,
    finishReason: 'stop',
    toolCalls: 0,
    usage: NO_USAGE,
    workerId,
  });

const fold = (input: Partial<StepLogInput>) =>
  foldSteps({
    runStatus: 'completed',
    messages: [],
    calls: [],
    events: [],
    compactions: [],
    publicIdOf: (id) => id,
    ...input,
  });
const stepsOf = (input: Partial<StepLogInput>) => fold(input).filter((row): row is StepRow => row.kind === 'step');

describe('the fold of a step', () => {
  test('gives each phase its time, in the order in which they follow each other', () => {
    const [row] = stepsOf({
      messages: [message()],
      calls: [call()],
      events: [started('m1', 1), answered('m1', 900), completed('m1', 1_006)],
    });
    expect(row).toMatchObject({
      state: 'completed',
      queuedAt: at(-11),
      startedAt: at(1),
      finishedAt: at(1_006),
      waitedMs: 12,
      claimMs: 4,
      viewMs: 9,
      firstTokenMs: 410,
      streamMs: 400,
      commitMs: 6,
      workers: ['a'],
      costUsd: 0.5,
      context: { usedTokens: 100, usableTokens: 1_000 },
      cachedShare: 0.8,
      tools: [{ toolName: 'grep' }],
    });
  });

  test('shows both workers of a step that another one recovered, and of one that was begun again', () => {
    const [recovered] = stepsOf({
      messages: [message()],
      calls: [call({ state: 'unknown' })],
      events: [started('m1', 0), answered('m1', 900), completed('m1', 2_000, { workerId: 'b' })],
    });
    expect(recovered).toMatchObject({ state: 'completed', workers: ['a', 'b'] });
    const again = stepsOf({
      messages: [
        message({ superseded: true, finishReason: 'aborted', usage: null }),
        message({ id: 'm2', seq: 3, startedAt: at(1_000), finishedAt: at(1_500) }),
      ],
      events: [
        started('m1', 0),
        event('step:reset', 900, { ...run, step: 1, messageId: 'm1' }),
        started('m2', 1_000, { workerId: 'b' }),
        answered('m2', 1_500, 'b'),
        completed('m2', 1_600, { workerId: 'b' }),
      ],
    });
    expect(again).toMatchObject([
      { state: 'superseded', workers: ['a'], finishedAt: at(900) },
      { state: 'completed', workers: ['b'], finishedAt: at(1_600) },
    ]);
  });

  test('tells a retry by its error and its next attempt', () => {
    const error = { code: 'transport', message: 'No.' } as const;
    const rows = stepsOf({
      messages: [
        message({ superseded: true, finishReason: 'error', usage: null, error }),
        message({ id: 'm2', seq: 3, attempt: 2, startedAt: at(3_000) }),
      ],
      events: [
        started('m1', 0),
        event('step:retrying', 901, { ...run, step: 1, attempt: 1, error, nextAttemptAt: at(3_000).toISOString() }),
        started('m2', 3_000, { attempt: 2 }),
        completed('m2', 3_900),
      ],
    });
    expect(rows).toMatchObject([
      { attempt: 1, state: 'retried', error, nextAttemptAt: at(3_000).toISOString() },
      { attempt: 2, state: 'completed', error: null, nextAttemptAt: null },
    ]);
  });

  test.each<[string, Partial<StepLogInput>, string]>([
    ['its message is open', { runStatus: 'running', messages: [message({ finishedAt: null })] }, 'running'],
    [
      'a call of it runs',
      { runStatus: 'running', messages: [message()], calls: [call({ state: 'running', finishedAt: null })] },
      'running',
    ],
    [
      'a call of it waits for an answer',
      {
        runStatus: 'requires_action',
        messages: [message()],
        calls: [call({ state: 'awaiting_approval', finishedAt: null })],
      },
      'waiting',
    ],
    [
      'a person decides on a call of unknown outcome',
      { runStatus: 'requires_action', messages: [message()], calls: [call({ state: 'unknown' })] },
      'waiting',
    ],
    ['it was cancelled', { runStatus: 'cancelled', messages: [message({ finishReason: 'aborted' })] }, 'cancelled'],
    [
      'its run has failed',
      { runStatus: 'failed', messages: [message({ error: { code: 'transport', message: 'No.' } })] },
      'failed',
    ],
    ['its worker died with its run', { runStatus: 'failed', messages: [message({ finishedAt: null })] }, 'failed'],
    ['its events were trimmed', { messages: [message()] }, 'completed'],
  ])('says what a step is at when %s', (_name, input, state) => {
    expect(stepsOf(input)).toMatchObject([{ state, workers: [], waitedMs: null }]);
  });
});

describe('compactions and prunes', () => {
  const compaction = {
    round: 1,
    strategy: 'auto',
    reason: 'threshold',
    state: 'completed',
    tokensBefore: 96_000,
    tokensAfter: 21_000,
    costUsd: 0.01,
    error: null,
    adapted: null,
    startedAt: at(2_000),
    finishedAt: at(2_500),
  };
  const second = message({
    id: 'm2',
    seq: 4,
    step: 2,
    startedAt: at(3_000),
    usage: { ...NO_USAGE, inputTokens: 100, cacheReadTokens: 0 },
  });
  const first = message({ usage: { ...NO_USAGE, inputTokens: 100, cacheWriteTokens: 90 } });

  test('are rows of their own between the steps', () => {
    const prune = event('prune:complete', 2_700, { prunedCount: 1, savedTokens: 5, prunedTools: ['grep'] });
    const rows = fold({ messages: [first, second], compactions: [compaction], events: [prune] });
    expect(rows.map(({ kind }) => kind)).toEqual(['step', 'compaction', 'prune', 'step']);
  });

  test.each<[string, Partial<StepLogInput>, string | null]>([
    ['a compaction', { messages: [first, second], compactions: [compaction] }, 'compaction'],
    [
      'a prune',
      {
        messages: [first, second],
        events: [event('prune:complete', 2_000, { prunedCount: 1, savedTokens: 5, prunedTools: [] })],
      },
      'prune',
    ],
    ['other tools', { messages: [first, second], events: [event('tools:pinned', 2_000, {})] }, 'tools'],
    ['another agent', { messages: [first, second], events: [event('llm:switched', 2_000, {})] }, 'agent'],
    ['another model', { messages: [first, { ...second, model: 'simulated/other' }] }, 'agent'],
    ['nothing that is known', { messages: [first, second] }, 'unexplained'],
    [
      'no break',
      { messages: [first, { ...second, usage: { ...NO_USAGE, inputTokens: 100, cacheReadTokens: 60 } }] },
      null,
    ],
    ['a provider without a cache', { messages: [message({ usage: NO_USAGE }), second] }, null],
  ])('name the cause of a broken cache: %s', (_name, input, cause) => {
    expect(stepsOf(input).map((row) => row.cacheBreak)).toEqual([null, cause]);
  });
});
