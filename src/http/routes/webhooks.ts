import { createRoute, z } from '@hono/zod-openapi';
import { formatId } from '../../domain/ids.ts';
import { MAX_WEBHOOKS_PER_TENANT, WEBHOOK_EVENTS } from '../../domain/webhooks/webhook.ts';
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
import { idParams, noQuery, textField } from '../bodies/fields.ts';
import { jsonBody } from '../bodies/json-body.ts';
import { BODY_REFUSED, CONFLICT, jsonOf, NOT_FOUND, REFUSED, UNKNOWN_AGENT } from '../bodies/responses.ts';
import {
  deliveryBody,
  eventsField,
  refusePrivateWebhook,
  secretField,
  toDeliveryBody,
  toWebhookBody,
  webhookBody,
  webhookUrlField,
} from '../bodies/webhook-body.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, tenantOf } from '../http-env.ts';
import { auditRequest } from '../middleware/audit-trail.ts';
import { idempotencyHeader, workOnce } from '../middleware/idempotency.ts';

const tags = ['webhooks'];
const agentField = textField(200).min(1);

const create = createRoute({
  method: 'post',
  path: '/v1/webhooks',
  operationId: 'createWebhook',
  tags,
  summary: 'Have a URL told of runs that end or wait',
  description: `What happens from now on is sent to it, signed by Standard Webhooks, until it is deleted. A tenant has at most ${MAX_WEBHOOKS_PER_TENANT}.`,
  request: {
    query: noQuery,
    headers: idempotencyHeader,
    body: jsonBody(
      z
        .strictObject({
          url: webhookUrlField,
          secret: secretField,
          events: eventsField.optional().openapi({ description: 'All by default.' }),
          agent: agentField.nullable().optional().openapi({ description: 'Only runs of its sessions.' }),
        })
        .openapi('NewWebhook'),
    ),
  },
  responses: {
    201: jsonOf(webhookBody, 'The webhook.'),
    ...REFUSED,
    ...BODY_REFUSED,
    ...CONFLICT,
    ...UNKNOWN_AGENT,
  },
});

const list = createRoute({
  method: 'get',
  path: '/v1/webhooks',
  operationId: 'listWebhooks',
  tags,
  summary: 'List the webhooks, newest first',
  request: { query: noQuery },
  responses: { 200: jsonOf(z.object({ webhooks: z.array(webhookBody) }), 'All of the tenant.'), ...REFUSED },
});

const get = createRoute({
  method: 'get',
  path: '/v1/webhooks/{id}',
  operationId: 'getWebhook',
  tags,
  summary: 'Read a webhook',
  request: { params: idParams('webhook'), query: noQuery },
  responses: { 200: jsonOf(webhookBody, 'The webhook.'), ...REFUSED, ...NOT_FOUND },
});

const change = createRoute({
  method: 'patch',
  path: '/v1/webhooks/{id}',
  operationId: 'updateWebhook',
  tags,
  summary: 'Change, disable or enable a webhook',
  description:
    'A new secret or URL holds from the next attempt on, also for deliveries that wait. Disabling gives up those that wait; they can be sent again one by one.',
  request: {
    params: idParams('webhook'),
    query: noQuery,
    body: jsonBody(
      z
        .strictObject({
          url: webhookUrlField.optional(),
          secret: secretField.optional(),
          events: eventsField.optional(),
          agent: agentField.nullable().optional(),
          enabled: z.boolean().optional(),
        })
        .openapi('WebhookChanges'),
    ),
  },
  responses: {
    200: jsonOf(webhookBody, 'The webhook as it is now.'),
    ...REFUSED,
    ...BODY_REFUSED,
    ...NOT_FOUND,
    ...UNKNOWN_AGENT,
  },
});

const remove = createRoute({
  method: 'delete',
  path: '/v1/webhooks/{id}',
  operationId: 'deleteWebhook',
  tags,
  summary: 'Delete a webhook with its deliveries',
  request: { params: idParams('webhook'), query: noQuery },
  responses: { 204: { description: 'It is gone.' }, ...REFUSED, ...NOT_FOUND },
});

const test = createRoute({
  method: 'post',
  path: '/v1/webhooks/{id}/test',
  operationId: 'testWebhook',
  tags,
  summary: 'Send a delivery of type `webhook:test`',
  description: 'It takes the way of every delivery. Read it again to see how the receiver answered.',
  request: { params: idParams('webhook'), query: noQuery },
  responses: { 202: jsonOf(deliveryBody, 'It will be sent.'), ...REFUSED, ...NOT_FOUND, ...CONFLICT },
});

export function registerWebhookRoutes(app: BatonApp, deps: HttpDeps): void {
  const { db, newId, agents, webhookPolicy } = deps;
  /** @throws BatonError `agent_not_found`, `invalid_request` */
  const check = async ({ url, agent }: Readonly<{ url?: string | undefined; agent?: string | null | undefined }>) => {
    if (url !== undefined) refusePrivateWebhook(url, webhookPolicy);
    if (agent !== undefined && agent !== null) (await agents.current()).get(agent);
  };

  app.openapi(create, async (c) => {
    const { url, secret, events = [...WEBHOOK_EVENTS], agent = null } = c.req.valid('json');
    await check({ url, agent });
    const asked = { route: create, request: { url, secret, events, agent }, answer: webhookBody };
    const { body, headers } = await workOnce(c, db, asked, async (tx) => {
      const row = await createWebhook(tx, { id: newId(), tenantId: tenantOf(c), url, secret, events, agent });
      await auditRequest(tx, c, 'webhook:create', `/v1/webhooks/${formatId('webhook', row.id)}`);
      return toWebhookBody(row);
    });
    return c.json(body, 201, { location: `/v1/webhooks/${body.id}`, ...headers });
  });

  app.openapi(list, async (c) => {
    const rows = await listWebhooks(db, tenantOf(c));
    return c.json({ webhooks: rows.map(toWebhookBody) }, 200);
  });

  app.openapi(get, async (c) =>
    c.json(toWebhookBody(await findWebhook(db, tenantOf(c), c.req.valid('param').id)), 200),
  );

  app.openapi(change, async (c) => {
    const changes = c.req.valid('json');
    await check(changes);
    const row = await inTransaction(db, async (tx) => {
      const changed = await changeWebhook(tx, tenantOf(c), c.req.valid('param').id, changes);
      await auditRequest(tx, c, 'webhook:update');
      return changed;
    });
    return c.json(toWebhookBody(row), 200);
  });

  app.openapi(remove, async (c) => {
    await inTransaction(db, async (tx) => {
      await deleteWebhook(tx, tenantOf(c), c.req.valid('param').id);
      await auditRequest(tx, c, 'webhook:delete');
    });
    return c.body(null, 204);
  });

  app.openapi(test, async (c) => {
    const deliveryId = newId();
    const row = await inTransaction(db, async (tx) => {
      await testWebhook(tx, tenantOf(c), c.req.valid('param').id, deliveryId);
      await auditRequest(tx, c, 'webhook:test');
      return findDelivery(tx, tenantOf(c), deliveryId);
    });
    return c.json(toDeliveryBody(row), 202);
  });
}
