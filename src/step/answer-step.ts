import type { JobScope } from '../claims/job-scope.ts';
import { retryWhileStoreUnavailable } from '../claims/retry-while-store-unavailable.ts';
import { countRealTokens } from '../domain/context/compaction/plan-input.ts';
import { isWaitingForGrowth } from '../domain/context/decide.ts';
import { isStartedBy } from '../domain/context/limits/policy.ts';
import { isAt } from '../domain/context/overflow-plan.ts';
import { limitReached } from '../domain/run/budget.ts';
import type { CallRequiringAction } from '../domain/transcript/required-action.ts';
import type { Answering } from './answering.ts';
import { askModel } from './ask-model.ts';
import { askInBackground } from './background.ts';
import type { ModelResponse } from './call-model.ts';
import type { StepDeps } from './deps.ts';
import { endBrokenAnswer } from './endings/broken-answer.ts';
import { endWholeAnswer } from './endings/end-answer.ts';
import { endAtLimit, endPostponed, endUnasked } from './endings/end-unasked.ts';
import { isOpenCall } from './endings/partial-answer.ts';
import { logModelCall } from './log-model-call.ts';
import { nextModelAtPause } from './next-model.ts';
import type { ToolsByName } from './required-actions.ts';
import { assessStep, type BegunStep } from './step-context.ts';
import { createTextStream } from './text-stream.ts';
import { createToolRunner, type ToolRunner } from './tool-runner/tool-runner.ts';
import { createWindowGuard, type WindowGuard } from './window-guard.ts';

/** Answers a begun step. A view that does not fit is never sent: the step begins again after a compaction or prune. */
export async function answerStep(deps: StepDeps, scope: JobScope, start: BegunStep): Promise<void> {
  const limit = limitReached(scope.budget, { tokens: 0, costUsd: 0 }, performance.now() >= scope.deadlineAtMs);
  if (limit !== null) return endAtLimit(deps, scope, start.messageId, limit);
  const context = await retryWhileStoreUnavailable(scope.held, () => assessStep(deps, scope, start));
  const { decision, meter, tools } = context;
  const { messageId } = start;
  if (decision.kind !== 'proceed') return endUnasked(deps, scope, context, decision);
  if (context.pausedMs > 0) {
    const next = await nextModelAtPause(deps, scope, context.pausedMs);
    return endPostponed(deps, scope, { messageId, leftMs: context.pausedMs, next });
  }
  const ratio = meter.ratioOf(scope.contextState);
  const toolsByName = new Map(tools.map((tool) => [tool.name, tool]));
  const runner = createToolRunner(deps, scope, {
    messageId,
    tools: toolsByName,
    limits: { thresholds: meter.thresholds, count: countRealTokens(meter, scope.contextState) },
  });
  const { maxOutputTokens, isWindowBound } = decision;
  const answering: Answering = { deps, scope, messageId, context, runner, maxOutputTokens, isWindowBound };
  try {
    await askAndEnd(answering, toolsByName, guardOf(answering, ratio));
  } finally {
    // When `endStep` was not reached.
    await runner.keepLast();
  }
}

/** Asks the model, runs the calls of its answer, and ends the step. */
async function askAndEnd(answering: Answering, toolsByName: ToolsByName, guard: WindowGuard): Promise<void> {
  const { deps, scope, messageId, context, runner } = answering;
  await using asking = await askInBackground(answering);
  await using text = createTextStream(async (chunks) => {
    if (!(await deps.appendText({ fence: scope.fence, messageId, chunks }))) scope.held.stop('lost');
  });
  const { result, request } = await askModel({ answering, toolsByName, guard, asking, text });
  const { response, firstChunkMs, durationMs } = result;
  logModelCall(deps.log, scope, {
    purpose: 'step',
    model: scope.agent.model,
    entry: context.meter.entry,
    usage: response?.usage ?? null,
    firstChunkMs,
    durationMs,
  });
  await text.close();
  // Rejects if the response could not be written: no tool has started, and recovery takes over.
  const known = await result.requiring;
  await runner.allDone();
  const requiring = known === null ? null : [...known, ...runner.asking()];
  const stopped = scope.held.stopped();
  if (stopped === 'lost') return;
  // On shutdown this worker ends a finished step; any other step is left to the next worker.
  if (stopped === 'shutdown' && !isDone(response, runner, requiring ?? [])) return;
  if (response === null) return endBrokenAnswer(answering, result);
  const written = requiring === null ? null : { requiring };
  await endWholeAnswer({ ...answering, request: await request }, response, result.rawFinishReason, written);
}

/** Stops the answer near the end of the window: once per step, and only if a compaction may follow. */
function guardOf({ scope, context }: Answering, ratio: number): WindowGuard {
  const { meter, measurement } = context;
  const { contextState, runId, stepNo } = scope;
  // After a failed compaction the next one waits for the view to grow, so stopping the answer would gain nothing.
  const isTriedInVain = isWaitingForGrowth(meter, measurement.total, contextState);
  const mayStop =
    isStartedBy(meter.policy, 'overflow') && !isTriedInVain && !isAt(contextState.streamStop, { runId, stepNo });
  const stopAtTokens = mayStop ? meter.thresholds.streamStopAtTokens : Number.POSITIVE_INFINITY;
  return createWindowGuard(measurement.total, stopAtTokens, ratio, meter.count);
}

function isDone(
  response: ModelResponse | null,
  runner: ToolRunner,
  requiring: readonly CallRequiringAction[],
): boolean {
  if (response === null) return false;
  const requiresAction = (index: number): boolean => requiring.some((call) => call.index === index);
  return response.parts.every((part, index) => !isOpenCall(part) || runner.hasSettled(index) || requiresAction(index));
}
