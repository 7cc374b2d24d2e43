import { sql } from 'kysely';
import { z } from 'zod';
import { contextStateSchema } from '../../domain/context/meter/state.ts';
import { errorRecordSchema } from '../../domain/errors.ts';
import type { NewEvent } from '../../domain/run/events.ts';
import { type JobPayload, jobPayloadSchema } from '../../domain/run/job.ts';
import { type OutputFormat, outputStateSchema } from '../../domain/run/output-format.ts';
import { LIMIT_REASONS, RUN_KINDS } from '../../domain/run/run.ts';
import type { ViewMessage } from '../../domain/transcript/message.ts';
import { ENGINE_VERSION } from '../../domain/tunables.ts';
import type { Db, Tx } from '../db/database.ts';
import { toWrittenJson } from '../db/json.ts';
import { readRestOfView, viewSchema } from '../transcript/views.ts';
import { modelMemorySchema } from './model-limits.ts';

/** The proof that a worker still owns its claim: every write checks it. It is valid until the epoch is raised. */
export type Fence = Readonly<{ runId: string; epoch: number; claimId: string }>;

/** The cached view of a worker: all messages before `next`, as of a version. A claim reads only newer ones. */
export type CachedView = Readonly<{
  version: number;
  /** The message after the cached ones. The step that began with this view opened it. */
  next: Readonly<{ messageId: string; seq: number }>;
  messages: readonly ViewMessage[];
}>;

/** The format was checked when it was accepted. */
const runFormatSchema = z
  .object({ format: z.custom<OutputFormat>((format) => typeof format === 'object'), state: outputStateSchema })
  .nullable();

const claimFactsSchema = z.object({
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
    /** A call of another session began its session. */
    isChild: z.boolean(),
    modelPosition: z.number().int(),
    maxSteps: z.number().int().nullable(),
    budget: z.object({
      maxTokens: z.number().nullable(),
      maxCostUsd: z.number().nullable(),
      usedTokens: z.number(),
      usedCostUsd: z.number().nullable(),
    }),
    /** The limit that the run has reached. If set, this step is its final answer. */
    finalAnswerFor: z.enum(LIMIT_REASONS).nullable(),
    /** Time until the deadline of the run or of its final answer. Null: there is none. */
    timeLeftMs: z.number().nullable(),
    output: runFormatSchema,
    resumeCount: z.number().int(),
    /** Time since the work was due. */
    waitedMs: z.number(),
    /** The span of the request that started the run. */
    traceparent: z.string().nullable(),
    /** The span of the previous job that worked on this step. */
    attemptTraceparent: z.string().nullable(),
  }),
});

export const claimedSchema = z.object({
  outcome: z.literal('claimed'),
  epoch: z.number().int(),
  cancelRequested: z.boolean(),
  /** The message of an earlier attempt at this step. The worker must recover it first. */
  interruptedMessageId: z.uuid().nullable(),
  /** Null: the step has not begun. It is interrupted or cancelled, or the run has reached a limit. */
  view: viewSchema.nullable(),
  /** `view` has only the messages after this number. 0: it has all. */
  viewAfterSeq: z.number().int(),
  /** Start of the next page of the view. Null: this is the last page. */
  viewNextAfter: z.number().int().nullable(),
  viewVersion: z.number().int(),
  /** The number of the opened message. Null: no message was opened. */
  messageSeq: z.number().int().nullable(),
  eventSeq: z.number().int(),
  facts: claimFactsSchema,
});
type Claimed = z.infer<typeof claimedSchema>;

const claimSchema = z.discriminatedUnion('outcome', [
  claimedSchema,
  /** The run has ended or requires an action. The job is acknowledged. `failure`: its step has failed the run. */
  z.object({ outcome: z.literal('gone'), failure: errorRecordSchema.nullish() }),
  /** The run has moved on since this job was added. The job is acknowledged. */
  z.object({ outcome: z.literal('stale') }),
  /** Another worker has claimed the run. The job is acknowledged, because the reconciler watches that worker. */
  z.object({ outcome: z.literal('held') }),
  z.object({ outcome: z.literal('early'), waitMs: z.number() }),
  /** The run requires a newer engine version. The job goes back to the queue. */
  z.object({ outcome: z.literal('engine') }),
  /** The worker lacks tools in code that the agent of the session has. The job goes back to the queue. */
  z.object({ outcome: z.literal('code'), missing: z.array(z.string()) }),
  /** The worker is in `dead_workers`, so the others would not watch its claims. The job goes back to the queue. */
  z.object({ outcome: z.literal('dead') }),
  /** The tenant has no free slot: the run is throttled. The job is acknowledged; the release adds a new one. */
  z.object({ outcome: z.literal('busy') }),
]);

export type Claim = ClaimedRun | Exclude<z.infer<typeof claimSchema>, { outcome: 'claimed' }>;
export type ClaimedRun = Omit<Claimed, 'view' | 'viewAfterSeq' | 'viewNextAfter' | 'facts'> &
  Claimed['facts'] &
  Readonly<{ view: readonly ViewMessage[] | null }>;

export type ClaimInput = Readonly<{
  job: JobPayload;
  /** Made by the caller. A claim repeated with the same id, after a lost reply, gives the same result. */
  claimId: string;
  workerId: string;
  leaseDurationMs: number;
  /** The slots of one tenant: claimed runs at a time. Default 0: no limit. */
  tenantConcurrency?: number;
  messageId: string;
  known?: CachedView | undefined;
  /** The tools in code that the worker has, by the names that sessions keep. Default: none. */
  code?: readonly string[];
}>;

/**
 * Claims a run and begins its pending work: a step drains the inbox, opens the message and reads the view; a compaction
 * or prune reads the view. One round trip, plus one for each further page of the view.
 */
export async function claimRun(db: Db, input: ClaimInput): Promise<Claim> {
  const { job, known } = input;
  const { rows } = await sql<{ claim: unknown }>`
    select baton_claim_run(${job.runId}, ${job.kind}, ${job.no}, ${job.dispatch}, ${input.claimId}, ${input.workerId},
      ${input.leaseDurationMs}, ${ENGINE_VERSION}, ${input.messageId}, ${input.tenantConcurrency ?? 0},
      ${known?.version ?? 0}, ${known === undefined ? 0 : known.next.seq - 1}, ${known?.next.messageId ?? null},
      ${input.code ?? []}::text[]) as claim`.execute(db);
  const claim = claimSchema.parse(rows[0]?.claim);
  return claim.outcome === 'claimed' ? toClaimedRun(db, claim, known) : claim;
}

/**
 * The claim with its whole view: the messages that the worker has cached, those of the reply, and the pages that the
 * reply left out.
 */
export async function toClaimedRun(db: Db, claim: Claimed, known: CachedView | undefined): Promise<ClaimedRun> {
  const { facts, view, viewAfterSeq, viewNextAfter, ...claimed } = claim;
  if (view === null) return { ...claimed, ...facts, view };
  const before = viewAfterSeq === 0 ? [] : (known?.messages ?? []);
  const rest = viewNextAfter === null ? [] : await readRestOfView(db, facts.session.id, viewNextAfter);
  return { ...claimed, ...facts, view: [...before, ...view, ...rest] };
}

/**
 * Records the span that works on the run, so that the next attempt can link to it. Writes nothing if the claim is lost.
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

/** `view` null: the step has not begun. */
type RestartedStep = Readonly<{ view: readonly ViewMessage[] | null; messageSeq: number | null; eventSeq: number }>;

/** A message whose response broke off, and the events that tell readers it is superseded. */
export type BrokenAnswer = Readonly<{ messageId: string; events: readonly NewEvent[] }>;

/**
 * Supersedes a broken response and begins the step again under the same claim. If a cancel was requested or the run has
 * reached a limit, there is no view and the broken message stays.
 * @returns null: the worker is fenced
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
      ${superseded && toWrittenJson(superseded)}::jsonb) as restarted`.execute(db);
  const begun = restartedSchema.nullable().parse(rows[0]?.restarted ?? null);
  if (begun === null) return null;
  const { sessionId, view, viewNextAfter, ...restarted } = begun;
  if (view === null) return { ...restarted, view };
  return { ...restarted, view: [...view, ...(await readRestOfView(db, sessionId, viewNextAfter))] };
}

export type Heartbeat = Readonly<{ runId: string; claimId: string; cancelRequested: boolean }>;

/**
 * Extends the leases of these claims, also expired ones if no worker has taken over; a claim missing from the result is
 * lost. Rows are locked in the order of their ids, so that two heartbeats cannot deadlock.
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
 * Hands a claimed run back at shutdown: its work is pending at once, and no attempt is counted.
 * @returns the job to enqueue; null if the claim was already lost
 */
export async function handBackRun(db: Db, fence: Fence): Promise<JobPayload | null> {
  return db.transaction().execute(async (tx) => {
    const { rows } = await sql<{ session: string | null }>`
      select session_id as session from baton_lock_claimed_run(${fence.runId}, ${fence.epoch}, ${fence.claimId})`.execute(
      tx,
    );
    const sessionId = rows[0]?.session ?? null;
    return sessionId === null ? null : requeueRun(tx, fence.runId);
  });
}

/** Takes the run from its worker and makes its work pending again. The caller holds the locks of session and run. */
export async function requeueRun(tx: Tx, runId: string): Promise<JobPayload | null> {
  const { rows } = await sql<{ job: unknown }>`select baton_requeue_run(${runId}, false) as job`.execute(tx);
  return jobPayloadSchema.nullable().parse(rows[0]?.job ?? null);
}

/**
 * `requeueRun` for runs that have lost their worker: `resume_count` grows.
 * @returns the jobs of those that have pending work
 */
export async function requeueLostRuns(tx: Tx, runIds: readonly string[]): Promise<JobPayload[]> {
  const { rows } = await sql<{ job: unknown }>`
    select baton_requeue_run(id, true) as job from unnest(${runIds}::uuid[]) as lost (id)`.execute(tx);
  return rows.flatMap(({ job }) => jobPayloadSchema.nullable().parse(job) ?? []);
}
