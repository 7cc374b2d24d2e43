import type { CallOptions, KeyedOptions } from './call-options.ts';
import type { NewWebhook, PutWebhook, Webhook, WebhookDelivery } from './contract.ts';
import { newKey } from './new-key.ts';
import { pathOf, type Transport } from './transport.ts';

export type WebhookDeliveryPage = Readonly<{ deliveries: readonly WebhookDelivery[]; nextCursor: string | null }>;

type DeliveryFilter = CallOptions &
  Readonly<{
    cursor?: string | undefined;
    limit?: number | undefined;
    webhookId?: string | undefined;
    runId?: string | undefined;
    state?: WebhookDelivery['state'] | undefined;
  }>;

export type WebhookMethods = Readonly<{
  create: (webhook: NewWebhook, options?: KeyedOptions) => Promise<Webhook>;
  /**
   * Creates or changes the webhook of a key, which stands for its id in every method as `key:` and the key. A secret that is
   * left out stays. An equal webhook is left as it is.
   */
  put: (key: string, webhook: PutWebhook, options?: CallOptions) => Promise<Webhook>;
  list: (options?: CallOptions) => Promise<Readonly<{ webhooks: readonly Webhook[] }>>;
  get: (webhookId: string, options?: CallOptions) => Promise<Webhook>;
  /** Fields that are left out stay as they are. Enabling forgets earlier failures. */
  update: (
    webhookId: string,
    changes: Partial<NewWebhook> & Readonly<{ enabled?: boolean | undefined }>,
    options?: CallOptions,
  ) => Promise<Webhook>;
  /** Its deliveries go with it. */
  delete: (webhookId: string, options?: CallOptions) => Promise<void>;
  /** Sends a delivery of type `webhook:test`. */
  test: (webhookId: string, options?: CallOptions) => Promise<WebhookDelivery>;
  /** Newest first, also those to webhooks of messages. */
  deliveries: (filter?: DeliveryFilter) => Promise<WebhookDeliveryPage>;
  delivery: (deliveryId: string, options?: CallOptions) => Promise<WebhookDelivery & Readonly<{ body: string }>>;
  /** Sends a delivery again, with the same id and the same bytes. */
  redeliver: (deliveryId: string, options?: CallOptions) => Promise<WebhookDelivery>;
}>;

export function webhookMethods({ call }: Transport): WebhookMethods {
  const path = (id: string): string => pathOf`/v1/webhooks/${id}`;
  const deliveryPath = (id: string): string => pathOf`/v1/webhook-deliveries/${id}`;
  return {
    create: (body, { signal, idempotencyKey = newKey() } = {}) => {
      const headers = { 'idempotency-key': idempotencyKey };
      return call({ method: 'POST', path: '/v1/webhooks', body, headers, signal, isRepeatable: true });
    },
    put: (key, body, { signal } = {}) =>
      call({ method: 'PUT', path: pathOf`/v1/webhooks/key:${key}`, body, signal, isRepeatable: true }),
    list: ({ signal } = {}) => call({ method: 'GET', path: '/v1/webhooks', signal, isRepeatable: true }),
    get: (id, { signal } = {}) => call({ method: 'GET', path: path(id), signal, isRepeatable: true }),
    update: (id, body, { signal } = {}) => call({ method: 'PATCH', path: path(id), body, signal, isRepeatable: true }),
    delete: (id, { signal } = {}) => call({ method: 'DELETE', path: path(id), signal, isRepeatable: false }),
    test: (id, { signal } = {}) =>
      call({ method: 'POST', path: pathOf`/v1/webhooks/${id}/test`, signal, isRepeatable: false }),
    deliveries: ({ signal, ...query } = {}) =>
      call({ method: 'GET', path: '/v1/webhook-deliveries', query, signal, isRepeatable: true }),
    delivery: (id, { signal } = {}) => call({ method: 'GET', path: deliveryPath(id), signal, isRepeatable: true }),
    redeliver: (id, { signal } = {}) =>
      call({ method: 'POST', path: pathOf`/v1/webhook-deliveries/${id}/redeliver`, signal, isRepeatable: false }),
  };
}
