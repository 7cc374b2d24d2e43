import { describe, expect, inject, it } from 'vitest';
import { availableBackends } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import { collectWarnings } from './flatness-measure.ts';
import { type Counts, countObjects, readCounts } from './flatness-reading.ts';
import { createDriver } from './flatness-runs.ts';
import { startFlatnessService } from './flatness-service.ts';
import { grownCounts, heapPerRunBytes, isHeapFlat } from './flatness-verdict.ts';

const WARM_UP_RUNS = 36;
/** Twelve of each kind: one that leaves something behind every time makes more than may come and go. */
const RUNS = 72;

describe.each(availableBackends())('a service on %s', (backend) => {
  it('holds no more after more runs, half of them cancelled', { timeout: 400_000 }, async () => {
    using warnings = collectWarnings();
    const driver = createDriver();
    const services = { backend, postgresUrl: inject('postgres').adminUrl, redisUrl: inject('redisUrl') };
    await using service = await startFlatnessService(services, driver.tools);
    await driver.drive(service, WARM_UP_RUNS);
    const before = await readCounts(service);
    const objectsBefore = await countObjects();
    expect(await driver.drive(service, RUNS)).toEqual({ cancelled: RUNS / 2 });
    await untilNoMoreThan(before, () => readCounts(service));
    await untilNoMoreThan(objectsBefore, countObjects);
    expect(warnings.names).toEqual([]);
  });
});

/** Connections that are idle or whose readers have left are gone a moment later. @throws naming what stays */
async function untilNoMoreThan(before: Counts, read: () => Promise<Counts>): Promise<void> {
  let grown: readonly string[] = [];
  const isFlat = async (): Promise<boolean> => {
    const now = await read();
    grown = grownCounts(before, now).map((name) => `${name}: ${before[name] ?? 0} to ${now[name]}`);
    return grown.length === 0;
  };
  await eventually(isFlat, 'there is no more of anything').catch((cause: unknown) => {
    throw new Error(`there is more: ${grown.join(', ')}`, { cause });
  });
}

describe('the verdict', () => {
  const line = (bytesPerRun: number) =>
    Array.from({ length: 9 }, (_, index) => ({
      runs: index * 200,
      heapBytes: 8e7 + index * 200 * bytesPerRun + (index % 2) * 2e5,
    }));

  it('sees a leak of one in a hundred runs, and not what moves in the background', () => {
    expect(grownCounts({ timers: 40, sockets: 3 }, { timers: 60, sockets: 6 })).toEqual(['timers']);
    expect(grownCounts({}, { 'handles.Pipe': 20 })).toEqual(['handles.Pipe']);
  });

  it('sees two kilobytes per run through the noise of a heap', () => {
    expect(Math.round(heapPerRunBytes(line(2_000)))).toBeCloseTo(2_000, -3);
    expect(isHeapFlat(line(2_000))).toBe(false);
    expect(isHeapFlat(line(0))).toBe(true);
    expect(() => isHeapFlat(line(0).slice(0, 5))).toThrow('5 samples');
  });
});
