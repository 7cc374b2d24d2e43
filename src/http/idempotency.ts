import { createHash } from 'node:crypto';
import { z } from '@hono/zod-openapi';
import type { Db, Tx } from '../store/database.ts';
import { answerOnce } from '../store/idempotency.ts';

/** Header of requests that may be repeated. Printable ASCII, as any header. */
export const idempotencyHeader = z.object({
  'idempotency-key': z
    .string()
    .regex(/^[\x21-\x7e]{1,255}$/, { error: '1 to 255 visible ASCII characters' })
    .optional()
    .openapi({ description: 'The same key with the same request has the same answer, for a day.' }),
});

/** Says that the answer is the one that was given before. */
export const REPLAYED = { 'idempotency-replayed': 'true' } as const;

type Keyed = Readonly<{ tenantId: string; route: string; key: string | undefined; request: unknown }>;

/**
 * Does the work of a request, once per key where there is one.
 * @param request path parameters and body as they were understood
 * @throws BatonError `idempotency_conflict`; what `work` throws
 */
export async function workOnce<Body>(
  db: Db,
  { tenantId, route, key, request }: Keyed,
  bodySchema: z.ZodType<Body>,
  work: (tx: Tx) => Promise<Body>,
): Promise<Readonly<{ body: Body; isReplay: boolean }>> {
  if (key === undefined) return { body: await db.transaction().execute(work), isReplay: false };
  const requestSha256 = createHash('sha256').update(JSON.stringify(request)).digest();
  const keyed = { tenantId, route, key, requestSha256 };
  const answer = await answerOnce(db, keyed, async (tx) => ({ status: 200, body: await work(tx) }));
  return { body: bodySchema.parse(answer.body), isReplay: answer.isReplay };
}
