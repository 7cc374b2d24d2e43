import { expect, it } from 'vitest';
import { checkReasked, type MadeResponse } from './check/reasked.ts';

const response = (requestNo: number, fields: Partial<MadeResponse> = {}): MadeResponse => ({
  id: `resp_${requestNo}`,
  requestNo,
  cacheKey: 'session',
  digest: 'question',
  status: 'completed',
  ...fields,
});

it.each<[string, readonly MadeResponse[], readonly string[], readonly string[]]>([
  ['an answer that was there', [response(1), response(2)], ['resp_1'], ['request 2 asks again for resp_1 (completed)']],
  [
    'an answer that was being made',
    [response(1, { status: 'in_progress' }), response(2)],
    ['resp_1'],
    ['request 2 asks again for resp_1 (in_progress)'],
  ],
  ['no answer whose id died with the worker', [response(1), response(2)], ['resp_2'], []],
  ['no answer that failed', [response(1, { status: 'failed' }), response(2)], ['resp_1'], []],
  ['no answer that was cancelled', [response(1, { status: 'cancelled' }), response(2)], ['resp_1'], []],
  ['no answer to another request', [response(1), response(2, { digest: 'other' })], ['resp_1'], []],
  ['no answer of another session', [response(1), response(2, { cacheKey: 'other' })], ['resp_1'], []],
])('the judge takes for asked again: %s', (_what, made, noted, found) => {
  expect(checkReasked(made, new Set(noted))).toEqual(found);
});
