import type { Context, MiddlewareHandler } from 'hono';
import { SMALL_TENANT_STREAMS, STREAMS_LEFT_TO_OTHERS } from '../../domain/tunables.ts';
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
  { method: 'POST', path: /^\/v1\/responses(?:\/compact)?$/ },
  { method: 'GET', path: /^\/v1\/responses$/ },
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
 * Bounds the answers that this process holds open: in total, per key, and so that one tenant with many keys leaves some to
 * the others. Callers of a tenant without a key share one count. An answer counts until it is sent or its connection is
 * gone.
 * @throws ProblemError `rate_limited`
 */
export function boundHeldOpen(limits: HeldLimits): MiddlewareHandler<HttpEnv> {
  const open = createCounts();
  return async (c, next) => {
    if (!isHeldOpen(c) || c.env?.onSocket === true) return next();
    const { keyId, tenantId } = c.get('caller');
    const places = ['all', `tenant ${tenantId}`, keyId === null ? `keyless ${tenantId}` : `key ${keyId}`] as const;
    refuseBeyond(limits, places.map(open.of));
    for (const place of places) open.add(place, 1);
    let isCounted = true;
    const release = (): void => {
      if (isCounted) for (const place of places) open.add(place, -1);
      isCounted = false;
    };
    const { closed } = c.env ?? {};
    closed?.addEventListener('abort', release, { once: true });
    await next();
    if (closed === undefined || closed.aborted) release();
  };
}

function createCounts() {
  const counts = new Map<string, number>();
  const of = (place: string): number => counts.get(place) ?? 0;
  return {
    of,
    add(place: string, by: 1 | -1): void {
      const next = of(place) + by;
      if (next === 0) counts.delete(place);
      else counts.set(place, next);
    },
  };
}

/** @param open answers in all, of the tenant and of the key */
function refuseBeyond({ perKey, perProcess }: HeldLimits, [all = 0, ofTenant = 0, ofKey = 0]: readonly number[]): void {
  if (ofKey >= perKey) throw tooMany(`${perKey} of this key`, 'BATON_STREAMS_PER_KEY');
  if (all >= perProcess) throw tooMany(`${perProcess}`, 'BATON_STREAMS');
  const leftToOthers = Math.floor(perProcess * STREAMS_LEFT_TO_OTHERS);
  const isLarge = ofTenant >= Math.max(1, Math.floor(perProcess * SMALL_TENANT_STREAMS));
  if (isLarge && all >= perProcess - leftToOthers) {
    throw tooMany(`${ofTenant} of this tenant, and ${all} in all,`, 'BATON_STREAMS');
  }
}

function tooMany(held: string, setting: string): ProblemError {
  const detail =
    `${held} streams and waits are open here, which is as many as may be (${setting}): close some, or try again. ` +
    'A stream can be resumed with Last-Event-ID, a run be asked for without waiting';
  return new ProblemError('rate_limited', detail, { headers: { 'retry-after': '1' } });
}
