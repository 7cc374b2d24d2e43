import { setTimeout as delay } from 'node:timers/promises';
import type { MiddlewareHandler } from 'hono';
import type { HttpEnv } from '../http-env.ts';

/** Longer than a request waits for the queue. */
const CLOSE_GRACE_MS = 5_000;

export type OpenRequests = Readonly<{
  track: MiddlewareHandler<HttpEnv>;
  /** Resolves when every request is answered, after 5 s at the latest. */
  ended: () => Promise<void>;
}>;

/**
 * Knows which requests are at work, also those whose clients have gone. Between the commit of a message and the add of
 * its job, the queue must not be closed.
 */
export function createOpenRequests(): OpenRequests {
  const open = new Set<Promise<void>>();
  return {
    async track(_c, next) {
      const answered = next();
      open.add(answered);
      await answered.finally(() => open.delete(answered));
    },
    async ended() {
      const late = new AbortController();
      const waited = delay(CLOSE_GRACE_MS, undefined, { signal: late.signal, ref: false }).catch(() => undefined);
      await Promise.race([Promise.allSettled(open), waited]);
      late.abort();
    },
  };
}
