import { runClaimed } from '../../claims/claimed-job.ts';
import { type ContextMeterDeps, contextMeterOf, knownModel, offeredTools } from '../../claims/context-meter.ts';
import { enqueueNext } from '../../claims/enqueue-next.ts';
import type { JobDeps } from '../../claims/job-deps.ts';
import { durationMs, type JobScope, logFields } from '../../claims/job-scope.ts';
import { retryWhileStoreUnavailable } from '../../claims/retry-while-store-unavailable.ts';
import { type PruneJobPlan, planPruneJob } from '../../domain/context/prune/prune-job.ts';
import { planAfterMaintenance } from '../../domain/run/after-maintenance.ts';
import type { JobPayload } from '../../domain/run/job.ts';
import type { ViewMessage } from '../../domain/transcript/message.ts';
import { NO_USAGE } from '../../domain/usage.ts';
import { inSpan } from '../../platform/tracing.ts';
import type { JobOutcome } from '../../queues/job-queue.ts';
import type { StepDeps } from '../../step/deps.ts';
import { finishMaintenance, type MaintenanceFinish } from '../../store/maintenance.ts';

/** What a prune needs of the world: no model is called, but its limits and its tools decide what is due. */
export type PruneDeps = JobDeps & ContextMeterDeps & Pick<StepDeps, 'models' | 'toolsOf'>;

/**
 * Carries out one prune job: claim, read the view, mark what it shows cleared from now on, pass the baton. The marks,
 * the events and what comes next are one fenced transaction, so that a second delivery finds nothing left to do.
 * @throws what the database throws when it is away: the run stays claimed and is recovered
 */
export function runPrune(deps: PruneDeps, job: JobPayload, jobSignal: AbortSignal): Promise<JobOutcome> {
  return runClaimed(deps, job, jobSignal, (scope, { view }) =>
    inSpan('prune', {}, async () => {
      // Without a view a cancel was requested before anything began.
      const plan = view === null ? null : await planFor(deps, scope, view);
      const stopped = scope.held.stopped();
      if (stopped === 'lost' || stopped === 'shutdown') return;
      await endPrune(deps, scope, stopped === 'cancelled' || plan === null ? nothingDone(scope) : plan);
    }),
  );
}

async function planFor(deps: PruneDeps, scope: JobScope, view: readonly ViewMessage[]): Promise<PruneJobPlan> {
  const { agent, contextState, runKind } = scope;
  const known = await knownModel(deps, deps.models(agent.model));
  const meter = await contextMeterOf(agent, known, await offeredTools(deps, agent, known, view));
  return planPruneJob(meter, contextState, meter.show(view).view, runKind === 'task');
}

/** A cancelled prune leaves the view as it was. */
function nothingDone({ contextState }: JobScope): PruneJobPlan {
  return {
    marks: [],
    events: [],
    savedTokens: 0,
    goesOnWith: 'step',
    contextState: { ...contextState, pending: null },
  };
}

async function endPrune(deps: PruneDeps, scope: JobScope, plan: PruneJobPlan): Promise<void> {
  const { runId, runKind, stepNo } = scope;
  const next = planAfterMaintenance({ runId, runKind, stepNo, goesOnWith: plan.goesOnWith });
  const finish: MaintenanceFinish = {
    marks: plan.marks,
    contextState: plan.contextState,
    usage: NO_USAGE,
    costUsd: 0,
    events: plan.events,
    next,
    nextRunId: deps.newId(),
  };
  scope.held.lettingGo();
  const finished = await retryWhileStoreUnavailable(scope.held, () => finishMaintenance(deps.db, scope.fence, finish));
  if (!(await enqueueNext(deps, scope, finished, next, NO_USAGE))) return;
  const measured = { prunedCount: plan.marks.length, savedTokens: plan.savedTokens, durationMs: durationMs(scope) };
  deps.log('info', { event: 'prune_finished', ...logFields(scope), ...measured });
}
