import type { Context } from 'hono';
import type { ErrorCode } from '../domain/errors.ts';
import type { HttpEnv } from './http-env.ts';

/**
 * Aborted when the client has gone away, may not have the response any more or the server stops: whatever holds the
 * response open ends.
 */
export function untilGone(c: Context<HttpEnv>): AbortSignal {
  const signals = [c.req.raw.signal, c.env?.shutdown, c.get('denied')];
  return AbortSignal.any(signals.filter((signal) => signal !== undefined));
}

/** What a client that is still there is told where a stream ends before its time. */
export type EarlyEnd = Readonly<{ code: ErrorCode | 'unauthenticated'; message: string }>;

/** Why a client that is still there is told nothing more; null: it has gone away. */
export function whyEnded(c: Context<HttpEnv>): EarlyEnd | null {
  if (c.req.raw.signal.aborted) return null;
  if (c.get('denied')?.aborted === true) return { code: 'unauthenticated', message: whyDenied(c) };
  if (!isGone(c)) return { code: 'store_unavailable', message: 'the server stops; what was begun goes on' };
  return { code: 'not_found', message: 'the session is gone' };
}

const whyDenied = (c: Context<HttpEnv>): string =>
  c.get('caller').keyId === null ? 'an API key is required from now on' : 'the API key was revoked or has expired';

/** Where nobody reads any more: the client itself, and not the server or its key. */
export function isGone(c: Context<HttpEnv>): boolean {
  return c.env?.shutdown?.aborted !== true && c.get('denied')?.aborted !== true;
}
