import { contextMeterOf, knownModel, withReaderAtLeast } from '../claims/context-meter.ts';
import { type JobScope, logFields } from '../claims/job-scope.ts';
import { retryWhileStoreUnavailable } from '../claims/retry-while-store-unavailable.ts';
import { countRealTokens } from '../domain/context/compaction/plan-input.ts';
import { costOf } from '../domain/context/limits/cost.ts';
import type { ContextMeter } from '../domain/context/meter/context-meter.ts';
import { formatCallId } from '../domain/ids.ts';
import { DOOM_LOOP_STEPS, isDoomLoop } from '../domain/run/doom-loop.ts';
import { type OutputVerdict, verdictOfCalls } from '../domain/run/output-verdict.ts';
import { runOutputOf } from '../domain/run/run-output.ts';
import { CANCELLED_BEFORE_START, type InterruptedStep, NOT_RUN, planSettlement } from '../domain/run/settlement.ts';
import type { FinishReason, Part } from '../domain/transcript/message.ts';
import {
  type CallRequiringAction,
  type PlacedCall,
  UNFINISHED,
  UNKNOWN_OUTCOME,
} from '../domain/transcript/required-action.ts';
import { NO_USAGE } from '../domain/usage.ts';
import { readStreamedParts } from '../store/transcript/chunks.ts';
import { readInterruptedStep } from '../store/transcript/messages.ts';
import { readNewestOfView } from '../store/transcript/views.ts';
import type { BrokenAnswer } from '../store/work/claims.ts';
import type { ToolReply } from '../tools/input-needed.ts';
import { withResultTool } from '../tools/result-tool.ts';
import { resultOf } from './answering.ts';
import { stopLeftResponse } from './background.ts';
import type { StepDeps } from './deps.ts';
import { endCancelledAnswer, type OpenStep, resetEvent } from './endings/partial-answer.ts';
import { endStep } from './finish.ts';
import { callsToApprove, type ToolsByName, traitsOf } from './required-actions.ts';
import type { OutputLimits } from './tool-runner/output-limiter.ts';
import { runCalls } from './tool-runner/run-calls.ts';
import { createToolRunner, type ToolRunner } from './tool-runner/tool-runner.ts';

/**
 * Recovers an interrupted step.
 * - Response complete: the model is not asked again. Calls with an outcome are kept, pending calls run, answered calls
 *   get their answer, and calls with an unknown outcome repeat only if their tool allows it. If calls still require an
 *   action, the run waits.
 * - Response broken: returned, so that the caller restarts the step in its place.
 */
export async function recoverStep(
  deps: StepDeps,
  scope: JobScope,
  messageId: string,
): Promise<'step-ended' | BrokenAnswer> {
  const leftover = await readInterruptedStep(deps.db, { sessionId: scope.sessionId, messageId });
  const tools = await possibleTools(deps, scope);
  const toApprove = await callsToApprove(tools, leftover, scope.held);
  const plan = planSettlement(leftover, traitsOf(tools), toApprove);
  if (plan.kind === 'supersede') {
    if (scope.held.stopped() !== 'cancelled') return { messageId, events: [resetEvent(scope, messageId)] };
    await endBrokenStep({ deps, scope, messageId });
    return 'step-ended';
  }
  const model = await knownModel(deps, deps.models(scope.agent.model), scope.tenantId);
  const meter = await contextMeterOf(scope.agent, model, [...tools.values()]);
  const runner = createToolRunner(deps, scope, { messageId, tools, limits: outputLimits(meter, scope) });
  runner.expect(leftover.parts);
  runner.begunElsewhere(leftover.outsideWork);
  runner.replied(repliesOf(leftover));
  await settleKnown(deps, scope, { messageId, plan, runner });
  await runAgain(deps, scope, leftover, { calls: plan.run, runner });
  const stopped = scope.held.stopped();
  if (stopped === 'lost' || stopped === 'shutdown') return 'step-ended';
  const asks = [...plan.ask, ...runner.asking()];
  if (stopped === 'cancelled') await cancelAsks(asks, runner);
  const toolCalls = leftover.parts.filter((part) => part.type === 'tool' && part.providerExecuted !== true).length;
  const finishReason: FinishReason = leftover.finishReason ?? 'other';
  const usage = leftover.usage ?? NO_USAGE;
  const isOver = stopped === null && asks.length === 0;
  const verdict = isOver ? verdictOfRecovered(scope, leftover.parts, runner) : null;
  await endStep(deps, scope, {
    messageId,
    usage,
    costUsd: leftover.usage === null ? 0 : costOf(usage, meter.entry),
    steps: 1,
    ...(leftover.isPaid && { isPaid: true as const }),
    ...(runner.hasWorkOutside(asks) && { stopElsewhere: () => runner.stopElsewhere(asks) }),
    events: [],
    outcome: {
      finishReason,
      toolCalls,
      output: runOutputOf(messageId, leftover.parts),
      ...(verdict !== null && { verdict }),
      result: resultOf(scope, messageId, { finishReason, requiring: stopped === null ? asks : [], tools }),
      ...(isOver && (await hasLooped(deps, scope)) && { limit: 'doom_loop' as const }),
    },
  });
  return 'step-ended';
}

/** What tools have asked in their calls, with the answers. A call that is not pending was started again since then. */
function repliesOf({ parts, questions, answers }: InterruptedStep): ReadonlyMap<number, ToolReply> {
  return new Map(
    [...questions].flatMap(([index, question]) => {
      const [part, answer] = [parts[index], answers.get(index)];
      const isOpen = part?.type === 'tool' && part.state === 'pending';
      return isOpen && answer !== undefined ? [[index, { question, answer }] as const] : [];
    }),
  );
}

/** Settles the calls that do not run again. */
async function settleKnown(
  deps: StepDeps,
  scope: JobScope,
  {
    messageId,
    plan,
    runner,
  }: Readonly<{
    messageId: string;
    plan: Exclude<ReturnType<typeof planSettlement>, { kind: 'supersede' }>;
    runner: ToolRunner;
  }>,
): Promise<void> {
  for (const call of plan.markUnknown) await runner.markUnknown(call);
  for (const call of plan.ask) {
    if (call.kind === 'unknown_outcome') logUnknown(deps, scope, { messageId, call, repeated: false });
  }
  for (const call of plan.report) {
    logUnknown(deps, scope, { messageId, call, repeated: false });
    await runner.settle(call, 'unknown', UNKNOWN_OUTCOME);
  }
  for (const call of plan.refuse) await runner.settle(call, 'pending', NOT_RUN);
  for (const call of plan.give) await runner.give(call);
}

/** The tools that the interrupted step may have been offered. */
async function possibleTools(deps: StepDeps, { agent, output }: JobScope): Promise<ToolsByName> {
  const offered = await deps.toolsOf(withReaderAtLeast(agent));
  const tools = output === null ? offered : withResultTool(offered, output.format);
  return new Map(tools.map((tool) => [tool.name, tool]));
}

function verdictOfRecovered({ output }: JobScope, parts: readonly Part[], runner: ToolRunner): OutputVerdict | null {
  if (output === null) return null;
  const settled = parts.map((part, index): Part => {
    const outcome = part.type === 'tool' ? runner.outcomeOf(index) : undefined;
    return outcome === undefined || part.type !== 'tool' ? part : { ...part, ...outcome };
  });
  return verdictOfCalls(settled, output.state);
}

/** Called only without open required actions, because only then are all results known and comparable. */
async function hasLooped({ db }: StepDeps, { sessionId, held }: JobScope): Promise<boolean> {
  return isDoomLoop(await retryWhileStoreUnavailable(held, () => readNewestOfView(db, sessionId, DOOM_LOOP_STEPS)));
}

/** Ends the broken step of a cancelled run and keeps its streamed text. */
export async function endBrokenStep(broken: OpenStep): Promise<void> {
  const stopped = stopLeftResponse(broken.deps, broken.scope);
  const { deps, scope, messageId } = broken;
  const streamed = await readStreamedParts(deps.db, { sessionId: scope.sessionId, messageId });
  await endCancelledAnswer(broken, [{ type: 'step-start' }, ...streamed]);
  await stopped;
}

/** Settles the required actions of a cancelled run. */
async function cancelAsks(calls: readonly CallRequiringAction[], runner: ToolRunner): Promise<void> {
  await runner.stopElsewhere(calls);
  for (const call of calls) {
    const hasRun = call.kind === 'unknown_outcome';
    const notRun = call.kind === 'input' ? UNFINISHED : CANCELLED_BEFORE_START;
    await runner.settle(call, hasRun ? 'unknown' : call.part.state, hasRun ? UNKNOWN_OUTCOME : notRun);
  }
}

function outputLimits(meter: ContextMeter, scope: JobScope): OutputLimits {
  return { thresholds: meter.thresholds, count: countRealTokens(meter, scope.contextState) };
}

async function runAgain(
  deps: StepDeps,
  scope: JobScope,
  { messageId, outsideWork }: InterruptedStep,
  { calls, runner }: Readonly<{ calls: readonly PlacedCall[]; runner: ToolRunner }>,
): Promise<void> {
  for (const call of calls) {
    const { toolName, state } = call.part;
    if (outsideWork.has(call.index)) {
      const callKey = formatCallId(messageId, call.index);
      deps.log('info', { event: 'tool_call_resumed', ...logFields(scope), tool: toolName, callKey });
    } else if (state !== 'pending') logUnknown(deps, scope, { messageId, call, repeated: true });
  }
  await runCalls(scope, runner, calls);
  if (scope.held.stopped() !== 'lost') await runner.allSettled();
}

function logUnknown(
  deps: StepDeps,
  scope: JobScope,
  { messageId, call, repeated }: Readonly<{ messageId: string; call: PlacedCall; repeated: boolean }>,
): void {
  const callKey = formatCallId(messageId, call.index);
  deps.log('warn', { event: 'tool_outcome_unknown', ...logFields(scope), tool: call.part.toolName, callKey, repeated });
}
