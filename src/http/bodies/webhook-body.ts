import type { z } from '@hono/zod-openapi';
import type { deliveryBody, messageWebhookField, webhookBody } from '../../api/webhook-body.ts';
import { formatId } from '../../domain/ids.ts';
import type { MessageWebhook } from '../../domain/webhooks/message-webhook.ts';
import type { DeliveryRow } from '../../store/around/webhook-deliveries.ts';
import type { WebhookRow } from '../../store/around/webhooks.ts';
import type { OutboundPolicy } from '../../tools/http/guarded-request.ts';
import { refusePrivateWebhook } from '../../webhooks/check-webhook.ts';

export function toWebhookBody(row: WebhookRow): z.infer<typeof webhookBody> {
  return {
    id: formatId('webhook', row.id),
    key: row.key,
    declaredBy: row.declared_by,
    url: row.url,
    events: row.events,
    agent: row.agent_name,
    enabled: row.disabled_for === null,
    disabledFor: row.disabled_for,
    failingSince: row.failing_since?.toISOString() ?? null,
    createdAt: row.created_at.toISOString(),
    updatedAt: row.updated_at.toISOString(),
  };
}

export function toDeliveryBody(row: DeliveryRow): z.infer<typeof deliveryBody> {
  return {
    id: formatId('delivery', row.id),
    webhookId: row.webhook_id === null ? null : formatId('webhook', row.webhook_id),
    url: row.url,
    type: row.type,
    sessionId: row.session_id === null ? null : formatId('session', row.session_id),
    runId: row.run_id === null ? null : formatId('run', row.run_id),
    state: row.state,
    attempts: row.attempts,
    nextAttemptAt: row.state === 'waiting' ? row.due_at.toISOString() : null,
    status: row.last_status,
    error: row.last_error,
    tookMs: row.took_ms,
    createdAt: row.created_at.toISOString(),
    finishedAt: row.finished_at?.toISOString() ?? null,
  };
}

/** @throws BatonError `invalid_request` for a private address */
export function toMessageWebhook(
  { url, secret }: z.infer<typeof messageWebhookField>,
  policy: OutboundPolicy | undefined,
): MessageWebhook {
  refusePrivateWebhook(url, policy, 'webhook.url');
  return { url, secret, origin: new URL(url).origin };
}
