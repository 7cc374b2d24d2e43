import { describe, expect, it } from 'vitest';
import { readReply } from '../../src/domain/run/call-reply.ts';
import type { CallQuestion } from '../../src/domain/transcript/call-question.ts';
import {
  type CallAnswer,
  type CallResolution,
  closeCall,
  planAnswer,
  UNFINISHED,
} from '../../src/domain/transcript/required-action.ts';

const schema = {
  type: 'object',
  properties: {
    account: { type: 'string', minLength: 2, format: 'email' },
    copies: { type: 'integer', default: 1 },
    kind: { type: 'string', enum: ['a', 'b'] },
  },
  required: ['account'],
};
const asks = (...items: CallQuestion['items']): CallQuestion => ({ items, state: {} });
const form = { key: 'form', message: 'Which account?', schema };
const page = { key: 'page', message: 'Log in', url: 'https://example.com/login' };

describe('a reply to a question', () => {
  it('is the filled form, with the defaults of the fields that were left out', () => {
    expect(readReply(asks(form), { account: 'x@example.com' })).toEqual({
      contents: { form: { account: 'x@example.com', copies: 1 } },
    });
  });

  it.each([
    [{}, /form: .*account/],
    [{ account: 'x' }, /form: .*account/],
    [{ account: 'xy', kind: 'c' }, /form: .*kind/],
    ['xy', /form: the answer is the filled form, an object/],
  ])('that does not fit the form is refused: %j', (output, problem) => {
    expect(readReply(asks(form), output)).toEqual({ problem: expect.stringMatching(problem) });
  });

  it('of a page needs no content', () => {
    expect(readReply(asks(page), null)).toEqual({ contents: { page: {} } });
  });

  it('to several questions has one answer by each key', () => {
    const both = asks(form, page);
    expect(readReply(both, { form: { account: 'xy' }, page: true })).toMatchObject({ contents: { page: {} } });
    expect(readReply(both, 'yes')).toEqual({ problem: expect.stringContaining('2 questions') });
  });

  it('is any object where the check of the form could take for ever', () => {
    const slow = { ...form, schema: { type: 'object', properties: { a: { pattern: '(a+)+$' } } } };
    expect(readReply(asks(slow), { a: 'x' })).toEqual({ contents: { form: { a: 'x' } } });
  });
});

it.each<[CallAnswer, CallResolution | null]>([
  [{ kind: 'output', output: {} }, { state: 'pending' }],
  [{ kind: 'deny', reason: 'no' }, { state: 'pending' }],
  [{ kind: 'expired' }, { state: 'pending' }],
  [{ kind: 'approve' }, null],
  [{ kind: 'output', output: 'no', isError: true }, null],
  [{ kind: 'content', content: [{ type: 'text', text: 'a' }] }, null],
])('the call of a tool that asks takes an output or a denial, and goes on: %j', (answer, plan) => {
  expect(planAnswer('input', answer)).toEqual(plan);
});

it.each(['awaiting_output', 'pending'] as const)('a call that asked is not closed as if it never ran: %s', (state) => {
  const answered = { kind: 'output', output: { account: 'xy' } } as const;
  const closed = { state: 'error', output: { type: 'error-text', value: UNFINISHED } };
  expect(closeCall({ state, kind: 'input' }, answered, 'Cancelled before it started.')).toEqual(closed);
});
