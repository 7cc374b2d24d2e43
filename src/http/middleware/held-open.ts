import type { Context, MiddlewareHandler } from 'hono';
import { wantedEventFormat } from '../bodies/media-type.ts';
import { ProblemError } from '../bodies/problem.ts';
import type { HttpEnv } from '../http-env.ts';

/** Most answers open at the same time: event streams, streamed and awaited completions, waits for runs. */
export type HeldLimits = Readonly<{ perKey: number; perProcess: number }>;

type Held = Readonly<{ method: string; path: RegExp; isHeld?: (c: Context<HttpEnv>) => boolean }>;

const HELD: readonly Held[] = [
  {
    method: 'GET',
    path: /^\/v1\/sessions\/[^/]+\/events$/,
    isHeld: (c) => wantedEventFormat(c) === 'text/event-stream',
  },
  { method: 'GET', path: /^\/v1\/activity$/ },
  { method: 'GET', path: /^\/v1\/runs\/[^/]+\/wait$/ },
  { method: 'GET', path: /^\/api\/chat\/[^/]+\/stream$/ },
  { method: 'POST', path: /^\/api\/chat$/ },
  { method: 'POST', path: /^\/v1\/chat\/completions$/ },
  { method: 'POST', path: /^\/v1\/responses$/ },
  { method: 'GET', path: /^\/v1\/responses\/[^/]+$/, isHeld: (c) => c.req.query('stream') === 'true' },
  { method: 'POST', path: /^\/mcp$/ },
  { method: 'POST', path: /\/cancel$/, isHeld: (c) => (c.req.query('wait') ?? '0') !== '0' },
];

/** Hono answers HEAD with the routes of GET. */
const readAsGet = (method: string): string => (method === 'HEAD' ? 'GET' : method);

/** Whether the answer to this request may stay open for long. */
export const isHeldOpen = (c: Context<HttpEnv>): boolean =>
  HELD.some(
    ({ method, path, isHeld }) =>
      readAsGet(c.req.method) === method && path.test(c.req.path) && (isHeld === undefined || isHeld(c)),
  );

/**
 * Bounds the answers that this process holds open, in total and per key; callers without a key share one count. An
 * answer counts until it is sent or its connection is gone.
 * @throws ProblemError `rate_limited`
 */
export function boundHeldOpen({ perKey, perProcess }: HeldLimits): MiddlewareHandler<HttpEnv> {
  const open = new Map<string | null, number>();
  let all = 0;
  const count = (keyId: string | null, by: 1 | -1): void => {
    all += by;
    const next = (open.get(keyId) ?? 0) + by;
    if (next === 0) open.delete(keyId);
    else open.set(keyId, next);
  };
  return async (c, next) => {
    if (!isHeldOpen(c)) return next();
    const keyId = c.get('caller').keyId;
    if ((open.get(keyId) ?? 0) >= perKey) throw tooMany(`${perKey} of this key`, 'BATON_STREAMS_PER_KEY');
    if (all >= perProcess) throw tooMany(`${perProcess}`, 'BATON_STREAMS');
    count(keyId, 1);
    let isCounted = true;
    const release = (): void => {
      if (isCounted) count(keyId, -1);
      isCounted = false;
    };
    const { closed } = c.env ?? {};
    closed?.addEventListener('abort', release, { once: true });
    await next();
    if (closed === undefined || closed.aborted) release();
  };
}

function tooMany(held: string, setting: string): ProblemError {
  const detail =
    `${held} streams and waits are open here, which is as many as may be (${setting}): close some, or try again. ` +
    'A stream can be resumed with Last-Event-ID, a run be asked for without waiting';
  return new ProblemError('rate_limited', detail, { headers: { 'retry-after': '1' } });
}
