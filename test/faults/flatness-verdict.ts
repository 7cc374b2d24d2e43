import type { Counts } from './flatness-reading.ts';

/**
 * How much larger a count may be at the end. What sweeps, heartbeats and pools do in the background moves each by a
 * few; a leak of one in every hundred runs makes 20 of 2 000.
 */
const ALLOWED_GROWTH = 8;

/**
 * BullMQ trims the events of each of our three queues to about 10 000, as it does in Redis, where they are one key. Of the
 * jobs that have done something each queue keeps the last 1 000, counted now and then by each worker.
 */
const BOUNDED: Counts = { 'queue.event': 33_000, 'queue.job': 3_300, redisKeys: 3_400 };

/**
 * Bytes per run by which the heap may grow, as the slope of a line through its sizes after a collection. What a single
 * leaked run holds at the least, a closure with its signal, is above 1 kB. A service at rest makes 150 to 400 bytes:
 * inline caches, lists of what compiled code depends on, the tokenizer's cache, all of them bounded.
 */
const ALLOWED_HEAP_PER_RUN_BYTES = 1_000;

/** Sizes that make a line: with fewer one outlier decides. */
const FEWEST_SAMPLES = 8;

export type HeapSample = Readonly<{ runs: number; heapBytes: number }>;

/** Names of what there is more of than before. */
export function grownCounts(before: Counts, after: Counts): string[] {
  return Object.keys(after).filter((name) => {
    const bound = Math.max((before[name] ?? 0) + ALLOWED_GROWTH, BOUNDED[name] ?? 0);
    return (after[name] ?? 0) > bound;
  });
}

/** Whether the heap stays as it is. @throws with too few samples to tell */
export function isHeapFlat(samples: readonly HeapSample[]): boolean {
  if (samples.length < FEWEST_SAMPLES) throw new Error(`${samples.length} samples say nothing about a heap`);
  return heapPerRunBytes(samples) <= ALLOWED_HEAP_PER_RUN_BYTES;
}

/** The slope of the least-squares line through the samples. */
export function heapPerRunBytes(samples: readonly HeapSample[]): number {
  const meanRuns = mean(samples.map(({ runs }) => runs));
  const meanBytes = mean(samples.map(({ heapBytes }) => heapBytes));
  const covariance = mean(samples.map(({ runs, heapBytes }) => (runs - meanRuns) * (heapBytes - meanBytes)));
  return covariance / mean(samples.map(({ runs }) => (runs - meanRuns) ** 2));
}

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;
