import type { Context } from 'hono';
import { webhookBody } from '../../api/webhook-body.ts';
import {
  createWebhookRoute,
  deleteWebhookRoute,
  getWebhookRoute,
  listWebhooksRoute,
  testWebhookRoute,
  updateWebhookRoute,
} from '../../api/webhooks.ts';
import { changeWebhook, createWebhookIn, deleteWebhook } from '../../commands/change-webhook.ts';
import { testWebhook } from '../../commands/send-delivery.ts';
import { WEBHOOK_EVENTS } from '../../domain/webhooks/webhook.ts';
import { findWebhook, listWebhooks } from '../../store/around/webhooks.ts';
import { refusePrivateWebhook, toDeliveryBody, toWebhookBody } from '../bodies/webhook-body.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, type HttpEnv, tenantOf } from '../http-env.ts';
import { workOnce } from '../middleware/idempotency.ts';

export function registerWebhookRoutes(app: BatonApp, deps: HttpDeps): void {
  const { db, agents, webhookPolicy } = deps;
  /** @throws BatonError `agent_not_found`, `invalid_request` */
  const check = async ({ url, agent }: Readonly<{ url?: string | undefined; agent?: string | null | undefined }>) => {
    if (url !== undefined) refusePrivateWebhook(url, webhookPolicy);
    if (agent !== undefined && agent !== null) (await agents.current()).get(agent);
  };

  app.openapi(createWebhookRoute, async (c) => {
    const { url, secret, events = [...WEBHOOK_EVENTS], agent = null } = c.req.valid('json');
    await check({ url, agent });
    const submission = { route: createWebhookRoute, request: { url, secret, events, agent }, answer: webhookBody };
    const { body, headers } = await workOnce(c, db, submission, async (tx) =>
      toWebhookBody(await createWebhookIn(tx, deps, { actor: c.get('caller'), url, secret, events, agent })),
    );
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
