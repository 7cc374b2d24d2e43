import { webhookBody } from '../../api/webhook-body.ts';
import {
  createWebhookRoute,
  deleteWebhookRoute,
  getWebhookRoute,
  listWebhooksRoute,
  testWebhookRoute,
  updateWebhookRoute,
} from '../../api/webhooks.ts';
import { formatId } from '../../domain/ids.ts';
import { WEBHOOK_EVENTS } from '../../domain/webhooks/webhook.ts';
import { findDelivery } from '../../store/around/webhook-deliveries.ts';
import {
  changeWebhook,
  createWebhook,
  deleteWebhook,
  findWebhook,
  listWebhooks,
  testWebhook,
} from '../../store/around/webhooks.ts';
import { inTransaction } from '../../store/db/database.ts';
import { refusePrivateWebhook, toDeliveryBody, toWebhookBody } from '../bodies/webhook-body.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, tenantOf } from '../http-env.ts';
import { auditRequest } from '../middleware/audit-trail.ts';
import { workOnce } from '../middleware/idempotency.ts';

export function registerWebhookRoutes(app: BatonApp, deps: HttpDeps): void {
  const { db, newId, agents, webhookPolicy } = deps;
  /** @throws BatonError `agent_not_found`, `invalid_request` */
  const check = async ({ url, agent }: Readonly<{ url?: string | undefined; agent?: string | null | undefined }>) => {
    if (url !== undefined) refusePrivateWebhook(url, webhookPolicy);
    if (agent !== undefined && agent !== null) (await agents.current()).get(agent);
  };

  app.openapi(createWebhookRoute, async (c) => {
    const { url, secret, events = [...WEBHOOK_EVENTS], agent = null } = c.req.valid('json');
    await check({ url, agent });
    const submission = { route: createWebhookRoute, request: { url, secret, events, agent }, answer: webhookBody };
    const { body, headers } = await workOnce(c, db, submission, async (tx) => {
      const row = await createWebhook(tx, { id: newId(), tenantId: tenantOf(c), url, secret, events, agent });
      await auditRequest(tx, c, 'webhook:create', `/v1/webhooks/${formatId('webhook', row.id)}`);
      return toWebhookBody(row);
    });
    return c.json(body, 201, { location: `/v1/webhooks/${body.id}`, ...headers });
  });

  app.openapi(listWebhooksRoute, async (c) => {
    const rows = await listWebhooks(db, tenantOf(c));
    return c.json({ webhooks: rows.map(toWebhookBody) }, 200);
  });

  app.openapi(getWebhookRoute, async (c) =>
    c.json(toWebhookBody(await findWebhook(db, tenantOf(c), c.req.valid('param').id)), 200),
  );

  app.openapi(updateWebhookRoute, async (c) => {
    const changes = c.req.valid('json');
    await check(changes);
    const row = await inTransaction(db, async (tx) => {
      const changed = await changeWebhook(tx, tenantOf(c), c.req.valid('param').id, changes);
      await auditRequest(tx, c, 'webhook:update');
      return changed;
    });
    return c.json(toWebhookBody(row), 200);
  });

  app.openapi(deleteWebhookRoute, async (c) => {
    await inTransaction(db, async (tx) => {
      await deleteWebhook(tx, tenantOf(c), c.req.valid('param').id);
      await auditRequest(tx, c, 'webhook:delete');
    });
    return c.body(null, 204);
  });

  app.openapi(testWebhookRoute, async (c) => {
    const deliveryId = newId();
    const row = await inTransaction(db, async (tx) => {
      await testWebhook(tx, tenantOf(c), c.req.valid('param').id, deliveryId);
      await auditRequest(tx, c, 'webhook:test');
      return findDelivery(tx, tenantOf(c), deliveryId);
    });
    return c.json(toDeliveryBody(row), 202);
  });
}
