import { type AfterAnswer, afterAnswer } from '../../domain/context/after-answer.ts';
import { costOf } from '../../domain/context/limits/cost.ts';
import { priorFrom } from '../../domain/context/meter/calibration.ts';
import { worthOf } from '../../domain/context/prune/prune-plan.ts';
import type { ErrorRecord } from '../../domain/errors.ts';
import { CUT_OFF_STEPS, isCutOffLoop, isDoomLoop } from '../../domain/run/doom-loop.ts';
import type { NextModel, StepResult } from '../../domain/run/next-step.ts';
import { runOutputOf } from '../../domain/run/run-output.ts';
import { CANCELLED_BEFORE_START, NOT_RUN } from '../../domain/run/settlement.ts';
import type { Part, ViewMessage } from '../../domain/transcript/message.ts';
import { type CallRequiringAction, UNFINISHED } from '../../domain/transcript/required-action.ts';
import { rememberPrior } from '../../store/work/model-limits.ts';
import type { CallMove } from '../../store/work/step-writes.ts';
import { type Answering, responseEvents, resultOf, toWrite } from '../answering.ts';
import type { ModelResponse } from '../call-model.ts';
import { endStep, type StepEnding } from '../finish.ts';
import { judgeOutput } from '../judge-output.ts';
import { nextModel } from '../next-model.ts';
import { learnLimits } from '../step-context.ts';
import { rememberRemedies } from './end-refused-form.ts';
import { isOpenCall, keptIfCancelled, resetEvent } from './partial-answer.ts';

/**
 * Ends a step whose answer is complete and whose calls have run, except those that require an action.
 * @param written set if the answer is already in the transcript, because it has calls
 */
export async function endWholeAnswer(
  answering: Answering,
  response: ModelResponse,
  rawFinishReason: string | null,
  written: Readonly<{ requiring: readonly CallRequiringAction[] }> | null,
): Promise<void> {
  const { deps, scope, context, runner } = answering;
  // A cancelled run waits for no required actions.
  const requiring = scope.held.stopped() === 'cancelled' ? [] : (written?.requiring ?? []);
  if (written !== null) await settleOpenCalls(answering, response, requiring);
  const toolCalls = response.parts.filter((part) => part.type === 'tool' && part.providerExecuted !== true).length;
  const answered = messageOf(answering, response);
  const after = assess(answering, answered, { response, rawFinishReason, toolCalls });
  await learnLimits(deps, context, after.lesson);
  await rememberRemedies(answering);
  if (after.dropAnswer === true || after.exhausted !== undefined) {
    await runner.allSettled();
    return dropTruncatedAnswer(answering, response, after);
  }
  const next = isEmptyAnswer(response) ? await nextModel(deps, scope, 'empty_answer') : null;
  if (next !== null) return dropEmptyAnswer(answering, response, next);
  const { finishReason } = response;
  const judged = { parts: answered.parts, finishReason, toolCalls };
  const isOver = requiring.length === 0 && after.isUnfinished !== true && finishReason !== 'content-filter';
  const verdict = isOver ? await judgeOutput(scope, context.output, judged) : null;
  const tools = new Map(context.tools.map((tool) => [tool.name, tool]));
  const continuation = isCutOffLoop([...context.view, answered])
    ? cutOffTooOften(scope.agent.model)
    : resultOf(scope, answering.messageId, { finishReason, requiring, tools });
  const end = (moves: readonly CallMove[]) =>
    endStep(deps, scope, {
      messageId: answering.messageId,
      ...(written === null
        ? { response: toWrite(answering, response) }
        : { written: { open: requiring.map(({ index }) => index) } }),
      moves,
      usage: response.usage,
      costUsd: costOf(response.usage, context.meter.entry),
      timing: response.timing,
      steps: 1,
      contextState: after.contextState,
      events: written === null ? responseEvents(answering, response) : [],
      ...(runner.hasWorkOutside(requiring) && { stopElsewhere: () => runner.stopElsewhere(requiring) }),
      ...(after.isPrunable && { maintenanceAtEnd: 'prune' as const }),
      outcome: {
        finishReason: response.finishReason,
        toolCalls,
        output: runOutputOf(answering.messageId, response.parts),
        ...(verdict !== null && { verdict }),
        result: withFollowing(continuation, after),
        ...(isDoomLoop([...context.view, answered]) && { limit: 'doom_loop' as const }),
      },
    });
  const ending = await runner.withLast(end);
  if (ending === 'run-ended') await sharePrior(answering, after);
}

function cutOffTooOften(model: string): StepResult {
  const message = `The last ${CUT_OFF_STEPS} answers of ${model} were cut off before their calls were whole: allow longer answers (settings.maxOutputTokens, or maxOutput of the model), or ask for smaller pieces.`;
  return { kind: 'failed', error: { code: 'output_reserve_overflow', message } };
}

function withFollowing(result: StepResult, { before, isUnfinished }: AfterAnswer): StepResult {
  if (result.kind !== 'answered') return result;
  return { ...result, ...(before !== undefined && { before }), ...(isUnfinished === true && { isUnfinished }) };
}

/** The answer with the outcomes of its calls, as the next step's view will hold it. */
function messageOf(answering: Answering, response: ModelResponse): ViewMessage {
  return {
    id: answering.messageId,
    seq: answering.context.messageSeq,
    role: 'assistant',
    model: answering.scope.agent.model,
    parts: response.parts.map((part, index) => settled(answering, part, index)),
  };
}

function assess(
  answering: Answering,
  message: ViewMessage,
  {
    response,
    rawFinishReason,
    toolCalls,
  }: Readonly<{ response: ModelResponse; rawFinishReason: string | null; toolCalls: number }>,
): AfterAnswer {
  const { scope, context, maxOutputTokens, isWindowBound } = answering;
  const { meter, view, measurement } = context;
  return afterAnswer({
    meter,
    state: scope.contextState,
    place: { runId: scope.runId, stepNo: scope.stepNo },
    view,
    measurement,
    maxOutputTokens,
    isWindowBound,
    message,
    usage: response.usage,
    finishReason: response.finishReason,
    rawFinishReason,
    toolCalls,
    worth: (next, state, usedTokens) => worthOf(meter, state, next, usedTokens),
  });
}

function settled({ runner }: Answering, part: Part, index: number): Part {
  const outcome = part.type === 'tool' ? runner.outcomeOf(index) : undefined;
  return outcome === undefined || part.type !== 'tool' ? part : { ...part, ...outcome };
}

/** Settles calls that did not run, because the step was stopped first or the response was cut off. */
async function settleOpenCalls(
  { scope, runner }: Answering,
  response: ModelResponse,
  requiring: readonly CallRequiringAction[],
): Promise<void> {
  const requiresAction = (index: number): boolean => requiring.some((call) => call.index === index);
  const reason = scope.held.stopped() === 'cancelled' ? CANCELLED_BEFORE_START : NOT_RUN;
  const asking = new Map(runner.asking().map((call) => [call.index, call]));
  await runner.stopElsewhere([...asking.values()].filter(({ index }) => !requiresAction(index)));
  for (const [index, part] of response.parts.entries()) {
    if (!isOpenCall(part) || runner.hasSettled(index) || requiresAction(index)) continue;
    const asked = asking.get(index);
    if (asked === undefined) await runner.settle({ index, part }, 'pending', reason);
    else await runner.settle(asked, asked.part.state, UNFINISHED);
  }
}

/** No text, no call and no file, although the model was free to say something. */
const isEmptyAnswer = ({ parts, finishReason }: ModelResponse): boolean =>
  (finishReason === 'stop' || finishReason === 'other') &&
  parts.every(
    (part) =>
      part.type === 'step-start' || part.type === 'reasoning' || (part.type === 'text' && part.text.trim() === ''),
  );

/** The answer is empty: the next model takes the step. */
function dropEmptyAnswer(answering: Answering, response: ModelResponse, next: NextModel): Promise<void> {
  const error = { code: 'transport', message: 'The answer of the model was empty.' } as const;
  const retry = { delayMs: 0, attempt: answering.scope.attempt, next };
  const outcome = { finishReason: 'error', toolCalls: 0, result: { kind: 'failed', error, retry } } as const;
  return endDropped(answering, response, { outcome, error, recoverable: true });
}

/** The provider truncated the request. */
function dropTruncatedAnswer(answering: Answering, response: ModelResponse, after: AfterAnswer): Promise<void> {
  const { exhausted, contextState } = after;
  const error = { code: 'silent_truncation', message: 'The provider did not take the whole request.' } as const;
  const result: StepResult =
    exhausted === undefined ? { kind: 'repeat', after: 'compaction' } : { kind: 'exhausted', error: exhausted };
  const outcome = { finishReason: 'other', toolCalls: 0, result } as const;
  return endDropped(answering, response, { outcome, error, recoverable: exhausted === undefined, contextState });
}

type Dropped = Pick<StepEnding, 'outcome' | 'contextState'> & Readonly<{ error: ErrorRecord; recoverable: boolean }>;

/** Bills and drops a whole answer. A `cancelling` run keeps it. */
async function endDropped(
  answering: Answering,
  response: ModelResponse,
  { error, recoverable, ...ending }: Dropped,
): Promise<void> {
  const { deps, scope, messageId, context } = answering;
  await endStep(deps, scope, {
    messageId,
    response: { ...toWrite(answering, response), superseded: true, parts: [] },
    ...keptIfCancelled(answering, response.parts, response.usage),
    usage: response.usage,
    costUsd: costOf(response.usage, context.meter.entry),
    steps: 0,
    events: [{ type: 'llm:error', data: { error, recoverable } }, resetEvent(scope, messageId)],
    ...ending,
  });
}

/** Shares the session's calibration, so that the next session with this model starts from it. */
async function sharePrior({ deps, context }: Answering, { contextState }: AfterAnswer): Promise<void> {
  if (contextState.calibration === null) return;
  const prior = priorFrom(contextState.calibration, context.prior);
  if (prior !== null && prior !== context.prior) await rememberPrior(deps.db, context.modelKey, prior);
}
