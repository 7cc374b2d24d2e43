import { runClaimed } from '../../claims/claimed-job.ts';
import { type ContextMeterDeps, contextMeterOf, knownModel, offeredTools } from '../../claims/context-meter.ts';
import { enqueueNext } from '../../claims/enqueue-next.ts';
import { finishClaim } from '../../claims/finish-claim.ts';
import type { JobDeps } from '../../claims/job-deps.ts';
import { durationMs, type JobScope, logFields } from '../../claims/job-scope.ts';
import { type PruneJobPlan, planPruneJob } from '../../domain/context/prune/prune-job.ts';
import { planAfterMaintenance } from '../../domain/run/after-maintenance.ts';
import type { JobPayload } from '../../domain/run/job.ts';
import type { ViewMessage } from '../../domain/transcript/message.ts';
import { NO_USAGE } from '../../domain/usage.ts';
import { inSpan } from '../../platform/tracing.ts';
import type { JobOutcome } from '../../queues/job-queue.ts';
import type { StepDeps } from '../../step/deps.ts';
import { finishMaintenance, type MaintenanceFinish } from '../../store/work/maintenance.ts';

/** The dependencies of a prune. It calls no model, but needs the model's limits and tools to measure the view. */
export type PruneDeps = JobDeps & ContextMeterDeps & Pick<StepDeps, 'models' | 'toolsOf'>;

/**
 * Executes one prune job: claim, read the view, mark tool outputs as cleared, enqueue next. Marks, events and plan are
 * one fenced transaction, so a second delivery of the job finds nothing to do.
 * @throws errors of an unavailable database: the run stays claimed and is recovered
 */
export function runPrune(deps: PruneDeps, job: JobPayload, jobSignal: AbortSignal): Promise<JobOutcome> {
  return runClaimed(deps, job, jobSignal, (scope, { view }) =>
    inSpan('prune', {}, async () => {
      // The claim returns no view if the run was cancelled before the job began.
      const plan = view === null ? null : await planFor(deps, scope, view);
      const stopped = scope.held.stopped();
      if (stopped === 'lost' || stopped === 'shutdown') return;
      await endPrune(deps, scope, stopped === 'cancelled' || plan === null ? nothingDone(scope) : plan);
    }),
  );
}

async function planFor(deps: PruneDeps, scope: JobScope, view: readonly ViewMessage[]): Promise<PruneJobPlan> {
  const { agent, contextState, runKind } = scope;
  const model = await knownModel(deps, deps.models(agent.model), scope.tenantId);
  const meter = await contextMeterOf(agent, model, await offeredTools(deps, agent, model, view));
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
  const finished = await finishClaim(deps, scope, () => finishMaintenance(deps.db, scope.fence, finish));
  if (!(await enqueueNext(deps, scope, { finished, next }, NO_USAGE))) return;
  const measured = { prunedCount: plan.marks.length, savedTokens: plan.savedTokens, durationMs: durationMs(scope) };
  deps.log('info', { event: 'prune_finished', ...logFields(scope), ...measured });
}
