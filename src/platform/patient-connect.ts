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
  const line: Line = { pool, most, opened: 0, refusal: null, trial: null, growth: null };
  pool.on('connect', () => {
    line.opened++;
    line.refusal = null;
  });
  pool.on('remove', () => line.opened--);
  return async () => {
    const startedMs = performance.now();
    for (;;) {
      if (line.refusal !== null && line.opened === 0) await waitForFirst(line, line.refusal, { startedMs, withinMs });
      else {
        const client = await pool.connect().catch((error: unknown) => judge(line, error, withinMs));
        if (client !== undefined) return client;
      }
    }
  };
}

/** The callers that wait for connections of one pool. */
type Line = {
  readonly pool: pg.Pool;
  readonly most: () => number;
  opened: number;
  refusal: Refusal | null;
  /** The attempt of one caller on behalf of all. */
  trial: Promise<void> | null;
  growth: NodeJS.Timeout | null;
};

/** Rejects once the time is over. */
async function waitForFirst(
  line: Line,
  refused: Refusal,
  { startedMs, withinMs }: Readonly<{ startedMs: number; withinMs: number }>,
): Promise<void> {
  if (performance.now() - startedMs > withinMs) throw noneLeft(refused.error, line.opened, withinMs);
  line.trial ??= tryOnce(line, refused.atMs).finally(() => {
    line.trial = null;
  });
  await line.trial;
}

async function tryOnce(line: Line, sinceMs: number): Promise<void> {
  await delay(Math.max(0, sinceMs + TRY_AGAIN_MS - performance.now()));
  await openOne(line);
}

async function openOne(line: Line): Promise<void> {
  try {
    (await line.pool.connect()).release();
  } catch (error) {
    if (isRefusedForNow(error)) noteRefusal(line, error);
  }
}

/** Notes a refusal, after which the pool is tried again. @throws any other error */
function judge(line: Line, error: unknown, withinMs: number): undefined {
  const isUsed = error instanceof Error && NONE_FREE.test(error.message) && line.pool.options.max < line.most();
  if (isUsed) throw noneLeft(error, line.opened, withinMs);
  if (!isRefusedForNow(error)) throw error;
  noteRefusal(line, error);
}

function noteRefusal(line: Line, error: Error): void {
  line.refusal = { error, atMs: performance.now() };
  line.pool.options.max = Math.max(1, line.opened);
  growLater(line);
}

function growLater(line: Line): void {
  const { pool, most, growth } = line;
  if (growth !== null || pool.options.max >= most() || pool.ending) return;
  line.growth = setTimeout(() => {
    line.growth = null;
    pool.options.max = Math.min(most(), pool.options.max + 1);
    // The pool itself opens none for callers that wait already. The first of them gets this one.
    if (pool.waitingCount > 0 && !pool.ending) void openOne(line);
    growLater(line);
  }, GROW_AGAIN_MS).unref();
}

const alwaysSame = (count: number) => (): number => count;

const noneLeft = (cause: Error, opened: number, withinMs: number): BatonError => {
  const own = opened === 0 ? 'it has none' : `none of its ${opened} became free`;
  const message = `Postgres gave no further connection, and ${own} within ${withinMs} ms (${cause.message})`;
  return new BatonError('store_unavailable', message, { cause });
};
