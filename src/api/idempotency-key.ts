import { z } from '@hono/zod-openapi';

export const IDEMPOTENCY_KEY = 'idempotency-key';

/** Header of requests that may be repeated; printable ASCII, as any header. */
export const idempotencyHeader = z.object({
  [IDEMPOTENCY_KEY]: z
    .string()
    .regex(/^[\x21-\x7e]{1,255}$/, { error: '1 to 255 visible ASCII characters' })
    .optional()
    .openapi({ description: 'The same key with the same request has the same answer, for a day.' }),
});
