import { formatId } from '../domain/ids.ts';
import {
  changeWebhook as change,
  createWebhook,
  type NewWebhook,
  deleteWebhook as remove,
  type WebhookChanges,
  type WebhookRow,
} from '../store/around/webhooks.ts';
import { inTransaction, type Tx } from '../store/db/database.ts';
import { type Actor, auditAct } from './audit.ts';
import type { CommandPorts } from './ports.ts';

type OfWebhook = Readonly<{ actor: Actor; webhookId: string }>;
type Ports = Pick<CommandPorts, 'db'>;

export const webhookPath = (webhookId: string): string => `/v1/webhooks/${formatId('webhook', webhookId)}`;

/**
 * Creates a webhook, in the caller's transaction. Nothing follows the commit. The caller has checked the URL and the
 * name of the agent.
 *
 * Locks the tenant's list of webhooks. The audit log has the act.
 * @throws BatonError `conflict` (the tenant has as many as it may)
 */
export async function createWebhookIn(
  tx: Tx,
  { newId }: Pick<CommandPorts, 'newId'>,
  { actor, ...webhook }: Readonly<{ actor: Actor }> & Omit<NewWebhook, 'id' | 'tenantId'>,
): Promise<WebhookRow> {
  const row = await createWebhook(tx, { ...webhook, id: newId(), tenantId: actor.tenantId });
  await auditAct(tx, actor, 'webhook:create', webhookPath(row.id));
  return row;
}

/**
 * Changes, disables or enables a webhook. Enabling forgets its failures; disabling gives up what waits for it. Nothing
 * follows the commit.
 *
 * Locks the webhook. The audit log has the act.
 * @throws BatonError `not_found`
 */
export function changeWebhook(
  { db }: Ports,
  { actor, webhookId }: OfWebhook,
  changes: WebhookChanges,
): Promise<WebhookRow> {
  return inTransaction(db, async (tx) => {
    const changed = await change(tx, actor.tenantId, webhookId, changes);
    await auditAct(tx, actor, 'webhook:update', webhookPath(webhookId));
    return changed;
  });
}

/**
 * Deletes a webhook with its deliveries. Nothing follows the commit.
 *
 * Locks the webhook. The audit log has the act.
 * @throws BatonError `not_found`
 */
export async function deleteWebhook({ db }: Ports, { actor, webhookId }: OfWebhook): Promise<void> {
  await inTransaction(db, async (tx) => {
    await remove(tx, actor.tenantId, webhookId);
    await auditAct(tx, actor, 'webhook:delete', webhookPath(webhookId));
  });
}
