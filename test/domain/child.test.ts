import { describe, expect, it } from 'vitest';
import {
  childAnswer,
  childInputSchema,
  childStatus,
  dutyOf,
  refusedChild,
  taskText,
  tightest,
} from '../../src/domain/run/child.ts';

const child = { sessionId: '018f0000-0000-7000-8000-000000000001', runId: '018f0000-0000-7000-8000-000000000002' };
const used = { steps: 2, tokens: 30, costUsd: 0.5 };

describe('what the model reads of a child', () => {
  it('is its answer after how it ended and what it used', () => {
    const { output, ...rest } = Object(childAnswer(child, { status: 'completed', text: 'Found.', ...used }));
    expect(rest).toEqual({ kind: 'output' });
    expect(Object.keys(JSON.parse(output))).toEqual([
      'status',
      'session',
      'run',
      'steps',
      'tokens',
      'costUsd',
      'answer',
    ]);
  });

  it('is the result that a schema asked for in place of the text', () => {
    const { output } = Object(childAnswer(child, { status: 'completed', text: '{"n":1}', value: { n: 1 }, ...used }));
    expect(JSON.parse(output)).toMatchObject({ output: { n: 1 } });
    expect(output).not.toContain('answer');
  });

  it('is an error that names the session, so that the model can go on with it', () => {
    const error = { code: 'transport', message: 'Away.' } as const;
    const answer = childAnswer(child, { status: 'failed', error, ...used });
    expect(answer).toMatchObject({ isError: true });
    expect(JSON.parse(Object(answer).output)).toMatchObject({ status: 'failed', session: expect.any(String), error });
  });

  it('names no session if none was begun', () => {
    const { output } = Object(childAnswer(child, refusedChild({ code: 'limit_exceeded', message: 'depth: …' })));
    expect(JSON.parse(output)).toEqual({ status: 'refused', error: { code: 'limit_exceeded', message: 'depth: …' } });
  });
});

it('of several limits the smallest holds', () => {
  expect(tightest({ maxSteps: 5, maxTokens: 10 }, { maxSteps: 3, maxCostUsd: 1 }, {})).toEqual({
    ...{ maxSteps: 3, maxTokens: 10, maxCostUsd: 1 },
  });
});

it('a task comes with its context, and neither is without bounds', () => {
  expect(taskText({ task: 'Look' })).toBe('Look');
  expect(taskText({ task: 'Look', context: 'Here' })).toBe('Look\n\n<context>\nHere\n</context>');
  expect(childInputSchema.safeParse({ task: '' }).success).toBe(false);
  expect(childInputSchema.safeParse({ task: 'x'.repeat(100_001) }).success).toBe(false);
});

it.each([
  ['waiting', 'held', null, 0],
  ['waiting', 'asked', null, 0],
  ['running', 'running', null, 0],
  ['requires_action', 'running', null, 2],
  ['incomplete', 'ended', 'incomplete', 0],
  ['refused', 'delivered', 'refused', 0],
  ['completed', 'dropped', 'completed', 0],
  ['cancelled', 'dropped', null, 0],
] as const)('a child is told of as %s: %s, %s', (told, state, status, asks) => {
  expect(childStatus(state, { status, asks })).toBe(told);
});

describe('what is to be done for a child', () => {
  const kept = { stopRequested: false, isTold: true, asks: 0, asksTold: 0, result: null };
  const running = { ...kept, state: 'running' } as const;
  const result = { status: 'completed', ...used } as const;

  it.each([
    ['begin', { ...running, state: 'asked', isTold: false }],
    ['tell', { ...running, isTold: false }],
    ['stop', { ...running, isTold: false, stopRequested: true }],
    ['ask', { ...running, asks: 1 }],
    ['tell', { ...running, state: 'ended', isTold: false, result }],
    ['deliver', { ...running, state: 'ended', result }],
    [
      'deliver',
      { ...running, state: 'ended', isTold: false, result: refusedChild({ code: 'conflict', message: 'No.' }) },
    ],
    [null, running],
    [null, { ...running, state: 'held' }],
    [null, { ...running, state: 'delivered', result }],
    [null, { ...running, state: 'dropped', stopRequested: true }],
  ] as const)('is %s', (duty, child) => {
    expect(dutyOf(child)).toBe(duty);
  });
});
