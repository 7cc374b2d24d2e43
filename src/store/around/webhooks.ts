import { type Selectable, sql } from 'kysely';
import { BatonError } from '../../domain/errors.ts';
import { formatId } from '../../domain/ids.ts';
import {
  type DisabledReason,
  MAX_WEBHOOKS_PER_TENANT,
  TEST_EVENT,
  type WebhookEvent,
} from '../../domain/webhooks/webhook.ts';
import type { Db, Tx } from '../db/database.ts';
import { toJson } from '../db/json.ts';
import type { Tables } from '../db/tables.ts';
import { lockKey } from './idempotency.ts';

export type WebhookRow = Selectable<Tables['webhooks']>;

export type NewWebhook = Readonly<{
  id: string;
  tenantId: string;
  url: string;
  secret: string;
  events: readonly WebhookEvent[];
  /** Null: of every agent. */
  agent: string | null;
  key?: string;
  declaredBy?: string | null;
}>;

/** @throws BatonError `conflict` if the tenant has as many as it may */
export async function createWebhook(tx: Tx, webhook: NewWebhook): Promise<WebhookRow> {
  const { id, tenantId, url, secret, events, agent, key = null, declaredBy = null } = webhook;
  await lockWebhooks(tx, tenantId);
  const { count } = await tx
    .selectFrom('webhooks')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('tenant_id', '=', tenantId)
    .executeTakeFirstOrThrow();
  if (count >= MAX_WEBHOOKS_PER_TENANT) {
    throw new BatonError('conflict', `at most ${MAX_WEBHOOKS_PER_TENANT} webhooks: delete one that is not needed`);
  }
  return tx
    .insertInto('webhooks')
    .values({
      ...{ id, tenant_id: tenantId, url, secret, events: [...events], agent_name: agent },
      ...{ key, declared_by: declaredBy },
    })
    .returningAll()
    .executeTakeFirstOrThrow();
}

/** Locks the tenant's list of webhooks, so that no other transaction adds one of the same key. */
export const lockWebhooks = (tx: Tx, tenantId: string): Promise<void> => lockKey(tx, `webhooks ${tenantId}`);

/** Null: no webhook of the tenant has the key. */
export async function findWebhookByKey(db: Db | Tx, tenantId: string, key: string): Promise<WebhookRow | null> {
  const row = await db
    .selectFrom('webhooks')
    .selectAll()
    .where('tenant_id', '=', tenantId)
    .where('key', '=', key)
    .executeTakeFirst();
  return row ?? null;
}

/**
 * Locks the enabled webhooks that `declaredBy` has declared, but for those with these keys, and returns their ids. Of two
 * that start at once, the second finds those that the first has not disabled.
 */
export async function lockUndeclaredWebhooks(
  tx: Tx,
  tenantId: string,
  { declaredBy, keys }: Readonly<{ declaredBy: string; keys: readonly string[] }>,
): Promise<string[]> {
  const rows = await tx
    .selectFrom('webhooks')
    .select('id')
    .where('tenant_id', '=', tenantId)
    .where('declared_by', '=', declaredBy)
    .where('disabled_for', 'is', null)
    .where(sql<boolean>`key <> all(${[...keys]}::text[])`)
    .orderBy('id')
    .forUpdate()
    .execute();
  return rows.map(({ id }) => id);
}

/** Newest first. They are few: see `MAX_WEBHOOKS_PER_TENANT`. */
export async function listWebhooks(db: Db, tenantId: string): Promise<WebhookRow[]> {
  return db
    .selectFrom('webhooks')
    .selectAll()
    .where('tenant_id', '=', tenantId)
    .orderBy('created_at', 'desc')
    .orderBy('id', 'desc')
    .execute();
}

/** @throws BatonError `not_found` */
export async function findWebhook(db: Db | Tx, tenantId: string, id: string): Promise<WebhookRow> {
  const row = await db
    .selectFrom('webhooks')
    .selectAll()
    .where('tenant_id', '=', tenantId)
    .where('id', '=', id)
    .executeTakeFirst();
  return row ?? refuseUnknown(id);
}

export type WebhookChanges = Readonly<{
  url?: string | undefined;
  secret?: string | undefined;
  events?: readonly WebhookEvent[] | undefined;
  agent?: string | null | undefined;
  enabled?: boolean | undefined;
  declaredBy?: string | null | undefined;
}>;

/** Enabling a webhook forgets its failures. What was not delivered meanwhile stays so. @throws BatonError `not_found` */
export async function changeWebhook(
  tx: Tx,
  tenantId: string,
  id: string,
  changes: WebhookChanges,
): Promise<WebhookRow> {
  const { url, secret, events, agent, enabled, declaredBy } = changes;
  const row = await tx
    .updateTable('webhooks')
    .set({
      ...(url !== undefined && { url }),
      ...(secret !== undefined && { secret }),
      ...(events !== undefined && { events: [...events] }),
      ...(agent !== undefined && { agent_name: agent }),
      ...(declaredBy !== undefined && { declared_by: declaredBy }),
      ...(enabled === true && { disabled_for: null, failing_since: null }),
      ...(enabled === false && { disabled_for: 'request' as const }),
      updated_at: sql`clock_timestamp()`,
    })
    .where('tenant_id', '=', tenantId)
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirst();
  if (row === undefined) return refuseUnknown(id);
  if (enabled === false) await giveUpWaiting(tx, tenantId, id);
  return row;
}

/** Removes a webhook with its deliveries. @throws BatonError `not_found` */
export async function deleteWebhook(tx: Tx, tenantId: string, id: string): Promise<void> {
  const gone = await tx
    .deleteFrom('webhooks')
    .where('tenant_id', '=', tenantId)
    .where('id', '=', id)
    .returning('id')
    .executeTakeFirst();
  if (gone === undefined) refuseUnknown(id);
}

/** Disables a webhook, and gives up the deliveries that wait for it. False: it was disabled or deleted before. */
export async function disableWebhook(tx: Tx, tenantId: string, id: string, reason: DisabledReason): Promise<boolean> {
  const changed = await tx
    .updateTable('webhooks')
    .set({ disabled_for: reason, updated_at: sql`clock_timestamp()` })
    .where('tenant_id', '=', tenantId)
    .where('id', '=', id)
    .where('disabled_for', 'is', null)
    .returning('id')
    .executeTakeFirst();
  if (changed === undefined) return false;
  await giveUpWaiting(tx, tenantId, id);
  return true;
}

async function giveUpWaiting(tx: Tx, tenantId: string, webhookId: string): Promise<void> {
  await tx
    .updateTable('webhook_deliveries')
    .set({ state: 'failed', finished_at: sql`clock_timestamp()` })
    .where('tenant_id', '=', tenantId)
    .where('endpoint', '=', webhookId)
    .where('state', '=', 'waiting')
    .execute();
}

/**
 * Writes a delivery of type `webhook:test` to a webhook.
 * @throws BatonError `not_found`, `conflict` (the webhook is disabled)
 */
export async function testWebhook(tx: Tx, tenantId: string, id: string, deliveryId: string): Promise<void> {
  const webhook = await findWebhook(tx, tenantId, id);
  if (webhook.disabled_for !== null) {
    throw new BatonError('conflict', `${formatId('webhook', id)} is disabled: enable it first`);
  }
  const data = toJson({ webhookId: formatId('webhook', id) });
  await sql`
    insert into webhook_deliveries (id, tenant_id, webhook_id, endpoint, type, body)
    values (${deliveryId}, ${tenantId}, ${id}, ${id}, ${TEST_EVENT},
      baton_delivery_body(${deliveryId}::uuid, ${TEST_EVENT}, ${data}::json))`.execute(tx);
}

function refuseUnknown(id: string): never {
  throw new BatonError('not_found', `webhook ${formatId('webhook', id)} does not exist`);
}
