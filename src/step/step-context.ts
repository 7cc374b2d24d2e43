import { type CostLimits, refuseUnpriced } from '../agents/cost-limit.ts';
import { askForOutput } from '../claims/ask-for-output.ts';
import { contextMeterOf, knownModel, modelKey, offeredTools } from '../claims/context-meter.ts';
import { type JobScope, type LoggedScope, logFields } from '../claims/job-scope.ts';
import { type ContextDecision, decideContext } from '../domain/context/decide.ts';
import type { ContextMeter } from '../domain/context/meter/context-meter.ts';
import type { Lesson } from '../domain/context/meter/learned-limits.ts';
import type { Measurement } from '../domain/context/meter/measure.ts';
import { isAt, isAtModel } from '../domain/context/overflow-plan.ts';
import { worthOf } from '../domain/context/prune/prune-plan.ts';
import type { OutputRequest } from '../domain/model/output-rules.ts';
import type { Adaptation } from '../domain/model/remedies/adaptation.ts';
import type { ViewMessage } from '../domain/transcript/message.ts';
import type { ResolvedModel } from '../model/model-port.ts';
import { type ModelKey, type ModelMemory, recallModel, rememberLimits } from '../store/work/model-limits.ts';
import { pauseLeftMs } from '../store/work/provider-pauses.ts';
import type { Tool } from '../tools/tool.ts';
import type { StepDeps } from './deps.ts';

/** A step that has begun: its message is open, the inbox is drained. */
export type BegunStep = Readonly<{
  messageId: string;
  messageSeq: number;
  view: readonly ViewMessage[];
  /** The model memory that the claim read. Absent: it is read when needed. */
  modelMemory?: ModelMemory;
}>;

/** The context of a step before the model is asked. `view` is the one that the model is shown. */
export type StepContext = BegunStep &
  Readonly<{
    /** Media types of files that the model cannot be shown. */
    unsupported: readonly string[];
    resolved: ResolvedModel;
    tools: readonly Tool[];
    meter: ContextMeter;
    /** Real tokens per estimated token, from earlier sessions with this model. */
    prior: number | null;
    measurement: Measurement;
    decision: ContextDecision;
    modelKey: ModelKey;
    /** Time until the provider's pause ends. */
    pausedMs: number;
    /**
     * The request's way to ask for the result of the run. Null: the run was asked for none, or gives its final answer.
     */
    output: OutputRequest | null;
  }>;

type AssessDeps = Pick<StepDeps, 'db' | 'describeModel' | 'modelCheck' | 'models' | 'toolsOf' | 'log'>;
type AssessScope = LoggedScope &
  Pick<JobScope, 'agent' | 'budget' | 'contextState' | 'finalAnswerFor' | 'output' | 'tenantId'>;

/**
 * Measures the view of a step and decides whether it can be sent.
 * @throws BatonError `model_unavailable`; `price_unknown` if a cost limit could not be enforced
 */
export async function assessStep(deps: AssessDeps, scope: AssessScope, start: BegunStep): Promise<StepContext> {
  const agentModel = deps.models(scope.agent.model);
  const recalled =
    start.modelMemory === undefined
      ? null
      : recallModel(start.modelMemory, { ...modelKey(agentModel), credential: agentModel.credential });
  const [model, pausedMs] = await Promise.all([
    knownModel(deps, agentModel, scope.tenantId, { remembered: recalled?.remembered, changes: triedChanges(scope) }),
    recalled?.pausedMs ?? pauseLeftMs(deps.db, agentModel, scope.tenantId),
  ]);
  const { resolved } = model;
  const offered = await offeredTools(deps, scope.agent, model, start.view);
  const { request: output, tools, measured } = askForOutput(scope, model, offered);
  const meter = await contextMeterOf(scope.agent, model, measured);
  // The limit may come from a message, and the prices may be gone since the session was created.
  refuseUnpriced(meter.model, meter.entry.prices, costLimitsOf(deps, scope));
  const state = scope.contextState;
  const { view, unsupported } = meter.show(start.view);
  const measurement = meter.measure(view, state);
  const decision = decideContext(meter, measurement, state, {
    worth: worthOf(meter, state, view, measurement.total),
    mostOutputTokens: mostOutputTokens(scope),
    isLast: scope.finalAnswerFor !== null,
  });
  if (decision.kind === 'proceed') {
    const { total: tokens, isAnchored } = measurement;
    deps.log('debug', { event: 'context_measured', ...logFields(scope), tokens, isAnchored });
  }
  return {
    ...start,
    view,
    unsupported,
    resolved,
    tools,
    meter,
    prior: model.remembered.prior,
    measurement,
    decision,
    modelKey: modelKey(resolved),
    pausedMs,
    output,
  };
}

/** The changes with which this model is asked again in this step. */
function triedChanges(scope: AssessScope): readonly Adaptation[] {
  const { remedies } = scope.contextState;
  return isAtModel(remedies, scope) ? remedies.changes : [];
}

export function costLimitsOf(
  { modelCheck }: Pick<StepDeps, 'modelCheck'>,
  { budget }: Pick<JobScope, 'budget'>,
): CostLimits {
  return { maxCostUsd: budget.maxCostUsd, hasCostQuota: modelCheck.hasCostQuota };
}

function mostOutputTokens(scope: AssessScope): number {
  const { runId, stepNo, contextState } = scope;
  const configuredTokens = scope.agent.settings.maxOutputTokens ?? Number.POSITIVE_INFINITY;
  const capped = isAt(contextState.outputCap, { runId, stepNo }) ? contextState.outputCap.tokens : configuredTokens;
  return Math.min(configuredTokens, capped);
}

/** Remembers the lesson for every session with this model at this endpoint. */
export async function learnLimits(
  deps: StepDeps,
  context: Pick<StepContext, 'modelKey'>,
  lesson: Lesson | null,
): Promise<void> {
  if (lesson !== null) await rememberLimits(deps.db, context.modelKey, lesson);
}
