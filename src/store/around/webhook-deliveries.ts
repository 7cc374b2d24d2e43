import { type Selectable, sql } from 'kysely';
import { z } from 'zod';
import { BatonError } from '../../domain/errors.ts';
import { formatId } from '../../domain/ids.ts';
import { toText } from '../../domain/storable-json.ts';
import {
  DELIVERIES_PER_ENDPOINT,
  DELIVERIES_TO_SILENT_ENDPOINTS,
  DELIVERY_ENDPOINTS_PER_LOOK,
  DELIVERY_LOST_AFTER_MS,
  DELIVERY_UNCLAIMED_AFTER_MS,
  MAX_KEPT_DELIVERIES,
} from '../../domain/tunables.ts';
import type { AfterAttempt } from '../../domain/webhooks/after-attempt.ts';
import type { DeliveryJob } from '../../domain/webhooks/delivery-job.ts';
import type { DeliveryState } from '../../domain/webhooks/webhook.ts';
import { type Db, inTransaction, type Tx } from '../db/database.ts';
import type { Tables } from '../db/tables.ts';
import { appendAudit } from './audit.ts';
import { disableWebhook } from './webhooks.ts';

export type DeliveryRow = Omit<Selectable<Tables['webhook_deliveries']>, 'body' | 'secret'>;

/** All but the body and the secret of a message's webhook. */
const SHOWN = [
  'id',
  'tenant_id',
  'webhook_id',
  'url',
  'endpoint',
  'session_id',
  'run_id',
  'type',
  'state',
  'attempts',
  'dispatch',
  'claim_id',
  'claimed_by',
  'due_at',
  'last_status',
  'last_error',
  'took_ms',
  'created_at',
  'finished_at',
] as const;

/**
 * Marks deliveries that are due, or were lost, as given to the queue, at most as many as workers can send at once.
 * None: another process does it now.
 * @param slots deliveries that one worker sends at the same time
 */
export async function dispatchDeliveries(db: Db, slots: number): Promise<DeliveryJob[]> {
  const { rows } = await sql<DeliveryJob>`
    select delivery_id as "deliveryId", dispatch_no as dispatch
    from baton_dispatch_deliveries(${slots}, ${DELIVERIES_PER_ENDPOINT}, ${DELIVERIES_TO_SILENT_ENDPOINTS},
      ${DELIVERY_ENDPOINTS_PER_LOOK}, ${DELIVERY_UNCLAIMED_AFTER_MS})`.execute(db);
  return rows;
}

const claimedSchema = z.object({
  id: z.string(),
  tenantId: z.string(),
  webhookId: z.string().nullable(),
  claimId: z.string(),
  url: z.string(),
  secret: z.string(),
  body: z.instanceof(Buffer),
  /** Of this attempt, from 1. */
  attemptNo: z.number(),
  failingForMs: z.number(),
});
export type ClaimedDelivery = Readonly<z.infer<typeof claimedSchema>>;

/** Takes a delivery in hand and counts the attempt. Null: another worker has it, or it was dispatched again or ended. */
export async function claimDelivery(
  db: Db,
  { deliveryId, dispatch }: DeliveryJob,
  workerId: string,
): Promise<ClaimedDelivery | null> {
  const { rows } = await sql`
    with claimed as (
      update webhook_deliveries set claim_id = gen_random_uuid(), claimed_by = ${workerId}, attempts = attempts + 1,
        due_at = clock_timestamp() + make_interval(secs => ${DELIVERY_LOST_AFTER_MS / 1000})
      where id = ${deliveryId} and dispatch = ${dispatch} and state = 'sending' and claim_id is null
      returning *
    )
    select claimed.id, claimed.tenant_id as "tenantId", claimed.webhook_id as "webhookId", claim_id as "claimId",
      coalesce(claimed.url, webhooks.url) as url, coalesce(claimed.secret, webhooks.secret) as secret, body,
      attempts as "attemptNo",
      coalesce(extract(epoch from clock_timestamp() - failing_since) * 1000, 0)::float8 as "failingForMs"
    from claimed left join webhooks on webhooks.id = claimed.webhook_id`.execute(db);
  return rows[0] === undefined ? null : claimedSchema.parse(rows[0]);
}

/** `status` null: there was no response, and `error` says why. `isSilent`: none came in time. */
export type AttemptResult = Readonly<{
  status: number | null;
  error: string | null;
  isSilent: boolean;
  tookMs: number;
}>;

/**
 * Writes the outcome of an attempt, and what follows it. False: the worker has lost the delivery and nothing is
 * written. A webhook that is disabled is audited, without a caller.
 */
export async function endAttempt(
  db: Db,
  delivery: ClaimedDelivery,
  result: AttemptResult,
  next: AfterAttempt,
): Promise<boolean> {
  const { id, claimId, tenantId, webhookId } = delivery;
  return inTransaction(db, async (tx) => {
    const isOver = next.kind !== 'retry';
    const state: DeliveryState = next.kind === 'delivered' ? 'delivered' : isOver ? 'failed' : 'waiting';
    const pauseMs = next.kind === 'retry' ? next.delayMs : 0;
    const ended = await tx
      .updateTable('webhook_deliveries')
      .set({
        state,
        claim_id: null,
        claimed_by: null,
        due_at: sql`clock_timestamp() + make_interval(secs => ${pauseMs / 1000})`,
        last_status: result.status,
        last_error: result.error === null ? null : toText(result.error.slice(0, MAX_ERROR_CHARS)),
        took_ms: Math.round(result.tookMs),
        finished_at: isOver ? sql`clock_timestamp()` : null,
      })
      .where('id', '=', id)
      .where('claim_id', '=', claimId)
      .returning('endpoint')
      .executeTakeFirst();
    if (ended === undefined) return false;
    await noteSilence(tx, tenantId, ended.endpoint, result.isSilent);
    if (webhookId !== null) await noteHealth(tx, webhookId, next.kind === 'delivered');
    if (next.kind === 'disable' && webhookId !== null && (await disableWebhook(tx, tenantId, webhookId, next.reason))) {
      const target = `/v1/webhooks/${formatId('webhook', webhookId)}`;
      await appendAudit(tx, { tenantId, keyId: null, action: 'webhook:disable', target });
    }
    if (isOver) await dropOldest(tx, ended.endpoint);
    return true;
  });
}

const MAX_ERROR_CHARS = 500;

/** A webhook that works is not written to. */
async function noteHealth(tx: Tx, webhookId: string, isWell: boolean): Promise<void> {
  await tx
    .updateTable('webhooks')
    .set({ failing_since: isWell ? null : sql`clock_timestamp()` })
    .where('id', '=', webhookId)
    .where('failing_since', isWell ? 'is not' : 'is', null)
    .execute();
}

/** Of an endpoint that nobody sends to any more, the row goes after a day with those of others. */
async function noteSilence(tx: Tx, tenantId: string, endpoint: string, isSilent: boolean): Promise<void> {
  if (!isSilent) {
    await sql`delete from silent_endpoints where endpoint = ${endpoint}`.execute(tx);
    return;
  }
  await sql`
    insert into silent_endpoints (endpoint, tenant_id) values (${endpoint}, ${tenantId})
    on conflict (endpoint) do update set silent_at = excluded.silent_at`.execute(tx);
  await sql`
    delete from silent_endpoints where endpoint in (
      select endpoint from silent_endpoints where silent_at < clock_timestamp() - interval '1 day'
      order by silent_at limit 10 for update skip locked)`.execute(tx);
}

async function dropOldest(tx: Tx, endpoint: string): Promise<void> {
  await sql`
    delete from webhook_deliveries where id in (
      select id from webhook_deliveries where endpoint = ${endpoint} and state in ('delivered', 'failed')
      order by created_at desc, id desc offset ${MAX_KEPT_DELIVERIES} limit 10)`.execute(tx);
}

/**
 * Gives a delivery back, to be sent again at once: the worker ends.
 * @param wasSent the receiver may have the request, so the attempt stays counted
 */
export async function handBackDelivery(
  db: Db,
  { id, claimId }: ClaimedDelivery,
  { wasSent }: Readonly<{ wasSent: boolean }>,
): Promise<void> {
  await db
    .updateTable('webhook_deliveries')
    .set((eb) => ({
      state: 'waiting' as const,
      claim_id: null,
      claimed_by: null,
      attempts: eb('attempts', '-', wasSent ? 0 : 1),
      due_at: sql<Date>`clock_timestamp()`,
    }))
    .where('id', '=', id)
    .where('claim_id', '=', claimId)
    .execute();
}

export type DeliveryFilter = Readonly<{
  tenantId: string;
  limit: number;
  webhookId?: string | undefined;
  runId?: string | undefined;
  state?: DeliveryState | undefined;
  after?: Readonly<{ createdAt: string; id: string }> | undefined;
}>;

/** Newest first. */
export async function listDeliveries(db: Db, filter: DeliveryFilter): Promise<DeliveryRow[]> {
  const { tenantId, limit, webhookId, runId, state, after } = filter;
  let query = db.selectFrom('webhook_deliveries').select(SHOWN).where('tenant_id', '=', tenantId);
  if (webhookId !== undefined) query = query.where('webhook_id', '=', webhookId);
  if (runId !== undefined) query = query.where('run_id', '=', runId);
  if (state !== undefined) query = query.where('state', '=', state);
  if (after !== undefined) {
    query = query.where(sql<boolean>`(created_at, id) < (${after.createdAt}::timestamptz, ${after.id}::uuid)`);
  }
  return query.orderBy('created_at', 'desc').orderBy('id', 'desc').limit(limit).execute();
}

/** @throws BatonError `not_found` */
export async function findDelivery(
  db: Db | Tx,
  tenantId: string,
  id: string,
): Promise<DeliveryRow & Readonly<{ body: Buffer }>> {
  const row = await db
    .selectFrom('webhook_deliveries')
    .select([...SHOWN, 'body'])
    .where('tenant_id', '=', tenantId)
    .where('id', '=', id)
    .executeTakeFirst();
  return row ?? refuseUnknown(id);
}

/**
 * Sends a delivery again, with the same id and body: one that waits at once, one that has ended with all its attempts.
 * @throws BatonError `not_found`; `conflict` (it is sent now, or its webhook is disabled)
 */
export async function redeliver(tx: Tx, tenantId: string, id: string): Promise<DeliveryRow> {
  const { rows } = await sql<{ isOpen: boolean }>`
    select coalesce(webhooks.disabled_for is null, true) as "isOpen"
    from webhook_deliveries left join webhooks on webhooks.id = webhook_id
    where webhook_deliveries.id = ${id} and webhook_deliveries.tenant_id = ${tenantId}
    for no key update of webhook_deliveries`.execute(tx);
  const [found] = rows;
  if (found === undefined) return refuseUnknown(id);
  if (!found.isOpen) throw new BatonError('conflict', 'the webhook is disabled: enable it first');
  const again = await tx
    .updateTable('webhook_deliveries')
    .set({
      state: 'waiting',
      attempts: sql`case when state = 'waiting' then attempts else 0 end`,
      due_at: sql`clock_timestamp()`,
      finished_at: null,
    })
    .where('id', '=', id)
    .where('state', '!=', 'sending')
    .returning(SHOWN)
    .executeTakeFirst();
  if (again !== undefined) return again;
  throw new BatonError('conflict', `delivery ${formatId('delivery', id)} is being sent now`);
}

function refuseUnknown(id: string): never {
  throw new BatonError('not_found', `delivery ${formatId('delivery', id)} does not exist`);
}
