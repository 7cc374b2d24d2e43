import type { Context } from 'hono';
import type { HttpEnv } from './http-deps.ts';

/** Aborted when the client has gone away, its key is revoked or the server stops: whatever holds the response open ends. */
export function untilGone(c: Context<HttpEnv>): AbortSignal {
  const signals = [c.req.raw.signal, c.env?.shutdown, c.get('revoked')];
  return AbortSignal.any(signals.filter((signal) => signal !== undefined));
}
