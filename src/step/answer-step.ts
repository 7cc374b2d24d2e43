import type { JobScope } from '../claims/job-scope.ts';
import { retryWhileStoreUnavailable } from '../claims/retry-while-store-unavailable.ts';
import { countRealTokens } from '../domain/context/compaction/plan-input.ts';
import { isWaitingForGrowth } from '../domain/context/decide.ts';
import { isStartedBy } from '../domain/context/limits/policy.ts';
import { isAt } from '../domain/context/overflow-plan.ts';
import { BatonError } from '../domain/errors.ts';
import { formatId } from '../domain/ids.ts';
import { requestNotice } from '../domain/model/request-notice.ts';
import { limitReached } from '../domain/run/budget.ts';
import { planRuns } from '../domain/run/settlement.ts';
import type { CallRequiringAction } from '../domain/transcript/required-action.ts';
import { showsCalls } from '../model/adapt-model.ts';
import { promptFor } from '../model/model-prompt.ts';
import { inModelSpan, type TracedAnswer, type TracedRequest } from '../model/model-span.ts';
import type { ModelTimeouts } from '../model/watchdog.ts';
import { keepAnswerFiles, readMedia } from '../store/transcript/media.ts';
import { type Answering, responseEvents, toWrite } from './answering.ts';
import { askInBackground } from './background.ts';
import { callModel, type ModelCallShape, type ModelResponse } from './call-model.ts';
import type { StepDeps } from './deps.ts';
import { endBrokenAnswer } from './endings/broken-answer.ts';
import { endWholeAnswer } from './endings/end-answer.ts';
import { endAtLimit, endPostponed, endUnasked } from './endings/end-unasked.ts';
import { isOpenCall } from './endings/partial-answer.ts';
import { keepRequest } from './kept-request.ts';
import { logModelCall } from './log-model-call.ts';
import { nextModelAtPause } from './next-model.ts';
import { createInputPreview, createTextPreview, previewThinking } from './previews.ts';
import {
  callsToApprove,
  findRequiredActions,
  findStarts,
  knownApprovals,
  type ToolsByName,
} from './required-actions.ts';
import { assessStep, type BegunStep } from './step-context.ts';
import { createTextStream } from './text-stream.ts';
import { runCalls } from './tool-runner/run-calls.ts';
import { createToolRunner, type ToolRunner } from './tool-runner/tool-runner.ts';
import { createWindowGuard, type WindowGuard } from './window-guard.ts';

/** Answers a begun step. A view that does not fit is never sent: the step begins again after a compaction or prune. */
export async function answerStep(deps: StepDeps, scope: JobScope, begun: BegunStep): Promise<void> {
  const limit = limitReached(scope.budget, { tokens: 0, costUsd: 0 }, performance.now() >= scope.deadlineAtMs);
  if (limit !== null) return endAtLimit(deps, scope, begun.messageId, limit);
  const context = await retryWhileStoreUnavailable(scope.held, () => assessStep(deps, scope, begun));
  const { decision, meter, tools } = context;
  const { messageId } = begun;
  if (decision.kind !== 'proceed') return endUnasked(deps, scope, context, decision);
  if (context.pausedMs > 0) {
    const next = await nextModelAtPause(deps, scope, context.pausedMs);
    return endPostponed(deps, scope, { messageId, leftMs: context.pausedMs, next });
  }
  const ratio = meter.ratioOf(scope.contextState);
  const toolsByName = new Map(tools.map((tool) => [tool.name, tool]));
  const runner = createToolRunner(deps, scope, messageId, toolsByName, {
    thresholds: meter.thresholds,
    count: countRealTokens(meter, scope.contextState),
  });
  const { maxOutputTokens, isWindowBound } = decision;
  const answering: Answering = { deps, scope, messageId, context, runner, maxOutputTokens, isWindowBound };
  try {
    await askModel(answering, toolsByName, guardOf(answering, ratio));
  } finally {
    // When `endStep` was not reached.
    await runner.keepLast();
  }
}

async function askModel(answering: Answering, toolsByName: ToolsByName, guard: WindowGuard): Promise<void> {
  const { deps, scope, messageId, context, runner, maxOutputTokens } = answering;
  const { meter, tools } = context;
  await using asking = await askInBackground(answering);
  const { resolved } = asking;
  await using text = createTextStream(async (chunks) => {
    if (!(await deps.appendText({ fence: scope.fence, messageId, chunks }))) scope.held.stop('lost');
  });
  previewThinking(answering);
  const preview = createTextPreview(answering);
  const previewInput = createInputPreview(answering);
  const writing: { promise: Promise<void> | null; requiring: readonly CallRequiringAction[] | null } = {
    promise: null,
    requiring: null,
  };
  const shape = shapeOf(answering);
  const limits = { timeouts: timeoutsOf(deps, scope), maxOutputTokens, windowSignal: guard.signal, shape };
  const { model } = scope.agent;
  const media = await retryWhileStoreUnavailable(scope.held, () => readMedia(deps.db, scope.sessionId, context.view));
  const notice = requestNotice(scope.finalAnswerFor, scope.output, context.output?.by ?? null);
  const prompt = promptFor({ ...resolved, calls: showsCalls(resolved, meter.entry.tools, tools), notice }, model, {
    instructions: meter.instructions,
    view: context.view,
    media,
  });
  const request = keepRequest(answering, prompt.messages, media);
  const result = await inModelSpan(tracedRequest(answering), async (span) => {
    const called = await callModel(scope, { resolved, prompt, tools }, limits, {
      onText(type, partIndex, delta) {
        text.push(type, partIndex, delta);
        preview(type, delta);
        guard.heard(delta);
      },
      onToolInput(call, delta) {
        if (call !== null) previewInput(call, delta);
        guard.heard(delta);
      },
      keepFiles: (parts) =>
        retryWhileStoreUnavailable(scope.held, () => keepAnswerFiles(deps.db, scope.sessionId, parts)),
      async onResponse(response) {
        span.answered(tracedAnswer(response));
        await text.close();
        // Without calls there is no tool to wait for: one write commits the response and the end of the step.
        if (!response.parts.some(isOpenCall)) return;
        writing.promise = request.then(async (kept) => {
          writing.requiring = await writeWholeResponse({ ...answering, request: kept }, toolsByName, response);
        });
        await writing.promise;
      },
    });
    asking.ended(called);
    if (called.response === null) span.broken(called.failure?.error ?? called.end.kind);
    // An answer that was aborted, or that the SDK refuses, starts no call. Nor does one that could not be written.
    else if (called.end.kind === 'ended' && writing.requiring !== null)
      await runCalls(scope, runner, planRuns(called.response, writing.requiring));
    return called;
  });
  const { usage = null } = result.response ?? {};
  const { firstChunkMs, durationMs } = result;
  const called = {
    purpose: 'step',
    model: scope.agent.model,
    entry: meter.entry,
    usage,
    firstChunkMs,
    durationMs,
  } as const;
  logModelCall(deps.log, scope, called);
  await text.close();
  // Rejects if the response could not be written: no tool has started, and recovery takes over.
  await writing.promise;
  await runner.allDone();
  const stopped = scope.held.stopped();
  if (stopped === 'lost') return;
  // On shutdown this worker ends a finished step; any other step is left to the next worker.
  const requiring = writing.requiring ?? [];
  if (stopped === 'shutdown' && !isDone(result.response, runner, requiring)) return;
  if (result.response === null) return endBrokenAnswer(answering, result);
  const written = writing.promise === null ? null : { requiring };
  await endWholeAnswer({ ...answering, request: await request }, result.response, result.rawFinishReason, written);
}

function tracedRequest({ deps, scope, context, maxOutputTokens }: Answering): TracedRequest {
  const { resolved, meter, view } = context;
  const { model, settings } = scope.agent;
  return {
    resolved,
    sessionId: formatId('session', scope.sessionId),
    maxOutputTokens,
    temperature: settings.temperature,
    withContent: deps.traceContent === true,
    prompt: () => promptFor(resolved, model, { instructions: meter.instructions, view }),
  };
}

function tracedAnswer({ finishReason, usage, parts }: ModelResponse): TracedAnswer {
  const text = () => parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('');
  return { finishReason, usage, text };
}

/**
 * The tools are sent also where none may be called: the provider's cache then serves the prompt, and some providers
 * refuse a history of calls without tools.
 */
function shapeOf({ scope, context }: Answering): ModelCallShape {
  const { output: request } = context;
  const mayCall = scope.finalAnswerFor === null && (request === null || request.tools === 'callable');
  const toolChoice = mayCall ? forcedChoice(scope, context) : ({ toolChoice: 'none' } as const);
  return {
    ...toolChoice,
    ...(request?.by === 'native' && scope.output !== null && { format: scope.output.format }),
  };
}

/** Holds for the first answer to a message: forced again after the results, the model could never end. */
function forcedChoice({ agent: { toolChoice } }: JobScope, { view }: Answering['context']) {
  if (toolChoice === undefined || view.at(-1)?.role !== 'user') return {};
  if (toolChoice === 'required') return { toolChoice } as const;
  return { toolChoice: { type: 'tool', toolName: toolChoice.tool } } as const;
}

function timeoutsOf({ modelTimeouts }: StepDeps, { agent }: JobScope): ModelTimeouts {
  return { ...modelTimeouts, wholeStepMs: agent.limits.stepTimeoutMs ?? modelTimeouts.wholeStepMs };
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

/**
 * Commits a response with calls, and `running` for the calls that start at once. If a tool has an approval function, no
 * call starts with this write: the function is called afterwards and may take long.
 * @returns the calls that require an action
 * @throws BatonError `fenced`
 */
async function writeWholeResponse(
  answering: Answering,
  tools: ToolsByName,
  response: ModelResponse,
): Promise<readonly CallRequiringAction[]> {
  const { deps, scope, runner } = answering;
  runner.expect(response.parts);
  const known = knownApprovals(tools, response);
  const isGoingOn = known !== null && scope.held.stopped() === null && scope.held.mayAct();
  const starts = isGoingOn ? findStarts(tools, response, known, scope.toolConcurrency) : NONE;
  const events = responseEvents(answering, response);
  const write = () => deps.writes.respond(scope.fence, toWrite(answering, response, starts), events);
  const written = await retryWhileStoreUnavailable(scope.held, write);
  if (written === null) {
    scope.held.stop('lost');
    throw new BatonError('fenced', 'another worker has the run');
  }
  if (written.mayStart) runner.started(starts);
  deps.bus.announce(scope.sessionId, written.eventSeq);
  return findRequiredActions(tools, response, known ?? (await callsToApprove(tools, response, scope.held)));
}

const NONE: ReadonlySet<number> = new Set();
