import type { Context, MiddlewareHandler } from 'hono';
import { Redis } from 'ioredis';
import { ANYBODY } from '../../domain/access.ts';
import { CAPACITY_MS, costMs, type RateDecision, takeToken, toDecision } from '../../domain/request-rate.ts';
import { keptConnection } from '../../platform/redis-connection.ts';
import type { RedisServer } from '../../platform/redis-server.ts';
import { ProblemError } from '../bodies/problem.ts';
import type { HttpEnv } from '../http-env.ts';

/** Counts the requests of each tenant and decides whether one is too many. */
export type RequestRate = AsyncDisposable & Readonly<{ take: (tenantId: string) => Promise<RateDecision> }>;

/** With more buckets than this in memory, full ones are dropped: a full bucket equals none. */
const MAX_BUCKETS = 10_000;

/** For a single API process. Without Redis each process counts on its own. */
export function createProcessRate(perMinute: number, nowMs: () => number = () => performance.now()): RequestRate {
  const buckets = new Map<string, number>();
  return {
    async take(tenantId) {
      const now = nowMs();
      if (buckets.size > MAX_BUCKETS) for (const [id, fullAtMs] of buckets) if (fullAtMs <= now) buckets.delete(id);
      const { fullAtMs, decision } = takeToken(buckets.get(tenantId) ?? 0, now, perMinute);
      buckets.set(tenantId, fullAtMs);
      return decision;
    },
    [Symbol.asyncDispose]: async () => undefined,
  };
}

/** `takeToken` with one bucket and one clock for all processes. */
const TAKE_TOKEN = `
  local time = redis.call('TIME')
  local now = time[1] * 1000 + time[2] / 1000
  local used = math.max(0, tonumber(redis.call('GET', KEYS[1]) or '0') - now)
  local with = used + tonumber(ARGV[1])
  if with > tonumber(ARGV[2]) + 0.01 then return {0, string.format('%.3f', used)} end
  redis.call('SET', KEYS[1], string.format('%.3f', now + with), 'PX', math.ceil(with))
  return {1, string.format('%.3f', with)}`;

/** Longest wait of a request for Redis. */
const PATIENCE_MS = 250;

/** A connection without any answer for this long is opened again. */
const SILENT_FOR_MS = 5_000;

/** One count for all API processes. While Redis is away every request passes: the rate only protects the service. */
export function createRedisRate(
  options: RedisServer & Readonly<{ prefix: string; perMinute: number; onError: (error: unknown) => void }>,
): RequestRate {
  const { url, via, prefix, perMinute, onError } = options;
  const redis = new Redis(url, {
    ...via,
    ...keptConnection(SILENT_FOR_MS),
    maxRetriesPerRequest: 0,
    commandTimeout: PATIENCE_MS,
  });
  redis.on('error', onError);
  return {
    async take(tenantId) {
      try {
        const answer = await redis.eval(TAKE_TOKEN, 1, `${prefix}:rate:${tenantId}`, costMs(perMinute), CAPACITY_MS);
        const [isAllowed, usedMs] = Array.isArray(answer) ? answer.map(Number) : [];
        return toDecision(isAllowed !== 0, usedMs ?? 0, perMinute);
      } catch (error) {
        onError(error);
        return toDecision(true, 0, perMinute);
      }
    },
    async [Symbol.asyncDispose]() {
      redis.disconnect();
    },
  };
}

/**
 * Limits every tenant to its rate, and reports its state in the headers of every answer.
 * @throws ProblemError `rate_limited`
 */
export function limitRate(rate: RequestRate): MiddlewareHandler<HttpEnv> {
  return async (c, next) => {
    const headers = await countRequest(c, rate);
    await next();
    for (const [name, value] of Object.entries(headers)) c.res.headers.set(name, value);
  };
}

/**
 * Counts a request towards the rate of its tenant, which all keys and tokens of the tenant share. Requests of a service
 * without keys, and those of the program itself, are free.
 * @returns the headers of its answer
 * @throws ProblemError `rate_limited`
 */
export async function countRequest(c: Context<HttpEnv>, rate: RequestRate): Promise<Record<string, string>> {
  // Absent on the probes.
  const caller = c.get('caller');
  if (caller === undefined || caller === ANYBODY || caller === c.env?.caller) return {};
  const decision = await rate.take(caller.tenantId);
  const headers = rateHeaders(decision);
  if (decision.isAllowed) return headers;
  const seconds = String(Math.max(1, Math.ceil(decision.retryAfterMs / 1_000)));
  const detail = `The tenant has sent more than ${decision.limit} requests in a minute; try again in ${seconds} s`;
  throw new ProblemError('rate_limited', detail, { headers: { ...headers, 'retry-after': seconds } });
}

/** https://datatracker.ietf.org/doc/html/draft-ietf-httpapi-ratelimit-headers-07 */
const rateHeaders = ({ limit, remaining, resetMs }: RateDecision): Record<string, string> => ({
  'ratelimit-limit': String(limit),
  'ratelimit-remaining': String(remaining),
  'ratelimit-reset': String(Math.ceil(resetMs / 1_000)),
});
