import { createRoute, z } from '@hono/zod-openapi';
import { MAX_WEBHOOKS_PER_TENANT } from '../domain/webhooks/webhook.ts';
import { idParams, noQuery, textField } from './fields.ts';
import { idempotencyHeader } from './idempotency-key.ts';
import { jsonBody } from './json-body.ts';
import { BODY_REFUSED, CONFLICT, jsonOf, NOT_FOUND, REFUSED, UNKNOWN_AGENT } from './responses.ts';
import { deliveryBody, eventsField, secretField, webhookBody, webhookUrlField } from './webhook-body.ts';

const tags = ['webhooks'];

const agentField = textField(200).min(1);

export const createWebhookRoute = createRoute({
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

export const listWebhooksRoute = createRoute({
  method: 'get',
  path: '/v1/webhooks',
  operationId: 'listWebhooks',
  tags,
  summary: 'List the webhooks, newest first',
  request: { query: noQuery },
  responses: { 200: jsonOf(z.object({ webhooks: z.array(webhookBody) }), 'All of the tenant.'), ...REFUSED },
});

export const getWebhookRoute = createRoute({
  method: 'get',
  path: '/v1/webhooks/{id}',
  operationId: 'getWebhook',
  tags,
  summary: 'Read a webhook',
  request: { params: idParams('webhook'), query: noQuery },
  responses: { 200: jsonOf(webhookBody, 'The webhook.'), ...REFUSED, ...NOT_FOUND },
});

export const updateWebhookRoute = createRoute({
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

export const deleteWebhookRoute = createRoute({
  method: 'delete',
  path: '/v1/webhooks/{id}',
  operationId: 'deleteWebhook',
  tags,
  summary: 'Delete a webhook with its deliveries',
  request: { params: idParams('webhook'), query: noQuery },
  responses: { 204: { description: 'It is gone.' }, ...REFUSED, ...NOT_FOUND },
});

export const testWebhookRoute = createRoute({
  method: 'post',
  path: '/v1/webhooks/{id}/test',
  operationId: 'testWebhook',
  tags,
  summary: 'Send a delivery of type `webhook:test`',
  description: 'It takes the way of every delivery. Read it again to see how the receiver answered.',
  request: { params: idParams('webhook'), query: noQuery },
  responses: { 202: jsonOf(deliveryBody, 'It will be sent.'), ...REFUSED, ...NOT_FOUND, ...CONFLICT },
});
