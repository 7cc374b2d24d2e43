import { formatId } from '../domain/ids.ts';
import { type DeliveryRow, findDelivery, redeliver } from '../store/around/webhook-deliveries.ts';
import { testWebhook as writeTest } from '../store/around/webhooks.ts';
import { inTransaction } from '../store/db/database.ts';
import { type Actor, auditAct } from './audit.ts';
import { webhookPath } from './change-webhook.ts';
import type { CommandPorts } from './ports.ts';

/**
 * Sends a delivery of type `webhook:test` to a webhook. A worker of deliveries finds it within a second.
 *
 * Locks nothing. The audit log has the act.
 * @throws BatonError `not_found`; `conflict` (the webhook is disabled)
 */
export function testWebhook(
  { db, newId }: Pick<CommandPorts, 'db' | 'newId'>,
  { actor, webhookId }: Readonly<{ actor: Actor; webhookId: string }>,
): Promise<DeliveryRow> {
  const deliveryId = newId();
  return inTransaction(db, async (tx) => {
    await writeTest(tx, actor.tenantId, webhookId, deliveryId);
    await auditAct(tx, actor, 'webhook:test', `${webhookPath(webhookId)}/test`);
    return findDelivery(tx, actor.tenantId, deliveryId);
  });
}

/**
 * Sends a delivery again, with the same id and body: one that waits at once, one that has ended with all its attempts.
 *
 * Locks the delivery. The audit log has the act.
 * @throws BatonError `not_found`; `conflict` (it is sent now, or its webhook is disabled)
 */
export function redeliverDelivery(
  { db }: Pick<CommandPorts, 'db'>,
  { actor, deliveryId }: Readonly<{ actor: Actor; deliveryId: string }>,
): Promise<DeliveryRow> {
  return inTransaction(db, async (tx) => {
    const again = await redeliver(tx, actor.tenantId, deliveryId);
    const target = `/v1/webhook-deliveries/${formatId('delivery', deliveryId)}/redeliver`;
    await auditAct(tx, actor, 'webhook:redeliver', target);
    return again;
  });
}
