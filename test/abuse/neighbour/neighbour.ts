import { setTimeout as delay } from 'node:timers/promises';
import { type AskedProcess, startAsked } from '../../../bench/process/asked.ts';
import type { Kept, Neighbour, RequestKind } from './requests.ts';

export type Question = Readonly<{ what: 'start'; neighbour: Neighbour } | { what: 'stop' } | { what: 'kept' }>;

/** Of each kind of request: how long each took, in milliseconds, and why some have failed. */
export type Samples = Readonly<
  Record<RequestKind, Readonly<{ tookMs: readonly number[]; failures: readonly string[] }>>
>;

export type NeighbourProcess = AsyncDisposable &
  Readonly<{
    /** Makes requests from now on. */
    start: () => Promise<void>;
    /** Waits for the requests that are under way. */
    stop: () => Promise<Samples>;
    /** Makes requests for so long. @throws when the signal aborts */
    measure: (forMs: number, signal: AbortSignal) => Promise<Samples>;
    kept: () => Promise<Kept>;
  }>;

/** Starts another tenant in a process of its own, which asks for nothing yet. */
export async function startNeighbour(neighbour: Neighbour): Promise<NeighbourProcess> {
  const process: AskedProcess<Question, unknown> = await startAsked(new URL('probe-process.ts', import.meta.url));
  const start = async (): Promise<void> => void (await process.ask({ what: 'start', neighbour }));
  const stop = async (): Promise<Samples> => (await process.ask({ what: 'stop' })) as Samples;
  return {
    start,
    stop,
    async measure(forMs, signal) {
      await start();
      await delay(forMs, undefined, { signal });
      return stop();
    },
    kept: async () => (await process.ask({ what: 'kept' })) as Kept,
    [Symbol.asyncDispose]: () => process[Symbol.asyncDispose](),
  };
}
