import { setTimeout as sleep } from 'node:timers/promises';
import { EmbeddedPostgresError } from './errors.ts';
import type { Postmaster } from './postmaster.ts';

/** Waits before each restart of the server: 15 s in all, without the starts themselves. */
const RETRY_DELAYS_MS = [0, 1_000, 2_000, 4_000, 8_000];
/** After this uptime the next restart counts its tries from zero. */
const WELL_AFTER_MS = 60_000;

export type KeepRunningOptions = Readonly<{
  /** Restarts the server on the same port. Gives up early when the signal aborts. */
  restart: (signal: AbortSignal) => Promise<Postmaster>;
  /** The server ended by itself, or a restart failed. The next try comes after the delay. */
  onDown: (error: EmbeddedPostgresError, retryInMs: number) => void;
  onUp: (server: Postmaster) => void;
}>;

export type KeptRunning = Readonly<{
  current: () => Postmaster;
  /** Resolves with the last error when every try has failed; never rejects. */
  lost: Promise<EmbeddedPostgresError>;
  stop: () => Promise<void>;
}>;

/** Restarts a server that ends by itself, with growing delays, until it is stopped or no try is left. */
export function keepRunning(first: Postmaster, { restart, onDown, onUp }: KeepRunningOptions): KeptRunning {
  const stopping = new AbortController();
  const lost = Promise.withResolvers<EmbeddedPostgresError>();
  let current = first;
  let tries = 0;

  /** @returns null if it was stopped meanwhile or no try is left */
  async function startAgain(ended: EmbeddedPostgresError): Promise<Postmaster | null> {
    let error = ended;
    for (;;) {
      const retryInMs = RETRY_DELAYS_MS[tries++];
      if (retryInMs === undefined) {
        lost.resolve(error);
        return null;
      }
      onDown(error, retryInMs);
      try {
        await sleep(retryInMs, undefined, { signal: stopping.signal, ref: false });
        return await restart(stopping.signal);
      } catch (cause) {
        if (stopping.signal.aborted) return null;
        error = toError(cause);
      }
    }
  }

  async function keep(): Promise<void> {
    for (;;) {
      const startedAtMs = performance.now();
      const reason = await current.ended;
      if (stopping.signal.aborted) return;
      if (performance.now() - startedAtMs >= WELL_AFTER_MS) tries = 0;
      const again = await startAgain(new EmbeddedPostgresError('EMBEDDED_POSTGRES_ENDED', reason));
      if (again === null) return;
      current = again;
      if (stopping.signal.aborted) return void (await again.stop());
      onUp(again);
    }
  }

  const keeping = keep();
  return {
    current: () => current,
    lost: lost.promise,
    async stop() {
      stopping.abort();
      await current.stop();
      await keeping;
    },
  };
}

function toError(cause: unknown): EmbeddedPostgresError {
  if (cause instanceof EmbeddedPostgresError) return cause;
  return new EmbeddedPostgresError('EMBEDDED_POSTGRES_START_FAILED', String(cause), { cause });
}
