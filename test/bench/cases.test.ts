import { describe, expect, inject, it } from 'vitest';
import type { Case } from '../../bench/bench.ts';
import { CASES } from '../../bench/cases.ts';
import { findChromium } from '../examples/browser.ts';
import { anyBackend } from '../support/backends.ts';

const services = {
  postgresUrl: inject('postgres').adminUrl,
  templateName: inject('postgres').templateName,
  redisUrl: inject('redisUrl'),
  // One backend is enough to see that a case works.
  backends: [anyBackend()],
  [Symbol.asyncDispose]: async () => undefined,
};

/** `context` takes minutes at any size; its parts have their own tests. `cancel` is `recovery` with another fault. */
const LONG = ['context', 'cancel'];
/** Needs packages that only this case installs. */
const INSTALLED_APART = ['peers'];

const IN_CHROMIUM = findChromium() === null ? ['console'] : [];

const cases = Object.entries(CASES).filter(([name]) => ![...LONG, ...INSTALLED_APART, ...IN_CHROMIUM].includes(name));

describe.each(cases)('the case %s', (_name: string, measure: Case) => {
  it('measures what it says, in rows', { timeout: 180_000 }, async () => {
    const rows = await measure({ services, scale: 'small' });
    expect(rows.length).toBeGreaterThan(0);
    for (const row of rows) {
      expect(row.n).toBeGreaterThan(0);
      expect(row.min).toBeLessThanOrEqual(row.median);
      expect(row.median).toBeLessThanOrEqual(row.max);
      // The product may be faster than the loop at this size: then the added time is negative.
      expect(row.ratio === null || Number.isFinite(row.ratio)).toBe(true);
      expect(row.goal === null).toBe(row.goalIs === null);
    }
  });
});
