import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatId, ID_PREFIXES, type IdKind, nextIdMoment, parseId, uuidV7 } from '../../src/domain/ids.ts';
import { jobIdOf, jobPayloadSchema } from '../../src/domain/run/job.ts';
import { PENDING_KINDS } from '../../src/domain/run/run.ts';
import { addUsage, NO_USAGE, type Usage, usageSchema } from '../../src/domain/usage.ts';

const timeMs = fc.integer({ min: 0, max: 2 ** 48 - 1 });
const FIRST = { ms: 1, count: 0 };
const count = fc.integer({ min: 0, max: 0xfff });
const random = fc.uint8Array({ minLength: 10, maxLength: 16 });
const kinds = Object.keys(ID_PREFIXES) as IdKind[];
const anyKind = fc.constantFrom(...kinds);

describe('uuidV7', () => {
  it('has the version, the variant and the time of RFC 9562', () => {
    const ofTheRfc = new Uint8Array([0, 0, 0x18, 0xc4, 0xdc, 0x0c, 0x0c, 0x07, 0x39, 0x8f]);
    expect(uuidV7({ ms: 0x017f22e279b0, count: 0xcc3 }, ofTheRfc)).toBe('017f22e2-79b0-7cc3-98c4-dc0c0c07398f');
    fc.assert(
      fc.property(timeMs, count, random, (now, count, bytes) => {
        const uuid = uuidV7({ ms: now, count }, bytes);
        expect(uuid).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
        expect(Number.parseInt(uuid.replace('-', '').slice(0, 12), 16)).toBe(now);
      }),
    );
  });

  it('sorts as text after all before it, whatever the clock does', () => {
    const clock = fc.array(fc.oneof(fc.constant(0), fc.integer({ min: -10_000, max: 10_000 })), { maxLength: 300 });
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 2 ** 47 }), clock, random, (start, changesMs, bytes) => {
        let [now, last] = [start, nextIdMoment({ ms: 0, count: 0 }, start, bytes)];
        for (const changeMs of changesMs) {
          now = Math.max(0, now + changeMs);
          const next = nextIdMoment(last, now, bytes);
          expect(uuidV7(last, bytes) < uuidV7(next, bytes)).toBe(true);
          expect(next.ms).toBeGreaterThanOrEqual(now);
          last = next;
        }
      }),
    );
  });

  it('goes on in the next millisecond when one has no more counts, of which each has half', () => {
    const all = new Uint8Array(10).fill(0xff);
    expect(nextIdMoment({ ms: 5, count: 0xffe }, 5, all)).toEqual({ ms: 5, count: 0xfff });
    expect(nextIdMoment({ ms: 5, count: 0xfff }, 5, all)).toEqual({ ms: 6, count: 0x7ff });
    expect(nextIdMoment({ ms: 5, count: 0xfff }, 9, all)).toEqual({ ms: 9, count: 0x7ff });
  });

  it('differs when the random bytes differ', () => {
    expect(uuidV7(FIRST, new Uint8Array(10).fill(1))).not.toBe(uuidV7(FIRST, new Uint8Array(10).fill(2)));
  });

  it('refuses too few random bytes', () => {
    expect(() => uuidV7(FIRST, new Uint8Array(9))).toThrow(RangeError);
  });
});

describe('public ids', () => {
  it('come back as the id they were made from', () => {
    fc.assert(
      fc.property(anyKind, timeMs, count, random, (kind, ms, count, bytes) => {
        const uuid = uuidV7({ ms, count }, bytes);
        const id = formatId(kind, uuid);
        expect(id).toMatch(/^[a-z]+_[0-9a-f]{32}$/);
        expect(parseId(kind, id)).toBe(uuid);
      }),
    );
  });

  it('are nothing to another kind', () => {
    const uuid = uuidV7(FIRST, new Uint8Array(10));
    for (const kind of kinds) {
      for (const other of kinds) expect(parseId(other, formatId(kind, uuid))).toBe(kind === other ? uuid : null);
    }
    expect(new Set(Object.values(ID_PREFIXES)).size).toBe(kinds.length);
  });

  it.each([
    '',
    'ses_',
    'ses_0',
    `ses_${'0'.repeat(31)}`,
    `ses_${'0'.repeat(33)}`,
    `ses_${'A'.repeat(32)}`,
    `ses_${'g'.repeat(32)}`,
    ` ses_${'0'.repeat(32)}`,
    `ses_${'0'.repeat(32)}\n`,
    'ses_00000000-0000-7000-8000-000000000000',
  ])('are refused when they are malformed: %j', (id) => {
    expect(parseId('session', id)).toBeNull();
  });
});

describe('job ids', () => {
  const payload = fc.record({
    runId: fc.uuid(),
    kind: fc.constantFrom(...PENDING_KINDS),
    no: fc.integer({ min: 1, max: 1e6 }),
    dispatch: fc.integer({ min: 1, max: 1e6 }),
  });

  it('have no colon and differ for different work', () => {
    fc.assert(
      fc.property(payload, payload, (a, b) => {
        jobPayloadSchema.parse(a);
        expect(jobIdOf(a)).not.toContain(':');
        expect(jobIdOf(a) === jobIdOf(b)).toBe(JSON.stringify(a) === JSON.stringify(b));
      }),
    );
  });

  it('change with every dispatch of the same work', () => {
    fc.assert(
      fc.property(payload, (job) => {
        expect(jobIdOf({ ...job, dispatch: job.dispatch + 1 })).not.toBe(jobIdOf(job));
      }),
    );
  });

  it.each([{ runId: 'run_1' }, { kind: 'other' }, { no: 0 }, { dispatch: 1.5 }, { content: 'a message' }])(
    'are made of valid payloads only: %j is refused',
    (wrong) => {
      const valid = { runId: '018f2b5c-0000-7000-8000-000000000001', kind: 'step', no: 1, dispatch: 1 };
      expect(jobPayloadSchema.safeParse(valid).success).toBe(true);
      expect(jobPayloadSchema.safeParse({ ...valid, ...wrong }).success).toBe(false);
    },
  );
});

describe('usage', () => {
  const count = fc.nat(1e6);
  const usage: fc.Arbitrary<Usage> = fc.record({
    inputTokens: count,
    outputTokens: count,
    reasoningTokens: count,
    cacheReadTokens: count,
    cacheWriteTokens: count,
    totalTokens: count,
  });

  it('adds up field by field, in any order, from nothing', () => {
    fc.assert(
      fc.property(usage, usage, (a, b) => {
        const sum = addUsage(a, b);
        expect(usageSchema.parse(sum)).toEqual(addUsage(b, a));
        expect(addUsage(NO_USAGE, a)).toEqual(a);
        for (const [field, total] of Object.entries(sum)) {
          const of = (each: Usage) => Object.entries(each).find(([name]) => name === field)?.[1] ?? Number.NaN;
          expect(total).toBe(of(a) + of(b));
        }
      }),
    );
  });
});
