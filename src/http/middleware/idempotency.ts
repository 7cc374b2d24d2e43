import { createHash } from 'node:crypto';
import type { z } from '@hono/zod-openapi';
import type { Context } from 'hono';
import { IDEMPOTENCY_KEY } from '../../api/idempotency-key.ts';
import { answerOnce } from '../../store/around/idempotency.ts';
import { type Db, inTransaction, type Tx } from '../../store/db/database.ts';
import { type HttpEnv, tenantOf } from '../http-env.ts';

const REPLAYED = { 'idempotency-replayed': 'true' } as const;

/** Requests with the same key must agree in `route` and `request`. */
type Repeatable<Body> = Readonly<{
  /** Has `idempotencyHeader` among its headers. */
  route: Readonly<{ method: string; path: string }>;
  /** Path parameters and body, as parsed. */
  request: unknown;
  answer: z.ZodType<Body>;
}>;

/**
 * Does the work of a request, once per key if it has one.
 * @returns the answer, and the headers that say whether it was given before
 * @throws BatonError `idempotency_conflict`; errors of `work`
 */
export async function workOnce<Body>(
  c: Context<HttpEnv>,
  db: Db,
  { route: { method, path }, request, answer }: Repeatable<Body>,
  work: (tx: Tx) => Promise<Body>,
): Promise<Readonly<{ body: Body; headers: Partial<typeof REPLAYED> }>> {
  const key = c.req.header(IDEMPOTENCY_KEY);
  if (key === undefined) return { body: await inTransaction(db, work), headers: {} };
  const requestSha256 = createHash('sha256').update(JSON.stringify(request)).digest();
  const keyed = { tenantId: tenantOf(c), route: `${method.toUpperCase()} ${path}`, key, requestSha256 };
  const { body, isReplay } = await answerOnce(db, keyed, async (tx) => ({ status: 200, body: await work(tx) }));
  return { body: answer.parse(body), headers: isReplay ? REPLAYED : {} };
}
