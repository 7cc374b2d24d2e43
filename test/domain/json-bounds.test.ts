import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { areJsonTextsBounded, createJsonGauge, isWithinJsonDepth } from '../../src/domain/json-bounds.ts';
import { MAX_JSON_DEPTH, MAX_JSON_VALUES } from '../../src/domain/tunables.ts';

function countValues(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 1;
  return Object.values(value).reduce((sum: number, inner) => sum + countValues(inner), 1);
}

const nested = (levels: number, inner = ''): string => '['.repeat(levels) + inner + ']'.repeat(levels);
/** Characters of which JSON texts are made. */
const unit = fc.constantFrom('a', '"', '\\', '[', ']', '{', '}', ',', ':', ' ', 'é', '漢', '\n');
const json = fc.jsonValue({ stringUnit: unit, depthSize: 'medium' });

describe('the gauge of a JSON text', () => {
  test('counts its values, however it is laid out and cut', () => {
    fc.assert(
      fc.property(json, fc.boolean(), fc.integer({ min: 1, max: 7 }), (value, isWide, size) => {
        const bytes = Buffer.from(JSON.stringify(value, null, isWide ? 2 : 0));
        const gauge = createJsonGauge();
        for (let at = 0; at < bytes.length; at += size) expect(gauge.take(bytes.subarray(at, at + size))).toBeNull();
        expect(gauge.values()).toBe(countValues(value));
      }),
    );
  });

  test('says so as soon as the values are too many', () => {
    const gauge = createJsonGauge(3);
    expect(gauge.take(Buffer.from('[1,'))).toBeNull();
    expect(gauge.take(Buffer.from('"a,b"'))).toBeNull();
    expect(gauge.take(Buffer.from(',3'))).toBe('values');
  });

  test('takes the levels that a value may have, and little more', () => {
    const excessOf = (body: string) => createJsonGauge().take(Buffer.from(body));
    expect(excessOf(`{"messages":[{"parts":[{"output":${nested(MAX_JSON_DEPTH)}}]}]}`)).toBeNull();
    expect(excessOf(nested(2 * MAX_JSON_DEPTH))).toBe('levels');
  });

  test('counts the values of several texts together', () => {
    const half = `[${'1,'.repeat(MAX_JSON_VALUES / 2)}1]`;
    expect(areJsonTextsBounded([half])).toBe(true);
    expect(areJsonTextsBounded([half, half])).toBe(false);
    // The open string of the first text hides no values of the next one.
    expect(areJsonTextsBounded(['"', half, half])).toBe(false);
  });
});

test.each([
  [nested(100, '1'), true],
  [nested(101, '1'), false],
  [`{"a":${nested(99, '1')},"b":1}`, true],
  [`[1,{"a":${nested(99, '1')}}]`, false],
])('a value is not too deep: %#', (value, isWithin) => {
  expect(isWithinJsonDepth(JSON.parse(value))).toBe(isWithin);
});
