import { z } from '@hono/zod-openapi';

export const IDEMPOTENCY_KEY = 'idempotency-key';

/** Header of requests that may be repeated; printable ASCII, as any header. */
export const idempotencyHeader = z.object({
  [IDEMPOTENCY_KEY]: z
    .string()
    .regex(/^[\x21-\x7e]{1,255}$/, { error: '1 to 255 visible ASCII characters' })
    .optional()
    .openapi({
      description:
        'Key that makes repeating safe: an equal request with an equal key gets the first answer, for a day.',
    }),
});
