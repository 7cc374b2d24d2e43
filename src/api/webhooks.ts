import { createRoute, z } from '@hono/zod-openapi';
import { MAX_WEBHOOKS_PER_TENANT } from '../domain/webhooks/webhook.ts';
import { idParams, keyParams, noQuery, textField } from './fields.ts';
import { idempotencyHeader } from './idempotency-key.ts';
import { jsonBody } from './json-body.ts';
import { BODY_REFUSED, CONFLICT, jsonOf, NOT_FOUND, REFUSED, TOO_LARGE, UNKNOWN_AGENT } from './responses.ts';
import { deliveryBody, eventsField, secretField, webhookBody, webhookUrlField } from './webhook-body.ts';

const tags = ['webhooks'];

const agentField = textField(200).min(1);

const newWebhook = z.strictObject({
  url: webhookUrlField,
  secret: secretField,
  events: eventsField.optional().openapi({ description: 'Events to deliver. Default: all.' }),
  agent: agentField
    .nullable()
    .optional()
    .openapi({ description: 'Agent whose runs are reported. Default: all agents.' }),
});

/** The fields of a webhook with a key. */
export const webhookFields = newWebhook.extend({
  secret: secretField
    .optional()
    .openapi({ description: 'Signs what is sent. Default: the secret that the webhook has; a new webhook needs one.' }),
});

export const createWebhookRoute = createRoute({
  method: 'post',
  path: '/v1/webhooks',
  operationId: 'createWebhook',
  tags,
  summary: 'Create a webhook for runs that end or wait',
  description: `Sends events from now on to the URL, signed by Standard Webhooks, until the webhook is deleted. A tenant has at most ${MAX_WEBHOOKS_PER_TENANT}.`,
  request: {
    query: noQuery,
    headers: idempotencyHeader,
    body: jsonBody(newWebhook.openapi('NewWebhook')),
  },
  responses: {
    201: jsonOf(webhookBody, 'The webhook.'),
    ...REFUSED,
    ...BODY_REFUSED,
    ...CONFLICT,
    ...UNKNOWN_AGENT,
  },
});

export const putWebhookRoute = createRoute({
  method: 'put',
  path: '/v1/webhooks/{id}',
  operationId: 'putWebhook',
  tags,
  summary: 'Create or change the webhook of a key',
  description:
    'The id in the path is `key:` and your own name for the webhook. Events and agent that are left out have their defaults; a secret that is left out stays. An equal webhook is left as it is: nothing is written. A webhook that was disabled by a request stays disabled.',
  request: { params: keyParams, query: noQuery, body: jsonBody(webhookFields.openapi('PutWebhook')) },
  responses: {
    200: jsonOf(webhookBody, 'The webhook, which was changed or equal.'),
    201: jsonOf(webhookBody, 'The webhook, which is new.'),
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
  responses: { 200: jsonOf(z.object({ webhooks: z.array(webhookBody) }), 'All webhooks of the tenant.'), ...REFUSED },
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
    'A new secret or URL holds from the next attempt on, also for waiting deliveries. Disabling gives up waiting deliveries, which can be sent again one by one.',
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
  responses: { 204: { description: 'Deleted.' }, ...REFUSED, ...TOO_LARGE, ...NOT_FOUND },
});

export const testWebhookRoute = createRoute({
  method: 'post',
  path: '/v1/webhooks/{id}/test',
  operationId: 'testWebhook',
  tags,
  summary: 'Send a delivery of type `webhook:test`',
  description: 'Takes the way of every delivery. Read the delivery again to see how the receiver answered.',
  request: { params: idParams('webhook'), query: noQuery },
  responses: {
    202: jsonOf(deliveryBody, 'The delivery, which will be sent.'),
    ...REFUSED,
    ...TOO_LARGE,
    ...NOT_FOUND,
    ...CONFLICT,
  },
});
