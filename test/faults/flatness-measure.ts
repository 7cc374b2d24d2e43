import { setTimeout as pause } from 'node:timers/promises';
import type { Backend } from '../support/backends.ts';
import { type Counts, countObjects, readCounts, readObjectBytes } from './flatness-reading.ts';
import { createDriver } from './flatness-runs.ts';
import { type FlatnessService, type FlatnessServices, startFlatnessService } from './flatness-service.ts';
import { grownCounts, type HeapSample, heapPerRunBytes, isHeapFlat } from './flatness-verdict.ts';

export type FlatnessRow = Readonly<{
  backend: Backend;
  runs: number;
  cancelled: number;
  /** Each count, taken at rest before the runs and after them. */
  counts: Readonly<Record<string, readonly [before: number, after: number]>>;
  /** Size of the heap's objects after a collection: after the warm-up, and at the end. */
  heapMb: readonly [before: number, after: number];
  heapPerRunBytes: number;
  /** Node's warnings of too many listeners, one for every emitter that had them. */
  warnings: readonly string[];
  /** Names of the counts that have grown, `heap` if the heap has, and the warnings. */
  grown: readonly string[];
  flat: boolean;
}>;

/** Runs before the first reading: pools, caches and compiled code have reached their size by then. */
const WARM_UP_RUNS = 300;

const HEAP_SAMPLES = 10;

/** Within this time the connections of readers that have left are torn down, and their objects are released. */
const SETTLED_BY_THEN_MS = 5_000;

/** Idle connections to Postgres are closed after 10 s; a connection that is left a little later is there to stay. */
const CLOSED_BY_THEN_MS = 12_000;
const READING_MS = 4_000;

/** Drives a service through so many runs, half of them cancelled, and tells whether anything in it grows with them. */
export async function measureFlatness(services: FlatnessServices, runs: number): Promise<FlatnessRow> {
  const collectGarbage = globalThis.gc;
  if (collectGarbage === undefined) throw new Error('start it with --expose-gc');
  using warnings = collectWarnings();
  const driver = createDriver();
  await using service = await startFlatnessService(services, driver.tools);
  await driver.drive(service, WARM_UP_RUNS);
  const before = await readAtRest(service);
  const heap: HeapSample[] = [];
  let done = 0;
  let cancelled = 0;
  const sampleHeap = async () => {
    service.simulator.clear();
    await pause(SETTLED_BY_THEN_MS);
    // The second collection frees the objects that the first one finalizes.
    collectGarbage();
    await pause(0);
    collectGarbage();
    heap.push({ runs: done, heapBytes: readObjectBytes() });
  };
  await sampleHeap();
  for (let left = HEAP_SAMPLES; left > 0; left--) {
    const batch = Math.ceil((runs - done) / left);
    cancelled += (await driver.drive(service, batch)).cancelled;
    done += batch;
    await sampleHeap();
  }
  const after = await readAtRest(service);
  const grown = [...grownCounts(before, after), ...(isHeapFlat(heap) ? [] : ['heap']), ...warnings.names];
  return {
    backend: services.backend,
    runs,
    cancelled,
    counts: Object.fromEntries(
      Object.keys(after).map((name) => [name, [before[name] ?? 0, after[name] ?? 0] as const]),
    ),
    heapMb: [toMb(heap[0]), toMb(heap.at(-1))],
    heapPerRunBytes: Math.round(heapPerRunBytes(heap)),
    warnings: warnings.names,
    grown,
    flat: grown.length === 0,
  };
}

/** The largest value of each count while the service has nothing to do. */
async function readAtRest(service: FlatnessService): Promise<Counts> {
  await pause(CLOSED_BY_THEN_MS);
  const most: Record<string, number> = {};
  const untilMs = performance.now() + READING_MS;
  while (performance.now() < untilMs) {
    for (const [name, count] of Object.entries(await readCounts(service)))
      most[name] = Math.max(most[name] ?? 0, count);
    await pause(200);
  }
  return { ...most, ...(await countObjects()) };
}

/** Node warns once of more than ten listeners of one kind on an emitter or a signal. */
export function collectWarnings(): Disposable & Readonly<{ names: string[] }> {
  const names: string[] = [];
  const onWarning = ({ name }: Error): void => {
    if (name === 'MaxListenersExceededWarning') names.push(name);
  };
  process.on('warning', onWarning);
  return { names, [Symbol.dispose]: () => void process.off('warning', onWarning) };
}

const toMb = (sample: HeapSample | undefined): number => Math.round((sample?.heapBytes ?? 0) / 1e4) / 100;
