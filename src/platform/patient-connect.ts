import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import { BatonError } from '../domain/errors.ts';

/**
 * SQLSTATEs of a login that Postgres refuses for now: no connection left for all, the database or the role; the
 * database is closed for a moment; the server starts or stops.
 * (https://www.postgresql.org/docs/current/errcodes-appendix.html)
 */
const REFUSED_FOR_NOW = new Set(['53300', '55000', '57P03']);

/** Of the message of a pool whose connections stayed in use. */
const NONE_FREE = /^timeout exceeded when trying to connect/;

/** Between two attempts at a login while the pool has no connection, and before the pool may open one more again. */
const TRY_AGAIN_MS = 250;
const GROW_AGAIN_MS = 1_000;

export const isRefusedForNow = (error: unknown): error is Error =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' && REFUSED_FOR_NOW.has(error.code);

type Refusal = Readonly<{ error: Error; atMs: number }>;

/**
 * Connections of a pool that makes do with those that it has while Postgres refuses further ones: callers wait for
 * them in line. Without any, one caller tries on behalf of all.
 * @param most connections that the pool may have at this moment
 * @returns takes a connection. It rejects with BatonError `store_unavailable` after `withinMs` of refusals
 */
export function patientConnect(
  pool: pg.Pool,
  withinMs: number,
  most: () => number = alwaysSame(pool.options.max),
): () => Promise<pg.PoolClient> {
  let opened = 0;
  let refusal: Refusal | null = null;
  let trial: Promise<void> | null = null;
  let growth: NodeJS.Timeout | null = null;
  pool.on('connect', () => {
    opened++;
    refusal = null;
  });
  pool.on('remove', () => opened--);

  const grow = (): void => {
    growth = null;
    pool.options.max = Math.min(most(), pool.options.max + 1);
    // The pool itself opens none for callers that wait already. The first of them gets this one.
    if (pool.waitingCount > 0 && !pool.ending) void openOne();
    growLater();
  };
  function growLater(): void {
    if (growth === null && pool.options.max < most() && !pool.ending) growth = setTimeout(grow, GROW_AGAIN_MS).unref();
  }
  const noteRefusal = (error: Error): void => {
    refusal = { error, atMs: performance.now() };
    pool.options.max = Math.max(1, opened);
    growLater();
  };
  async function openOne(): Promise<void> {
    try {
      (await pool.connect()).release();
    } catch (error) {
      if (isRefusedForNow(error)) noteRefusal(error);
    }
  }
  const tryOnce = async (sinceMs: number): Promise<void> => {
    await delay(Math.max(0, sinceMs + TRY_AGAIN_MS - performance.now()));
    await openOne();
  };

  /** Rejects once the time is over. */
  const waitForFirst = async (refused: Refusal, startedMs: number): Promise<void> => {
    if (performance.now() - startedMs > withinMs) throw noneLeft(refused.error, opened, withinMs);
    trial ??= tryOnce(refused.atMs).finally(() => {
      trial = null;
    });
    await trial;
  };
  const judge = (error: unknown): void => {
    const isUsed = error instanceof Error && NONE_FREE.test(error.message) && pool.options.max < most();
    if (isUsed) throw noneLeft(error, opened, withinMs);
    if (!isRefusedForNow(error)) throw error;
    noteRefusal(error);
  };
  return async () => {
    const startedMs = performance.now();
    for (;;) {
      if (refusal !== null && opened === 0) await waitForFirst(refusal, startedMs);
      else {
        const client = await pool.connect().catch(judge);
        if (client !== undefined) return client;
      }
    }
  };
}

const alwaysSame = (count: number) => (): number => count;

const noneLeft = (cause: Error, opened: number, withinMs: number): BatonError => {
  const own = opened === 0 ? 'it has none' : `none of its ${opened} became free`;
  const message = `Postgres gave no further connection, and ${own} within ${withinMs} ms (${cause.message})`;
  return new BatonError('store_unavailable', message, { cause });
};
