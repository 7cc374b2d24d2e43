import { sql } from 'kysely';
import { z } from 'zod';
import { JOB_KINDS, type JobKind } from '../../domain/run/job.ts';
import { PENDING_KINDS, RUN_STATUSES } from '../../domain/run/run.ts';
import type { Db } from '../db/database.ts';
import { lockFree } from '../work/workers.ts';

/** Workers and claims that a list shows. */
const MOST_WORKERS = 1_000;
const MOST_CLAIMS = 10_000;

const workerSchema = z.object({
  id: z.string(),
  kinds: z.array(z.enum(JOB_KINDS)),
  engine: z.int(),
  isAlive: z.boolean(),
  since: z.date(),
  seenAt: z.date(),
});

const claimSchema = z.object({
  workerId: z.string(),
  runId: z.string(),
  sessionId: z.string(),
  tenant: z.string(),
  kind: z.enum(PENDING_KINDS).nullable(),
  step: z.int(),
  status: z.enum(RUN_STATUSES),
  leaseExpiresAt: z.date().nullable(),
});
export type ClaimInHand = z.infer<typeof claimSchema>;

const dueSchema = z.object({ kind: z.enum(JOB_KINDS), count: z.int(), oldestAt: z.date() });

export type Fleet = Readonly<{
  workers: readonly (z.infer<typeof workerSchema> & Readonly<{ inHand: readonly ClaimInHand[] }>)[];
  /** Work that is due and that no worker has claimed. A kind without any is missing. */
  due: readonly z.infer<typeof dueSchema>[];
}>;

/** The workers of all processes with their claims, of all tenants; `isAlive`: it holds its advisory lock. */
export async function readFleet(db: Db): Promise<Fleet> {
  const [workers, claims, due] = await Promise.all([readWorkers(db), readClaims(db), readDue(db)]);
  const byWorker = Map.groupBy(claims, ({ workerId }) => workerId);
  return { workers: workers.map((worker) => ({ ...worker, inHand: byWorker.get(worker.id) ?? [] })), due };
}

async function readWorkers(db: Db) {
  const { rows } = await sql`
    select id, kinds, engine, not ${lockFree} as "isAlive", locked_at as since, seen_at as "seenAt"
    from (select * from workers order by id limit ${MOST_WORKERS}) as workers`.execute(db);
  return z.array(workerSchema).parse(rows);
}

async function readClaims(db: Db): Promise<ClaimInHand[]> {
  const { rows } = await sql`
    select lease_owner as "workerId", id as "runId", session_id as "sessionId", tenant_id as tenant, pending_kind as kind,
      pending_no as step, status, lease_expires_at as "leaseExpiresAt"
    from runs where is_claimed and status in ('running', 'cancelling') and lease_owner is not null
    order by lease_expires_at limit ${MOST_CLAIMS}`.execute(db);
  return z.array(claimSchema).parse(rows);
}

async function readDue(db: Db) {
  const { rows } = await sql`
    select pending_kind as kind, count(*) as count, min(pending_at) as "oldestAt" from runs
    where due_at is not null and pending_at <= clock_timestamp()
    group by pending_kind
    union all
    select 'delivery', count(*), min(due_at) from webhook_deliveries
    where state = 'waiting' and due_at <= clock_timestamp() having count(*) > 0`.execute(db);
  return z.array(dueSchema).parse(rows);
}

export type WorkersByKind = Readonly<Record<JobKind, number>>;

/** Living workers by the kind of job that they take. */
export async function countWorkersByKind(db: Db): Promise<WorkersByKind> {
  const { rows } = await sql<{ kind: JobKind; count: number }>`
    with alive as materialized (select kinds from workers where not ${lockFree})
    select kind, count(*) as count from alive, unnest(kinds) as kind group by kind`.execute(db);
  const counts = new Map(rows.map(({ kind, count }) => [kind, count]));
  return Object.fromEntries(JOB_KINDS.map((kind) => [kind, counts.get(kind) ?? 0])) as Record<JobKind, number>;
}
