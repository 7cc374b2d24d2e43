import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ProviderErrorClass } from '../../src/domain/model/provider-error-rules.ts';
import { PROVIDER_ERROR_MESSAGES } from '../../src/domain/model/provider-errors.ts';
import { afterPauseMs, planRetry, REMEDIES } from '../../src/domain/model/retry-policy.ts';

const RETRYABLE: readonly ProviderErrorClass[] = ['rate_limited', 'overloaded', 'transport', 'timeout'];
const ALL = Object.keys(PROVIDER_ERROR_MESSAGES) as ProviderErrorClass[];
const FINAL = ALL.filter((errorClass) => !RETRYABLE.includes(errorClass));

const MAX_ATTEMPTS = 6;
const MAX_BACKOFF_MS = 60_000;
const MAX_ASKED_MS = 15 * 60_000;
/** Who was told the same comes back spread over a quarter of the pause. */
const MAX_WAIT_MS = MAX_ASKED_MS * 1.25;
const ALMOST_ONE = 1 - Number.EPSILON;

const retryable = fc.constantFrom(...RETRYABLE);
const attempt = fc.integer({ min: 1, max: MAX_ATTEMPTS - 1 });
const jitter = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

function delayOf(...args: Parameters<typeof planRetry>): number {
  const plan = planRetry(...args);
  if (!plan.retry) throw new Error('not tried again');
  return plan.delayMs;
}

describe('the plan for a failed model call', () => {
  it.each([
    { attempt: 1, least: 500, most: 1_000 },
    { attempt: 2, least: 1_000, most: 2_000 },
    { attempt: 3, least: 2_000, most: 4_000 },
    { attempt: 4, least: 4_000, most: 8_000 },
    { attempt: 5, least: 8_000, most: 16_000 },
  ])('waits between $least and $most ms after attempt $attempt', ({ attempt: failed, least, most }) => {
    expect(delayOf('overloaded', failed, null, 0)).toBe(least);
    expect(delayOf('overloaded', failed, null, ALMOST_ONE)).toBe(most);
  });

  it('knows every class: some are worth another attempt, the others are final', () => {
    expect(ALL.filter((errorClass) => planRetry(errorClass, 1, null, 0).retry).sort()).toEqual(RETRYABLE.toSorted());
  });

  it('leaves overflows to the context layer: the same request would overflow again', () => {
    expect(REMEDIES).toMatchObject({
      input_overflow: 'compact',
      silent_truncation: 'compact',
      output_reserve_overflow: 'shrink_output',
      byte_overflow: 'strip_media',
      malformed_history: 'none',
    });
  });

  it('never tries a final class again, whatever the provider asks for', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...FINAL),
        fc.integer({ min: 1, max: 99 }),
        fc.nat(),
        jitter,
        (final, no, asked, j) => {
          expect(planRetry(final, no, asked, j)).toEqual({ retry: false });
        },
      ),
    );
  });

  // Field bugs: opencode#21960, opencode#17648, opencode#25733 retried for ever.
  it('gives up after six attempts', () => {
    fc.assert(
      fc.property(retryable, fc.integer({ min: MAX_ATTEMPTS, max: 1_000 }), fc.nat(), jitter, (given, no, asked, j) => {
        expect(planRetry(given, no, asked, j)).toEqual({ retry: false });
      }),
    );
  });

  it('waits a whole, bounded number of milliseconds', () => {
    fc.assert(
      fc.property(retryable, attempt, fc.option(fc.double({ min: 0, noNaN: true })), jitter, (given, no, asked, j) => {
        const delayMs = delayOf(given, no, asked, j);
        expect(Number.isInteger(delayMs)).toBe(true);
        expect(delayMs).toBeGreaterThan(0);
        expect(delayMs).toBeLessThanOrEqual(asked === null ? MAX_BACKOFF_MS : MAX_WAIT_MS);
      }),
    );
  });

  it('waits longer from attempt to attempt: the longest wait of one is at most the shortest of the next', () => {
    fc.assert(
      fc.property(retryable, fc.integer({ min: 1, max: MAX_ATTEMPTS - 2 }), jitter, jitter, (given, no, j, k) => {
        expect(delayOf(given, no, null, j)).toBeLessThanOrEqual(delayOf(given, no + 1, null, k));
      }),
    );
  });

  // Field bug: opencode#20126 waited for 25 days.
  it('never comes back before the provider wants it, up to a quarter of an hour, nor much later', () => {
    fc.assert(
      fc.property(retryable, attempt, fc.integer({ min: 0, max: 2 * MAX_ASKED_MS }), jitter, (given, no, asked, j) => {
        const delayMs = delayOf(given, no, asked, j);
        expect(delayMs).toBeGreaterThanOrEqual(Math.min(asked, MAX_ASKED_MS));
        expect(delayMs).toBeGreaterThanOrEqual(delayOf(given, no, null, j));
        expect(delayMs).toBeLessThanOrEqual(MAX_WAIT_MS);
      }),
    );
  });
});

it('sessions that were told the same do not come back at the same moment', () => {
  const plans = [0, 0.25, 0.5, 0.75].map((jitter) => delayOf('rate_limited', 1, 30_000, jitter));
  expect(plans).toEqual([30_000, 31_875, 33_750, 35_625]);
});

describe('a step whose provider is paused', () => {
  it('comes after the pause and before a quarter of it more, each session at its own moment', () => {
    const jitter = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 900_000 }), jitter, (leftMs, random) => {
        const delayMs = afterPauseMs(leftMs, random);
        expect(delayMs).toBeGreaterThanOrEqual(leftMs);
        expect(delayMs).toBeLessThanOrEqual(Math.ceil(1.25 * leftMs));
      }),
    );
    expect(afterPauseMs(8_000, 0.5)).toBe(9_000);
  });
});
