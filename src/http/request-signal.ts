import type { Context } from 'hono';
import type { HttpEnv } from './http-deps.ts';

/** Aborted when the client has gone away or the server stops: whatever holds the response open ends. */
export function untilGone(c: Context<HttpEnv>): AbortSignal {
  const { shutdown } = c.env ?? {};
  return shutdown === undefined ? c.req.raw.signal : AbortSignal.any([c.req.raw.signal, shutdown]);
}
