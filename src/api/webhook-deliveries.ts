import { createRoute, z } from '@hono/zod-openapi';
import { MAX_KEPT_DELIVERIES } from '../domain/tunables.ts';
import { DELIVERY_STATES } from '../domain/webhooks/webhook.ts';
import { cursorField } from './cursor.ts';
import { idField, idParams, limitField, noQuery } from './fields.ts';
import { CONFLICT, jsonOf, NOT_FOUND, nextCursorBody, REFUSED, TOO_LARGE } from './responses.ts';
import { deliveryBody } from './webhook-body.ts';

const tags = ['webhooks'];

export const listWebhookDeliveriesRoute = createRoute({
  method: 'get',
  path: '/v1/webhook-deliveries',
  operationId: 'listWebhookDeliveries',
  tags,
  summary: 'List past and coming deliveries to webhooks, newest first',
  description: `Lists deliveries to webhooks of messages, too. The newest ${MAX_KEPT_DELIVERIES} ended deliveries of each receiver are kept.`,
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
    200: jsonOf(z.object({ deliveries: z.array(deliveryBody), nextCursor: nextCursorBody }), 'A page of deliveries.'),
    ...REFUSED,
  },
});

const wholeDeliveryBody = deliveryBody
  .extend({ body: z.string().openapi({ description: 'Body of every attempt, as text.' }) })
  .openapi('WholeWebhookDelivery');

export const getWebhookDeliveryRoute = createRoute({
  method: 'get',
  path: '/v1/webhook-deliveries/{id}',
  operationId: 'getWebhookDelivery',
  tags,
  summary: 'Read a delivery with its body',
  request: { params: idParams('delivery'), query: noQuery },
  responses: { 200: jsonOf(wholeDeliveryBody, 'The delivery.'), ...REFUSED, ...NOT_FOUND },
});

export const redeliverWebhookRoute = createRoute({
  method: 'post',
  path: '/v1/webhook-deliveries/{id}/redeliver',
  operationId: 'redeliverWebhook',
  tags,
  summary: 'Send a delivery again',
  description:
    'Sends the same id and the same bytes. A waiting delivery is sent now, an ended one gets all its attempts again.',
  request: { params: idParams('delivery'), query: noQuery },
  responses: {
    202: jsonOf(deliveryBody, 'The delivery, which will be sent.'),
    ...REFUSED,
    ...TOO_LARGE,
    ...NOT_FOUND,
    ...CONFLICT,
  },
});
