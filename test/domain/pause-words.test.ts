import { describe, expect, it } from 'vitest';
import { signalsOf } from '../../src/domain/model/error-signals.ts';
import { judgeProviderError } from '../../src/domain/model/provider-errors.ts';

const MINUTE = 60_000;
const body = (error: object) => ({ statusCode: 429, responseBody: JSON.stringify([{ error }]) });
const said = (message: string) => body({ code: 429, message });
const violation = (quotaId: string) => ({
  '@type': 'type.googleapis.com/google.rpc.QuotaFailure',
  violations: [{ quotaId }],
});
const pause = { '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: '45.837906927s' };

describe('the pause in the body of a refusal', () => {
  it.each<[object, number | null]>([
    [said('Please retry in 38s.'), 38_000],
    [said('Please try again in 1m12s.'), 72_000],
    [said('Rate limit reached. Please try again in 7m12.5s. Visit the site.'), 7 * MINUTE + 12_500],
    [said('Try again in 600ms'), 600],
    [said('Retry after 2 minutes and 5 seconds'), 2 * MINUTE + 5_000],
    [said('Your limit resets in 3 hours'), 180 * MINUTE],
    [said('Please wait 20 seconds before you ask again'), 20_000],
    [body({ message: 'Exhausted.', details: [pause] }), 45_838],
    [body({ message: 'Exhausted.', retry_after: 12 }), 12_000],
    [body({ message: 'Exhausted.', retry_after_ms: '1500' }), 1_500],
    [said('Too many requests: 60 per minute'), null],
    [said('You may ask 5 times in 10 minutes'), null],
  ])('of %j is %s', (error, pauseMs) => {
    expect(signalsOf(error).pauseMs).toBe(pauseMs);
  });

  it.each<[string, object, string]>([
    [
      'a quota of the day',
      body({ message: 'Exhausted.', details: [violation('GenerateRequestsPerDayPerProjectPerModel-FreeTier'), pause] }),
      'quota',
    ],
    ['a quota of the day in words', said('Rate limit exceeded: free-models-per-day. Add 10 credits.'), 'quota'],
    [
      'a rate of tokens per day that ends soon',
      said('Rate limit reached on tokens per day (TPD). Please try again in 7m12s.'),
      'rate_limited',
    ],
    [
      'a rate per minute',
      body({ message: 'Exhausted.', details: [violation('GenerateRequestsPerMinute'), pause] }),
      'rate_limited',
    ],
  ])('%s', (_, error, errorClass) => {
    expect(judgeProviderError(signalsOf(error)).class).toBe(errorClass);
  });
});
