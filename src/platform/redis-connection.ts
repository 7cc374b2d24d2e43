import type { Redis, RedisOptions } from 'ioredis';
import { backOffMs } from './back-off.ts';

/** Options of ioredis, for connections that others open, too. */
export type KeptConnection = Readonly<
  Required<
    Pick<RedisOptions, 'connectTimeout' | 'socketTimeout' | 'sentinelCommandTimeout' | 'maxLoadingRetryTime'>
  > & {
    retryStrategy: (attempt: number) => number;
    sentinelRetryStrategy: (attempt: number) => number;
    reconnectOnError: (error: Error) => boolean;
  }
>;

/** Pauses between tries to connect. Queued work goes on within 2 s of a Redis that is back. */
const BACKOFF_FIRST_MS = 50;
const BACKOFF_CAP_MS = 1_000;

const CONNECT_TIMEOUT_MS = 5_000;

/**
 * Errors of a server that another one may be free of: it has become a replica, or copies or loads its data. The address
 * may lead to another server by now (https://redis.io/docs/latest/operate/oss_and_stack/management/replication).
 */
const LEFT_FOR_ANOTHER = /^(READONLY|UNBLOCKED|LOADING|MASTERDOWN)\b/;

/** A server that stays a replica is left once in this time: at each try of a worker, which pauses for longer. */
const LEFT_EVERY_MS = 250;

/**
 * How every connection to Redis is kept: it is opened again with growing pauses, left when its server takes no writes
 * any more, and given up when an answer does not come, because a half-open one reports no error for a quarter of an
 * hour. Make one for each connection.
 * @param silentForMs longest wait for any byte of a pending answer
 */
export function keptConnection(silentForMs: number): KeptConnection {
  let leftAtMs = Number.NEGATIVE_INFINITY;
  return {
    connectTimeout: CONNECT_TIMEOUT_MS,
    socketTimeout: silentForMs,
    retryStrategy: pauseMs,
    sentinelCommandTimeout: CONNECT_TIMEOUT_MS,
    sentinelRetryStrategy: pauseMs,
    // ioredis waits up to 10 s for a server that reads its data, by its guess of how long that takes.
    maxLoadingRetryTime: BACKOFF_CAP_MS,
    reconnectOnError(error) {
      const nowMs = performance.now();
      if (!LEFT_FOR_ANOTHER.test(error.message) || nowMs - leftAtMs < LEFT_EVERY_MS) return false;
      leftAtMs = nowMs;
      return true;
    },
  };
}

/**
 * Clears the timer of `socketTimeout`, which ioredis 5.11 leaves behind when a connection is closed with a request under
 * way: it would keep an ending process alive. Call it after the end of the connection.
 */
export function forgetSilence(client: object): void {
  clearTimeout(Reflect.get(client, 'socketTimeoutTimer'));
}

/**
 * Ends a connection for good, with all that waits on it. ioredis 5.11 never says that a connection has ended which it is
 * told to leave between two tries to connect: it ends in the next one.
 */
export function endConnection(client: Redis): void {
  if (client.status === 'reconnecting') client.connect().catch(() => undefined);
  client.disconnect();
}

const pauseMs = (attempt: number): number => backOffMs(attempt - 1, BACKOFF_FIRST_MS, BACKOFF_CAP_MS);

/** Errors of a Redis that refuses work for now, in good order (https://redis.io/docs/latest/develop/reference/protocol-spec). */
const REFUSES_NOW =
  /^(READONLY|UNBLOCKED|LOADING|MASTERDOWN|OOM|MISCONF|NOREPLICAS|BUSY|MOVED|ASK|CROSSSLOT|CLUSTERDOWN|TRYAGAIN)\b/;

/** Whether Redis is away or takes no writes now, which no other command would change. */
export function isRedisAway(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (['MaxRetriesPerRequestError', 'ConnectionClosedError'].includes(error.name)) return true;
  return (
    error.message === 'Connection is closed.' ||
    error.message === 'Command timed out' ||
    REFUSES_NOW.test(error.message)
  );
}
