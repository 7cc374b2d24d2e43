import { type Agent, agentSchema, atModel } from '../agents/agent.ts';
import { afterEvent, afterFailed, afterGivenUp } from '../commands/after-commit.ts';
import { BatonError, toErrorRecord } from '../domain/errors.ts';
import { NO_BUDGET } from '../domain/run/budget.ts';
import type { JobPayload } from '../domain/run/job.ts';
import { DEFAULT_MAX_STEPS, DEFAULT_TOOL_CONCURRENCY } from '../domain/tunables.ts';
import { failureFields } from '../platform/log.ts';
import { failActiveSpan } from '../platform/tracing.ts';
import type { JobOutcome } from '../queues/job-queue.ts';
import { historyOf } from '../store/db/history.ts';
import { forTenant } from '../store/db/lend-in-turns.ts';
import { isStoreUnavailable } from '../store/db/store-unavailable.ts';
import { countClaimTimeout, isStatementTimeout } from '../store/work/claim-timeouts.ts';
import { type Claim, type ClaimedRun, type ClaimInput, claimRun } from '../store/work/claims.ts';
import { failClaimedRun } from '../store/work/run-failure.ts';
import type { HeldClaim } from './claim-keeper.ts';
import { handBack } from './hand-back.ts';
import type { JobDeps } from './job-deps.ts';
import { type JobScope, logFields, type NextClaim } from './job-scope.ts';
import { inJobSpan } from './job-span.ts';
import { codeMissingIn } from './missing-code.ts';
import { releaseNext } from './release-throttled.ts';
import { retryWhileStoreUnavailable, whileEnding } from './retry-while-store-unavailable.ts';
import type { ViewCache } from './view-cache.ts';

/** Delay of a job that requires a newer engine version. The next worker may be too old as well. */
const ENGINE_RETRY_MS = 1_000;

/** Delay of a job whose agent has tools in code that this worker lacks. The next worker may have them. */
const CODE_RETRY_MS = 1_000;

/** Delay of a job whose worker was retired. The worker registers again as soon as it notices. */
const DEAD_RETRY_MS = 1_000;

/** The work of a job with its claim. `messageId` is the id for its message. */
export type ClaimedWork = (scope: JobScope, claim: ClaimedRun, messageId: string) => Promise<void>;

/**
 * Claims the run of a job, works on it and releases the claim; a shutdown hands the run back. A typed error ends the
 * run as failed.
 * @throws errors of the database that outlast the process: the run stays claimed until it is recovered
 */
export async function runClaimed(
  deps: JobDeps,
  job: JobPayload,
  jobSignal: AbortSignal,
  work: ClaimedWork,
): Promise<JobOutcome> {
  const messageId = deps.newId();
  using held = deps.claims.hold(job.runId, deps.newId());
  // The process is ending, or the queue has given the job to another worker.
  if (held.stopped() !== null || jobSignal.aborted) return { outcome: 'later', delayMs: 0 };
  const askedAtMs = performance.now();
  const claim = await retryWhileStoreUnavailable(held, () =>
    claimOrGiveUp(deps, {
      ...claimSettings(deps),
      job,
      claimId: held.claimId,
      messageId,
      known: deps.views.of(job.runId),
    }),
  );
  if (claim.outcome !== 'claimed') return withoutClaim(deps, job, claim);
  const claimMs = Math.round(performance.now() - askedAtMs);
  // Awaited here, because returning disposes `held`, and with it heartbeats and cancels.
  return await workOnGranted(deps, job, { claim, held, claimMs }, { messageId, work });
}

type Granted = Readonly<{ claim: ClaimedRun; held: HeldClaim; claimMs: number }>;

async function workOnGranted(
  deps: JobDeps,
  job: JobPayload,
  granted: Granted,
  { messageId, work }: Readonly<{ messageId: string; work: ClaimedWork }>,
): Promise<JobOutcome> {
  const { claim, held } = granted;
  held.granted();
  using _atWork = deps.atWork?.begin(job.runId, job.kind, claim.session.tenantId);
  rememberView(deps.views, claim, messageId);
  return await forTenant(claim.session.tenantId, () =>
    inJobSpan(deps, { job, claimId: held.claimId }, claim, () => workOn(deps, job, granted, { messageId, work })),
  );
}

/** The claim for the step after this one, if this worker may go on with it. */
function nextClaimOf(deps: JobDeps, job: JobPayload, current: HeldClaim, work: ClaimedWork): NextClaim | null {
  const { carried } = deps;
  if (carried?.mayCarryOn(job) !== true) return null;
  const held = current.followedBy(deps.newId());
  const messageId = deps.newId();
  const cachedView = deps.views.of(job.runId);
  let isUsed = false;
  return {
    carryOn: { ...claimSettings(deps), claimId: held.claimId, messageId, known: cachedView },
    async find(no) {
      const next: JobPayload = { runId: job.runId, kind: 'step', no, dispatch: job.dispatch + 1 };
      const { claimId } = held;
      const claim = await claimRun(deps.db, {
        ...claimSettings(deps),
        job: next,
        claimId,
        messageId,
        known: cachedView,
      });
      return claim.outcome === 'claimed' ? { job: next, claim } : null;
    },
    goOn(next, claim) {
      isUsed = true;
      carried.carryOn(job, next, async () => {
        using own = held;
        return await workOnGranted(deps, next, { claim, held: own, claimMs: 0 }, { messageId, work });
      });
    },
    [Symbol.dispose]() {
      if (!isUsed) held[Symbol.dispose]();
    },
  };
}

const claimSettings = ({ workerId, claims, tenantConcurrency = 0, code = [] }: JobDeps) => ({
  code,
  workerId,
  leaseDurationMs: claims.leaseDurationMs,
  tenantConcurrency,
});

/** A claim that Postgres times out would time out forever, so each one counts towards a limit that fails the run. */
async function claimOrGiveUp(deps: JobDeps, input: ClaimInput): Promise<Claim> {
  try {
    return await claimRun(deps.db, input);
  } catch (error) {
    const { runId } = input.job;
    const failed = isStatementTimeout(error) ? await countClaimTimeout(deps.db, runId, error) : null;
    if (failed === null) throw error;
    await afterGivenUp(deps, { ...failed, runId });
    return { outcome: 'gone' };
  }
}

/**
 * These messages stay unchanged. The next claim reads only newer ones. A view from before a claim without one is
 * forgotten: Postgres may have lost it.
 */
function rememberView(views: ViewCache, claim: ClaimedRun, messageId: string): void {
  const { view, viewVersion: version, messageSeq: seq, run, session } = claim;
  if (view === null || seq === null) views.forget(run.id);
  else views.keep(run.id, session.id, { version, next: { messageId, seq }, messages: view });
}

async function workOn(
  deps: JobDeps,
  job: JobPayload,
  { claim, held, claimMs }: Granted,
  { messageId, work }: Readonly<{ messageId: string; work: ClaimedWork }>,
): Promise<JobOutcome> {
  const agent = agentSchema.safeParse(claim.session.agentSnapshot);
  const nextClaim = () => (held.stopped() === null ? nextClaimOf(deps, job, held, work) : null);
  const scope = {
    ...toScope(job, claim, held, atModel(agent.data ?? UNREADABLE_AGENT, claim.run.modelPosition)),
    claimMs,
    nextClaim,
  };
  const { resumeCount, waitedMs } = claim.run;
  const leftovers = claim.interruptedMessageId !== null;
  deps.log('debug', { event: 'job_claimed', kind: job.kind, ...logFields(scope), leftovers, resumeCount, waitedMs });
  afterEvent(deps, scope.sessionId, claim);
  try {
    if (scope.agent === UNREADABLE_AGENT) {
      throw new BatonError('config_invalid', `the snapshot of agent ${claim.session.agentName} cannot be read`);
    }
    // A session may have got another agent since this worker took its run.
    if (codeMissingIn(scope.agent.tools, deps.code ?? []).length > 0) {
      await handBackPatiently(deps, scope);
      return { outcome: 'done' };
    }
    if (claim.cancelRequested) held.stop('cancelled');
    using _deadline = stopAtDeadline(scope);
    await work(scope, claim, messageId);
  } catch (error) {
    await fail(deps, scope, error);
  }
  if (held.stopped() === 'shutdown') await whileEnding((isRepeated) => handBack(deps, scope, isRepeated));
  if ((deps.tenantConcurrency ?? 0) > 0) await releaseNext(deps, claim.session.tenantId);
  const { failure: error, report, next } = scope.ended;
  if (error !== null) return { outcome: 'run-failed', error };
  return { outcome: 'done', ...(report !== null && { report }), ...(next !== null && { next }) };
}

/** Stops the run at its deadline like a cancel. The end of the run names the deadline. */
function stopAtDeadline({ deadlineAtMs, held }: JobScope): Disposable {
  const leftMs = deadlineAtMs - performance.now();
  if (leftMs <= 0) held.stop('cancelled');
  if (leftMs <= 0 || leftMs > MAX_TIMER_MS) return { [Symbol.dispose]: () => undefined };
  // Timers drop fractions, and must not fire before the deadline.
  const timer = setTimeout(() => held.stop('cancelled'), Math.ceil(leftMs) + 1);
  return { [Symbol.dispose]: () => clearTimeout(timer) };
}

/** The limit of timers, far above any step. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** Stands in for a snapshot that this version cannot read, so that the run can fail properly. */
const UNREADABLE_AGENT: Agent = agentSchema.parse({ name: 'unreadable', model: 'unreadable/agent' });

/** A typed error fails the run. An outage of the database, or its return to an older state, hands it back. */
async function fail(deps: JobDeps, scope: JobScope, error: unknown): Promise<void> {
  if (error instanceof BatonError && error.code === 'fenced') {
    deps.views.forget(scope.runId);
    if (scope.held.stopped() !== 'shutdown') deps.log('warn', { event: 'step_fenced', ...logFields(scope) });
    return;
  }
  if (isStoreUnavailable(error)) return handBackAfterOutage(deps, scope, error);
  if (!(error instanceof BatonError)) throw error;
  // Writes of this claim may be gone, and those that build on them are refused. The next claim reads what is there.
  const epoch = await retryWhileStoreUnavailable(scope.held, () => historyOf(deps.db).readEpoch());
  if (epoch !== scope.held.historyEpoch) {
    deps.log('warn', { event: 'step_failed', retryInMs: 0, ...logFields(scope), ...failureFields(error) });
    return handBackPatiently(deps, scope);
  }
  const record = toErrorRecord(error);
  failActiveSpan(error);
  deps.log('error', { event: 'step_failed', ...logFields(scope), ...failureFields(error) });
  scope.held.lettingGo();
  const failed = await retryWhileStoreUnavailable(scope.held, () => failClaimedRun(deps.db, scope.fence, record));
  if (failed === null) return;
  if (failed.limit === null) scope.ended.failure = record;
  deps.views.forget(scope.runId);
  const { runId, sessionId } = scope;
  await afterFailed(deps, { ...failed, runId, sessionId, agent: scope.agent.name }, record.code);
}

/** Hands the run back if Postgres was away during work that cannot be retried in place. No attempt is counted. */
async function handBackAfterOutage(deps: JobDeps, scope: JobScope, error: unknown): Promise<void> {
  if (scope.held.stopped() === 'shutdown') return;
  if (scope.held.stopped() === 'lost') throw error;
  await handBackPatiently(deps, scope);
}

const handBackPatiently = (deps: JobDeps, scope: JobScope): Promise<void> =>
  retryWhileStoreUnavailable(scope.held, (isRepeated) => handBack(deps, scope, isRepeated));

function withoutClaim(deps: JobDeps, job: JobPayload, claim: Exclude<Claim, ClaimedRun>): JobOutcome {
  if (claim.outcome === 'early') return { outcome: 'later', delayMs: claim.waitMs };
  if (claim.outcome === 'engine') return { outcome: 'later', delayMs: ENGINE_RETRY_MS };
  if (claim.outcome === 'code') {
    deps.missingCode?.note(job.runId, claim.missing);
    return { outcome: 'later', delayMs: CODE_RETRY_MS };
  }
  if (claim.outcome === 'dead') return { outcome: 'later', delayMs: DEAD_RETRY_MS };
  // Another worker goes on with the run, or nobody does.
  deps.views.forget(job.runId);
  deps.log('debug', { event: 'job_ignored', runId: job.runId, reason: claim.outcome });
  if (claim.outcome === 'gone' && claim.failure) return { outcome: 'run-failed', error: claim.failure };
  return { outcome: 'done' };
}

function toScope(
  job: JobPayload,
  claim: ClaimedRun,
  held: HeldClaim,
  agent: Agent,
): Omit<JobScope, 'claimMs' | 'nextClaim'> {
  return {
    tenantId: claim.session.tenantId,
    sessionId: claim.session.id,
    runId: job.runId,
    runKind: claim.run.kind,
    isChild: claim.run.isChild,
    stepNo: job.no,
    attempt: claim.run.attempt,
    stepsBefore: claim.run.stepCount,
    maxSteps: claim.run.maxSteps ?? DEFAULT_MAX_STEPS,
    budget: claim.run.finalAnswerFor === null ? claim.run.budget : NO_BUDGET,
    finalAnswerFor: claim.run.finalAnswerFor,
    modelPosition: claim.run.modelPosition,
    output: claim.run.output,
    waitedMs: claim.run.waitedMs,
    claimedAtMs: performance.now(),
    deadlineAtMs: performance.now() + (claim.run.timeLeftMs ?? Number.POSITIVE_INFINITY),
    agent,
    toolConcurrency: agent.limits.toolConcurrency ?? DEFAULT_TOOL_CONCURRENCY,
    fence: { runId: job.runId, epoch: claim.epoch, claimId: held.claimId },
    held,
    ended: { failure: null, report: null, next: null },
    contextState: claim.session.contextState,
  };
}
