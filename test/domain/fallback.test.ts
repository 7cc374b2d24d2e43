import { expect, it } from 'vitest';
import { agentFileSchema, atModel, toAgent } from '../../src/agents/agent.ts';
import { withOverrides } from '../../src/agents/overrides.ts';
import { switchReason } from '../../src/domain/model/fallback.ts';
import type { ProviderErrorClass } from '../../src/domain/model/provider-error-rules.ts';
import type { Branch } from '../../src/domain/run/branch.ts';
import { planNext } from '../../src/domain/run/next-step.ts';

it.each<[ProviderErrorClass, attempt: number, retryAfterMs: number | null, string | null]>([
  ['timeout', 1, null, 'timeout'],
  ['quota', 1, null, 'quota'],
  ['overloaded', 1, null, null],
  ['overloaded', 2, null, 'overloaded'],
  ['transport', 1, null, null],
  ['transport', 2, null, 'transport'],
  ['rate_limited', 1, 1_000, null],
  ['rate_limited', 1, 30_000, 'rate_limited'],
  ['rate_limited', 2, 1_000, 'rate_limited'],
  ['auth', 6, null, null],
  ['model_unavailable', 6, null, null],
  ['invalid_request', 6, null, null],
  ['content_policy', 6, null, null],
  ['malformed_history', 6, null, null],
  ['input_overflow', 6, null, null],
  ['byte_overflow', 6, null, null],
  ['tools_unsupported', 6, null, null],
])('after %s, attempt %i, asked to wait %s ms, the reason to switch is %s', (errorClass, attempt, waitMs, reason) => {
  expect(switchReason(errorClass, attempt, waitMs)).toBe(reason);
});

it('a switch is the same step at once, with the position of its model, and is told', () => {
  const switched = { from: 'a/a', to: 'b/b', reason: 'overloaded' } as const;
  const error = { code: 'overloaded', message: 'x' } as const;
  const next = { position: 1, ...switched };
  const plan = (result: Parameters<typeof planNext>[0]['result']): Branch =>
    planNext({
      runId: '018f2b5c-0000-7000-8000-000000000001',
      stepNo: 4,
      stepsBefore: 3,
      maxSteps: 9,
      finishReason: 'error',
      toolCalls: 0,
      result,
    }).otherwise;
  const branch = { pendingNo: 4, delayMs: 0, modelPosition: 1, events: [{ type: 'llm:switched', data: switched }] };
  expect(plan({ kind: 'failed', error, retry: { delayMs: 0, attempt: 2, next } })).toMatchObject({
    kind: 'retry',
    ...branch,
  });
  const postponement = { delayMs: 0, attempt: 1, error, next };
  expect(plan({ kind: 'postponed', postponement })).toMatchObject({ kind: 'postpone', ...branch });
  expect(plan({ kind: 'failed', error, retry: { delayMs: 0, attempt: 2 } })).not.toHaveProperty('modelPosition');
});

it('an agent has one model or a list of up to five, each once', () => {
  const read = (model: unknown) => agentFileSchema.safeParse({ name: 'a', model });
  const parsed = read(['a/1', 'b/2', 'c/3']);
  if (!parsed.success) throw parsed.error;
  const agent = toAgent(parsed.data);
  expect(agent).toMatchObject({ model: 'a/1', fallbacks: ['b/2', 'c/3'] });
  expect([0, 1, 2, 3].map((position) => atModel(agent, position).model)).toEqual(['a/1', 'b/2', 'c/3', 'a/1']);
  expect(withOverrides(agent, { model: 'b/2' })).not.toHaveProperty('fallbacks');
  expect(withOverrides(agent, { instructions: 'x' })).toHaveProperty('fallbacks');
  expect(toAgent({ ...parsed.data, model: 'a/1' })).not.toHaveProperty('fallbacks');
  for (const wrong of [[], ['a'], ['a/1', 'a/1'], ['1', '2', '3', '4', '5', '6'].map((id) => `a/${id}`), 7]) {
    expect(read(wrong).success, JSON.stringify(wrong)).toBe(false);
  }
});
