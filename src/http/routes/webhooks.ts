import type { Context } from 'hono';
import { webhookBody } from '../../api/webhook-body.ts';
import {
  createWebhookRoute,
  deleteWebhookRoute,
  getWebhookRoute,
  listWebhooksRoute,
  putWebhookRoute,
  testWebhookRoute,
  updateWebhookRoute,
} from '../../api/webhooks.ts';
import { changeWebhook, createWebhookIn, deleteWebhook } from '../../commands/change-webhook.ts';
import { putWebhook } from '../../commands/put-webhook.ts';
import { testWebhook } from '../../commands/send-delivery.ts';
import { WEBHOOK_EVENTS } from '../../domain/webhooks/webhook.ts';
import { findWebhook, listWebhooks } from '../../store/around/webhooks.ts';
import { checkWebhook } from '../../webhooks/check-webhook.ts';
import { toDeliveryBody, toWebhookBody } from '../bodies/webhook-body.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, type HttpEnv, tenantOf } from '../http-env.ts';
import { workOnce } from '../middleware/idempotency.ts';

export function registerWebhookRoutes(app: BatonApp, deps: HttpDeps): void {
  const { db } = deps;

  app.openapi(createWebhookRoute, async (c) => {
    const { url, secret, events = [...WEBHOOK_EVENTS], agent = null } = c.req.valid('json');
    await checkWebhook(deps, { url, agent });
    const submission = { route: createWebhookRoute, request: { url, secret, events, agent }, answer: webhookBody };
    const { body, headers } = await workOnce(c, db, submission, async (tx) =>
      toWebhookBody(await createWebhookIn(tx, deps, { actor: c.get('caller'), url, secret, events, agent })),
    );
    return c.json(body, 201, { location: `/v1/webhooks/${body.id}`, ...headers });
  });

  app.openapi(putWebhookRoute, async (c) => {
    const { url, secret, events = [...WEBHOOK_EVENTS], agent = null } = c.req.valid('json');
    await checkWebhook(deps, { url, agent });
    const fields = { url, secret, events, agent, declaredBy: null };
    const { row, change } = await putWebhook(deps, { actor: c.get('caller'), key: c.req.valid('param').id, ...fields });
    return change === 'created' ? c.json(toWebhookBody(row), 201) : c.json(toWebhookBody(row), 200);
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
    await checkWebhook(deps, changes);
    return c.json(toWebhookBody(await changeWebhook(deps, ofOne(c, c.req.valid('param').id), changes)), 200);
  });

  app.openapi(deleteWebhookRoute, async (c) => {
    await deleteWebhook(deps, ofOne(c, c.req.valid('param').id));
    return c.body(null, 204);
  });

  app.openapi(testWebhookRoute, async (c) =>
    c.json(toDeliveryBody(await testWebhook(deps, ofOne(c, c.req.valid('param').id))), 202),
  );
}

const ofOne = (c: Context<HttpEnv>, webhookId: string) => ({ actor: c.get('caller'), webhookId });
