import type { Context } from 'hono';
import type { ErrorCode } from '../domain/errors.ts';
import type { HttpEnv } from './http-env.ts';

/** Aborted when the client has gone away or lost access, or the server stops. Responses that are held open then end. */
export function untilGone(c: Context<HttpEnv>): AbortSignal {
  const signals = [c.req.raw.signal, c.env?.shutdown, c.get('denied')];
  return AbortSignal.any(signals.filter((signal) => signal !== undefined));
}

/** The error that a connected client is told when its stream ends early. */
export type EarlyEnd = Readonly<{ code: ErrorCode | 'unauthenticated'; message: string }>;

/** Why the stream of a connected client ends early; null: the client has gone away. */
export function whyEnded(c: Context<HttpEnv>): EarlyEnd | null {
  if (c.req.raw.signal.aborted) return null;
  if (c.get('denied')?.aborted === true) return { code: 'unauthenticated', message: whyDenied(c) };
  if (!isGone(c)) return { code: 'store_unavailable', message: 'the server stops; what was begun goes on' };
  return { code: 'not_found', message: 'the session is gone' };
}

const whyDenied = (c: Context<HttpEnv>): string =>
  c.get('caller').session !== undefined
    ? 'the token of the session has expired, or its key was revoked'
    : c.get('caller').keyId === null
      ? 'an API key is required from now on'
      : 'the API key was revoked or has expired';

/** Whether a stream without a reader was left by its client, and not ended by the server or for lost access. */
export function isGone(c: Context<HttpEnv>): boolean {
  return c.env?.shutdown?.aborted !== true && c.get('denied')?.aborted !== true;
}
