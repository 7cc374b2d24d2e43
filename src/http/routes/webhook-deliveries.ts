import { nextCursor } from '../../api/cursor.ts';
import {
  getWebhookDeliveryRoute,
  listWebhookDeliveriesRoute,
  redeliverWebhookRoute,
} from '../../api/webhook-deliveries.ts';
import { findDelivery, listDeliveries, redeliver } from '../../store/around/webhook-deliveries.ts';
import { inTransaction } from '../../store/db/database.ts';
import { toDeliveryBody } from '../bodies/webhook-body.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, tenantOf } from '../http-env.ts';
import { auditRequest } from '../middleware/audit-trail.ts';

export function registerWebhookDeliveryRoutes(app: BatonApp, { db }: HttpDeps): void {
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
    const row = await inTransaction(db, async (tx) => {
      const sent = await redeliver(tx, tenantOf(c), c.req.valid('param').id);
      await auditRequest(tx, c, 'webhook:redeliver');
      return sent;
    });
    return c.json(toDeliveryBody(row), 202);
  });
}
