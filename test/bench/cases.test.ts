import { describe, expect, inject, it } from 'vitest';
import type { Case } from '../../bench/bench.ts';
import { CASES } from '../../bench/cases.ts';
import { anyBackend } from '../support/backends.ts';

const services = {
  postgresUrl: inject('postgres').adminUrl,
  redisUrl: inject('redisUrl'),
  // One is enough to see that a case works.
  backends: [anyBackend()],
  [Symbol.asyncDispose]: async () => undefined,
};

/** Takes minutes whatever its size: it has tests of its own parts. */
const LONG = ['context'];
/** Needs packages that nobody else needs. */
const INSTALLED_APART = ['peers'];

const cases = Object.entries(CASES).filter(([name]) => ![...LONG, ...INSTALLED_APART].includes(name));

describe.each(cases)('the case %s', (_name: string, measure: Case) => {
  it('measures what it says, in rows', { timeout: 180_000 }, async () => {
    const rows = await measure({ services, scale: 'small' });
    expect(rows.length).toBeGreaterThan(0);
    for (const row of rows) {
      expect(row.n).toBeGreaterThan(0);
      expect(row.min).toBeLessThanOrEqual(row.median);
      expect(row.median).toBeLessThanOrEqual(row.max);
      expect(row.ratio === null || row.ratio > 0).toBe(true);
      expect(row.goal === null).toBe(row.goalIs === null);
    }
  });
});
