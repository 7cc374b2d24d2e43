import { setTimeout as delay } from 'node:timers/promises';
import { type AskedProcess, startAsked } from '../../../bench/process/asked.ts';
import type { Kept, Neighbour, RequestKind } from './requests.ts';

export type Question = Readonly<{ what: 'start'; neighbour: Neighbour } | { what: 'stop' } | { what: 'kept' }>;

/** Per kind of request: durations in milliseconds, and the reasons of failures. */
export type Samples = Readonly<
  Record<RequestKind, Readonly<{ tookMs: readonly number[]; failures: readonly string[] }>>
>;

export type NeighbourProcess = AsyncDisposable &
  Readonly<{
    /** Starts making requests. */
    start: () => Promise<void>;
    /** Waits for the requests in flight. */
    stop: () => Promise<Samples>;
    /** Makes requests for this long. @throws when the signal aborts */
    measure: (forMs: number, signal: AbortSignal) => Promise<Samples>;
    kept: () => Promise<Kept>;
  }>;

/** Starts the neighbour, another tenant, in a process of its own. It makes no requests until `start` or `measure`. */
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
