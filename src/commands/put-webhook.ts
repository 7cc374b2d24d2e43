import { BatonError } from '../domain/errors.ts';
import { planWebhookPut, type WantedWebhook } from '../domain/webhooks/plan-put.ts';
import {
  changeWebhook,
  disableWebhook,
  findWebhookByKey,
  lockUndeclaredWebhooks,
  lockWebhooks,
  type WebhookRow,
} from '../store/around/webhooks.ts';
import { inTransaction, type Tx } from '../store/db/database.ts';
import { type Actor, auditAct } from './audit.ts';
import { createWebhookIn, webhookPath } from './change-webhook.ts';
import type { CommandPorts } from './ports.ts';

type Ports = Pick<CommandPorts, 'db' | 'newId'>;

/** `declaredBy`: the program that declares it, or `files`. Null: it is put by hand. */
export type PutWebhook = Readonly<{ actor: Actor; key: string }> & WantedWebhook;

/** What a put has done to the object of its key. */
export type Put<Row> = Readonly<{ row: Row; change: 'created' | 'changed' | 'none' }>;

/**
 * Creates or changes the webhook of a key, so that it has these fields. An equal one stays as it is, without an update or
 * an entry in the audit log. Nothing follows the commit. The caller has checked the URL and the name of the agent.
 *
 * Locks the tenant's list of webhooks, unless nothing changes: of any number of puts at once one creates it.
 * @throws BatonError `invalid_request` (a new one needs a secret); `conflict` (the tenant has as many as it may)
 */
export async function putWebhook(ports: Ports, put: PutWebhook): Promise<Put<WebhookRow>> {
  const present = await findWebhookByKey(ports.db, put.actor.tenantId, put.key);
  if (present !== null && planOf(present, put).kind === 'keep') return { row: present, change: 'none' };
  return inTransaction(ports.db, (tx) => putIn(tx, ports, put));
}

async function putIn(tx: Tx, ports: Ports, put: PutWebhook): Promise<Put<WebhookRow>> {
  const { actor, key } = put;
  await lockWebhooks(tx, actor.tenantId);
  const present = await findWebhookByKey(tx, actor.tenantId, key);
  if (present === null) {
    const { secret } = put;
    if (secret !== undefined) return { row: await createWebhookIn(tx, ports, { ...put, secret }), change: 'created' };
    const message = 'a new webhook needs a secret, which signs what is sent to it';
    throw new BatonError('invalid_request', message, { field: 'secret' });
  }
  const plan = planOf(present, put);
  if (plan.kind === 'keep') return { row: present, change: 'none' };
  const row = await changeWebhook(tx, actor.tenantId, present.id, plan.changes);
  await auditAct(tx, actor, 'webhook:update', webhookPath(present.id));
  return { row, change: 'changed' };
}

const planOf = ({ url, secret, events, agent_name: agent, ...row }: WebhookRow, wanted: WantedWebhook) =>
  planWebhookPut({ url, secret, events, agent, declaredBy: row.declared_by, disabledFor: row.disabled_for }, wanted);

export type DeclaredKeys = Readonly<{ actor: Actor; declaredBy: string; keys: readonly string[] }>;

/**
 * Disables the webhooks that a program, or the files, declared before and do not any more. They stay, with their
 * deliveries; declaring one again enables it. Nothing follows the commit.
 *
 * Locks each of them. The audit log has each.
 * @returns their ids
 */
export function disableUndeclaredWebhooks(
  { db }: Pick<CommandPorts, 'db'>,
  { actor, ...declared }: DeclaredKeys,
): Promise<readonly string[]> {
  return inTransaction(db, async (tx) => {
    const gone: string[] = [];
    for (const id of await lockUndeclaredWebhooks(tx, actor.tenantId, declared)) {
      if (!(await disableWebhook(tx, actor.tenantId, id, 'undeclared'))) continue;
      await auditAct(tx, actor, 'webhook:disable', webhookPath(id));
      gone.push(id);
    }
    return gone;
  });
}
