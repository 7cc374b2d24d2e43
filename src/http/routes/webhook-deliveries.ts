import { nextCursor } from '../../api/cursor.ts';
import {
  getWebhookDeliveryRoute,
  listWebhookDeliveriesRoute,
  redeliverWebhookRoute,
} from '../../api/webhook-deliveries.ts';
import { redeliverDelivery } from '../../commands/send-delivery.ts';
import { findDelivery, listDeliveries } from '../../store/around/webhook-deliveries.ts';
import { toDeliveryBody } from '../bodies/webhook-body.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, tenantOf } from '../http-env.ts';

export function registerWebhookDeliveryRoutes(app: BatonApp, deps: HttpDeps): void {
  const { db } = deps;
  app.openapi(listWebhookDeliveriesRoute, async (c) => {
    const { cursor, limit, webhookId, runId, state } = c.req.valid('query');
    const filter = { tenantId: tenantOf(c), webhookId, runId, state, after: cursor };
    const rows = await listDeliveries(db, { ...filter, limit: limit + 1 });
    const deliveries = rows.slice(0, limit).map(toDeliveryBody);
    return c.json({ deliveries, nextCursor: nextCursor('deliveries', rows, limit) }, 200);
  });

  app.openapi(getWebhookDeliveryRoute, async (c) => {
    const row = await findDelivery(db, tenantOf(c), c.req.valid('param').id);
    return c.json({ ...toDeliveryBody(row), body: row.body.toString('utf8') }, 200);
  });

  app.openapi(redeliverWebhookRoute, async (c) => {
    const redelivery = { actor: c.get('caller'), deliveryId: c.req.valid('param').id };
    return c.json(toDeliveryBody(await redeliverDelivery(deps, redelivery)), 202);
  });
}
