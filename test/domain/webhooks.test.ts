import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  afterAttempt,
  describeAttempt,
  FAILING_FOR_MS,
  RETRY_PAUSES_MS,
} from '../../src/domain/webhooks/after-attempt.ts';
import { fillName } from '../../src/domain/webhooks/template.ts';
import { secretProblem } from '../../src/domain/webhooks/webhook.ts';

const failed = { status: 500, failingForMs: 0 };

describe('what follows an attempt to deliver', () => {
  it('is the end after any 2xx, and another attempt after every other answer but 410', () => {
    const answers = fc.option(fc.integer({ min: 100, max: 599 }));
    fc.assert(
      fc.property(
        answers,
        fc.integer({ min: 1, max: 9 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (status, no, random) => {
          const { kind } = afterAttempt({ no, status, failingForMs: 0 }, random);
          const isSuccess = status !== null && status >= 200 && status < 300;
          expect(kind).toBe(isSuccess ? 'delivered' : status === 410 ? 'disable' : 'retry');
        },
      ),
    );
  });

  it('waits 5 s, 30 s, 2 min, 10 min, 1 h, 6 h and three times 24 h, and then gives up', () => {
    const pauses = Array.from({ length: 10 }, (_, at) => afterAttempt({ no: at + 1, ...failed }, 0));
    expect(pauses.map((next) => (next.kind === 'retry' ? next.delayMs / 1000 : next.kind))).toEqual([
      5,
      30,
      120,
      600,
      3_600,
      21_600,
      86_400,
      86_400,
      86_400,
      'failed',
    ]);
  });

  it('waits longer by up to a fifth', () => {
    expect(afterAttempt({ no: 1, ...failed }, 1)).toEqual({ kind: 'retry', delayMs: 6_000 });
    expect(RETRY_PAUSES_MS.every((pause) => pause >= 5_000)).toBe(true);
  });

  it('disables a webhook that has failed for three days, and one that is gone at once', () => {
    expect(afterAttempt({ no: 1, status: null, failingForMs: FAILING_FOR_MS - 1 }, 0).kind).toBe('retry');
    expect(afterAttempt({ no: 1, status: null, failingForMs: FAILING_FOR_MS }, 0)).toEqual({
      kind: 'disable',
      reason: 'failing',
    });
    expect(afterAttempt({ no: 1, status: 410, failingForMs: 0 }, 0)).toEqual({ kind: 'disable', reason: 'gone' });
    expect(afterAttempt({ no: 1, status: 200, failingForMs: FAILING_FOR_MS }, 0).kind).toBe('delivered');
  });

  it.each([
    [204, 'delivered'],
    [503, 'again in 5000 ms'],
    [410, 'failed, and its webhook is disabled: gone'],
  ])('is what its job reports: %i, %s', (status, next) => {
    const attempt = { no: 1, status, failingForMs: 0 };
    expect(describeAttempt(attempt, afterAttempt(attempt, 0), 12.3)).toEqual({ attempt: 1, status, ms: 12, next });
  });
});

describe('the name of a session that a template makes', () => {
  const name = (repo: unknown, no: unknown, template = '{body.repo}#{body.no}') =>
    fillName(template, { body: { repo, no }, headers: {} });

  it('keeps values as they are, but for what separates them', () => {
    expect(name('acme/app', 7)).toBe('acme/app#7');
    expect(name('a/b#1', undefined)).toBe('a/b%231#');
    expect(name('a%231', '')).toBe('a%25231#');
    expect(name('a', 'ü–#', '{body.repo}–{body.no}')).toBe('a–ü%E2%80%93#');
  });

  it('is another one for each pair of values', () => {
    const text = fc.string({ unit: fc.constantFrom('a', '#', '%', '2', '3', '/') });
    fc.assert(
      fc.property(text, text, text, text, (a, b, c, d) => {
        expect(name(a, b) === name(c, d)).toBe(a === c && b === d);
      }),
    );
  });
});

describe('a secret', () => {
  it.each([
    ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', null],
    ['x'.repeat(24), null],
    ['x'.repeat(64), null],
    ['x'.repeat(23), /too short: 24 to 64 bytes/],
    ['x'.repeat(65), /too long/],
    ['', /too short/],
    [`whsec_${Buffer.alloc(23).toString('base64')}`, /too short/],
    [`whsec_${Buffer.alloc(24).toString('base64')}`, null],
    [`whsec_${Buffer.alloc(64).toString('base64')}`, null],
    [`whsec_${Buffer.alloc(65).toString('base64')}`, /too long/],
    ['whsec_not base64 at all, however long it is', /Base64/],
  ])('%s', (secret, expected) => {
    const problem = secretProblem(secret);
    if (expected === null) expect(problem).toBeNull();
    else expect(problem).toMatch(expected);
  });
});
