import { createRoute, z } from '@hono/zod-openapi';
import { MAX_KEPT_DELIVERIES } from '../../domain/tunables.ts';
import { DELIVERY_STATES } from '../../domain/webhooks/webhook.ts';
import { findDelivery, listDeliveries, redeliver } from '../../store/around/webhook-deliveries.ts';
import { inTransaction } from '../../store/db/database.ts';
import { cursorField, nextCursor } from '../bodies/cursor.ts';
import { idField, idParams, limitField, noQuery } from '../bodies/fields.ts';
import { CONFLICT, jsonOf, NOT_FOUND, nextCursorBody, REFUSED } from '../bodies/responses.ts';
import { deliveryBody, toDeliveryBody } from '../bodies/webhook-body.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, tenantOf } from '../http-env.ts';
import { auditRequest } from '../middleware/audit-trail.ts';

const tags = ['webhooks'];

const list = createRoute({
  method: 'get',
  path: '/v1/webhook-deliveries',
  operationId: 'listWebhookDeliveries',
  tags,
  summary: 'List what was and will be sent to webhooks, newest first',
  description: `Also to webhooks of messages. Of each receiver the newest ${MAX_KEPT_DELIVERIES} that have ended are kept.`,
  request: {
    query: z.strictObject({
      cursor: cursorField('deliveries'),
      limit: limitField,
      webhookId: idField('webhook').optional(),
      runId: idField('run').optional(),
      state: z.enum(DELIVERY_STATES).optional(),
    }),
  },
  responses: {
    200: jsonOf(z.object({ deliveries: z.array(deliveryBody), nextCursor: nextCursorBody }), 'A page of them.'),
    ...REFUSED,
  },
});

const wholeDeliveryBody = deliveryBody
  .extend({ body: z.string().openapi({ description: 'The bytes of every attempt, as text.' }) })
  .openapi('WholeWebhookDelivery');

const get = createRoute({
  method: 'get',
  path: '/v1/webhook-deliveries/{id}',
  operationId: 'getWebhookDelivery',
  tags,
  summary: 'Read a delivery with its body',
  request: { params: idParams('delivery'), query: noQuery },
  responses: { 200: jsonOf(wholeDeliveryBody, 'The delivery.'), ...REFUSED, ...NOT_FOUND },
});

const again = createRoute({
  method: 'post',
  path: '/v1/webhook-deliveries/{id}/redeliver',
  operationId: 'redeliverWebhook',
  tags,
  summary: 'Send a delivery again',
  description:
    'With the same id and the same bytes. One that waits is sent now; one that has ended gets all its attempts.',
  request: { params: idParams('delivery'), query: noQuery },
  responses: { 202: jsonOf(deliveryBody, 'It will be sent.'), ...REFUSED, ...NOT_FOUND, ...CONFLICT },
});

export function registerWebhookDeliveryRoutes(app: BatonApp, { db }: HttpDeps): void {
  app.openapi(list, async (c) => {
    const { cursor, limit, webhookId, runId, state } = c.req.valid('query');
    const filter = { tenantId: tenantOf(c), webhookId, runId, state, after: cursor };
    const rows = await listDeliveries(db, { ...filter, limit: limit + 1 });
    const deliveries = rows.slice(0, limit).map(toDeliveryBody);
    return c.json({ deliveries, nextCursor: nextCursor('deliveries', rows, limit) }, 200);
  });

  app.openapi(get, async (c) => {
    const row = await findDelivery(db, tenantOf(c), c.req.valid('param').id);
    return c.json({ ...toDeliveryBody(row), body: row.body.toString('utf8') }, 200);
  });

  app.openapi(again, async (c) => {
    const row = await inTransaction(db, async (tx) => {
      const sent = await redeliver(tx, tenantOf(c), c.req.valid('param').id);
      await auditRequest(tx, c, 'webhook:redeliver');
      return sent;
    });
    return c.json(toDeliveryBody(row), 202);
  });
}
