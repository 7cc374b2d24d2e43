import { sql } from 'kysely';
import { z } from 'zod';
import { contextStateSchema } from '../domain/context/meter/state.ts';
import type { NewEvent } from '../domain/run/events.ts';
import type { JobPayload } from '../domain/run/job.ts';
import { LIMIT_REASONS, RUN_KINDS } from '../domain/run/run.ts';
import type { ViewMessage } from '../domain/transcript/message.ts';
import { ENGINE_VERSION } from '../domain/tunables.ts';
import type { Db } from './database.ts';
import { toJson } from './json.ts';
import { modelMemorySchema } from './model-limits.ts';
import { readRestOfView, viewSchema } from './views.ts';

/** What a worker must show with every write: it holds the run as long as nobody raised the epoch. */
export type Fence = Readonly<{ runId: string; epoch: number; claimId: string }>;

/** A view that a claim need not bring once more: all of it that comes before a message, as of a version. */
export type KnownView = Readonly<{
  version: number;
  /** The message that comes next, which the step that began with this view has opened. */
  next: Readonly<{ messageId: string; seq: number }>;
  messages: readonly ViewMessage[];
}>;

const claimedSchema = z.object({
  outcome: z.literal('claimed'),
  epoch: z.number().int(),
  cancelRequested: z.boolean(),
  /** The message of an earlier attempt at this step: it must be settled before anything else. */
  interruptedMessageId: z.uuid().nullable(),
  /** Null when there are leftovers or a cancel was requested: nothing has begun. */
  view: viewSchema.nullable(),
  /** The view was read from here on; 0: all of it. */
  viewAfterSeq: z.number().int(),
  /** Where the next page of the view begins; null: there is none. */
  viewNextAfter: z.number().int().nullable(),
  viewVersion: z.number().int(),
  /** The number of the message that the step has opened; null where none was opened. */
  messageSeq: z.number().int().nullable(),
  /** The session's last event after the claim. */
  eventSeq: z.number().int(),
  modelMemory: modelMemorySchema,
  session: z.object({
    id: z.uuid(),
    tenantId: z.string(),
    agentName: z.string(),
    agentSnapshot: z.record(z.string(), z.unknown()),
    contextState: contextStateSchema,
  }),
  run: z.object({
    id: z.uuid(),
    kind: z.enum(RUN_KINDS),
    attempt: z.number().int(),
    stepCount: z.number().int(),
    maxSteps: z.number().int().nullable(),
    budget: z.object({
      maxTokens: z.number().nullable(),
      maxCostUsd: z.number().nullable(),
      usedTokens: z.number(),
      usedCostUsd: z.number().nullable(),
    }),
    /** The limit that the run has reached: its step is its final answer. */
    finalAnswerFor: z.enum(LIMIT_REASONS).nullable(),
    /** Until the run's deadline, or that of its final answer; null where it has none. */
    timeLeftMs: z.number().nullable(),
    resumeCount: z.number().int(),
    /** Since the work was due. */
    waitedMs: z.number(),
    /** The request that the run answers. */
    traceparent: z.string().nullable(),
    /** The job that worked on this step before. */
    attemptTraceparent: z.string().nullable(),
  }),
});

const claimSchema = z.discriminatedUnion('outcome', [
  claimedSchema,
  /** The run ended or waits for somebody: the job is acknowledged. */
  z.object({ outcome: z.literal('gone') }),
  /** The run has moved on since this job was made: acknowledged. */
  z.object({ outcome: z.literal('stale') }),
  /** Another worker has it: acknowledged, the reconciler watches that worker. */
  z.object({ outcome: z.literal('held') }),
  z.object({ outcome: z.literal('early'), waitMs: z.number() }),
  /** The run needs a newer worker: the job goes back. */
  z.object({ outcome: z.literal('engine') }),
  /** The worker was taken for dead, or has ended: nobody would watch over its run. The job goes back. */
  z.object({ outcome: z.literal('dead') }),
  /** Its tenant has as many runs at work as it may: acknowledged, the end of another one brings a new job. */
  z.object({ outcome: z.literal('busy') }),
]);

export type Claim = ClaimedRun | Exclude<z.infer<typeof claimSchema>, { outcome: 'claimed' }>;
export type ClaimedRun = Omit<z.infer<typeof claimedSchema>, 'view' | 'viewAfterSeq' | 'viewNextAfter'> &
  Readonly<{ view: readonly ViewMessage[] | null }>;

export type ClaimInput = Readonly<{
  job: JobPayload;
  /** Made by the caller: claiming again with the same one (after a lost reply) gives the same answer. */
  claimId: string;
  workerId: string;
  leaseDurationMs: number;
  /** Runs of one tenant that may be claimed at the same time; 0, the default: any number. */
  tenantConcurrency?: number;
  /** The id for the assistant's message of this attempt. */
  messageId: string;
  /** What the caller still has of the session's view. */
  known?: KnownView | undefined;
}>;

/**
 * Claims a run for its pending work and begins it. A step: inbox drained, message opened, view read; a compaction or a
 * prune: view read. One round trip, and one more for each page of the view after the first.
 */
export async function claimRun(db: Db, input: ClaimInput): Promise<Claim> {
  const { job, known } = input;
  const { rows } = await sql<{ claim: unknown }>`
    select baton_claim_run(${job.runId}, ${job.kind}, ${job.no}, ${job.dispatch}, ${input.claimId}, ${input.workerId},
      ${input.leaseDurationMs}, ${ENGINE_VERSION}, ${input.messageId}, ${input.tenantConcurrency ?? 0},
      ${known?.version ?? 0}, ${known === undefined ? 0 : known.next.seq - 1}, ${known?.next.messageId ?? null}) as claim`.execute(
    db,
  );
  const claim = claimSchema.parse(rows[0]?.claim);
  if (claim.outcome !== 'claimed') return claim;
  const { viewAfterSeq, viewNextAfter, ...claimed } = claim;
  if (claim.view === null) return claimed;
  const before = viewAfterSeq === 0 ? [] : (known?.messages ?? []);
  return {
    ...claimed,
    view: [...before, ...claim.view, ...(await readRestOfView(db, claim.session.id, viewNextAfter))],
  };
}

/**
 * Notes which span works on the claimed run, for the next attempt to link to. Nothing is noted when the run is lost.
 */
export async function noteAttempt(db: Db, fence: Fence, traceparent: string): Promise<void> {
  await sql`
    update runs set attempt_traceparent = ${traceparent}
    where id = ${fence.runId} and epoch = ${fence.epoch} and claim_id = ${fence.claimId}`.execute(db);
}

const restartedSchema = z.object({
  sessionId: z.uuid(),
  view: viewSchema.nullable(),
  viewNextAfter: z.number().int().nullable(),
  messageSeq: z.number().int().nullable(),
  eventSeq: z.number().int(),
});

/** `view`: null where nothing has begun. */
type RestartedStep = Readonly<{ view: readonly ViewMessage[] | null; messageSeq: number | null; eventSeq: number }>;

/** A message whose answer broke off, and what readers are told when it is superseded. */
export type BrokenAnswer = Readonly<{ messageId: string; events: readonly NewEvent[] }>;

/**
 * Begins the step anew under the same claim, in place of an answer that broke off. Where a cancel came or the run is
 * used up (no view), nothing begins and that answer stays as it is. Null: fenced.
 */
export async function restartStep(
  db: Db,
  fence: Fence,
  messageId: string,
  broken: BrokenAnswer | null,
): Promise<RestartedStep | null> {
  const superseded = broken && {
    response: { messageId: broken.messageId, parts: [], superseded: true },
    events: broken.events,
  };
  const { rows } = await sql<{ restarted: unknown }>`
    select baton_restart_step(${fence.runId}, ${fence.epoch}, ${fence.claimId}, ${messageId},
      ${superseded && toJson(superseded)}::jsonb) as restarted`.execute(db);
  const begun = restartedSchema.nullable().parse(rows[0]?.restarted ?? null);
  if (begun === null) return null;
  const { sessionId, view, viewNextAfter, ...restarted } = begun;
  if (view === null) return { ...restarted, view };
  return { ...restarted, view: [...view, ...(await readRestOfView(db, sessionId, viewNextAfter))] };
}

export type Heartbeat = Readonly<{ runId: string; claimId: string; cancelRequested: boolean }>;

/**
 * Extends the leases of the claims in hand, also of one that has expired but that nobody took over. A claim
 * that is missing from the answer is lost. The rows are locked in the order of their ids, so that no two
 * heartbeats meet crosswise.
 */
export async function renewLeases(
  db: Db,
  claims: readonly Readonly<{ runId: string; claimId: string }>[],
  leaseDurationMs: number,
): Promise<Heartbeat[]> {
  const { rows } = await sql<Heartbeat>`
    with held as materialized (
      select runs.id from runs
      join unnest(${claims.map((claim) => claim.runId)}::uuid[], ${claims.map((claim) => claim.claimId)}::uuid[])
        as claimed (run_id, claim_id) on runs.id = claimed.run_id and runs.claim_id = claimed.claim_id
      order by runs.id for no key update of runs
    )
    update runs set lease_expires_at = clock_timestamp() + make_interval(secs => ${leaseDurationMs / 1000})
    from held where runs.id = held.id
    returning runs.id as "runId", runs.claim_id as "claimId", cancel_requested_at is not null as "cancelRequested"`.execute(
    db,
  );
  return rows;
}

/**
 * Gives a claimed run back as pending work, for the next worker to take at once: on shutdown. No attempt is burned.
 * @returns the job to enqueue, or null when the run was lost before
 */
export async function handBackRun(db: Db, fence: Fence): Promise<JobPayload | null> {
  return db.transaction().execute(async (tx) => {
    const { rows } = await sql<{ session: string | null }>`
      select session_id as session from baton_lock_claimed_run(${fence.runId}, ${fence.epoch}, ${fence.claimId})`.execute(
      tx,
    );
    const sessionId = rows[0]?.session ?? null;
    return sessionId === null ? null : requeueRun(tx, sessionId, fence.runId);
  });
}

/**
 * Takes the run from whoever had it and makes it pending again. The caller holds both locks.
 * @param isRecovery the run has cost a worker: one more recovery of its step
 */
export async function requeueRun(
  tx: Db,
  sessionId: string,
  runId: string,
  isRecovery = false,
): Promise<JobPayload | null> {
  const { rows } = await sql<JobPayload>`
    with raised as (update sessions set epoch = epoch + 1 where id = ${sessionId} returning epoch)
    update runs set
      status = case when status = 'running' then 'queued' else status end,
      epoch = raised.epoch,
      claim_id = null,
      lease_owner = null,
      lease_expires_at = null,
      pending_dispatch = pending_dispatch + 1,
      pending_at = clock_timestamp(),
      next_check_at = null,
      resume_count = resume_count + ${isRecovery ? 1 : 0}
    from raised
    where id = ${runId} and pending_kind is not null
    returning id as "runId", pending_kind as kind, pending_no as no, pending_dispatch as dispatch`.execute(tx);
  return rows[0] ?? null;
}
