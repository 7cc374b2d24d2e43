import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatId, ID_PREFIXES, type IdKind, parseId, uuidV7 } from '../../src/domain/ids.ts';
import { jobIdOf, jobPayloadSchema } from '../../src/domain/run/job.ts';
import { PENDING_KINDS } from '../../src/domain/run/run.ts';
import { addUsage, NO_USAGE, type Usage, usageSchema } from '../../src/domain/usage.ts';

const timeMs = fc.integer({ min: 0, max: 2 ** 48 - 1 });
const random = fc.uint8Array({ minLength: 10, maxLength: 16 });
const kinds = Object.keys(ID_PREFIXES) as IdKind[];
const anyKind = fc.constantFrom(...kinds);

describe('uuidV7', () => {
  it('has the version, the variant and the time of RFC 9562', () => {
    expect(uuidV7(0x017f22e279b0, new Uint8Array([0x0c, 0xc3, 0x18, 0xc4, 0xdc, 0x0c, 0x0c, 0x07, 0x39, 0x8f]))).toBe(
      '017f22e2-79b0-7cc3-98c4-dc0c0c07398f',
    );
    fc.assert(
      fc.property(timeMs, random, (now, bytes) => {
        const uuid = uuidV7(now, bytes);
        expect(uuid).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
        expect(Number.parseInt(uuid.replace('-', '').slice(0, 12), 16)).toBe(now);
      }),
    );
  });

  it('sorts as text by its time', () => {
    fc.assert(
      fc.property(timeMs, timeMs, random, random, (a, b, first, second) => {
        if (a !== b) expect(uuidV7(a, first) < uuidV7(b, second)).toBe(a < b);
      }),
    );
  });

  it('differs when the random bytes differ', () => {
    expect(uuidV7(1, new Uint8Array(10).fill(1))).not.toBe(uuidV7(1, new Uint8Array(10).fill(2)));
  });

  it('refuses too few random bytes', () => {
    expect(() => uuidV7(1, new Uint8Array(9))).toThrow(RangeError);
  });
});

describe('public ids', () => {
  it('come back as the id they were made from', () => {
    fc.assert(
      fc.property(anyKind, timeMs, random, (kind, now, bytes) => {
        const uuid = uuidV7(now, bytes);
        const id = formatId(kind, uuid);
        expect(id).toMatch(/^[a-z]+_[0-9a-f]{32}$/);
        expect(parseId(kind, id)).toBe(uuid);
      }),
    );
  });

  it('are nothing to another kind', () => {
    const uuid = uuidV7(1, new Uint8Array(10));
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
