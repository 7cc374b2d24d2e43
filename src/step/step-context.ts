import { modelKey, offeredTools, rulerOf } from '../context/ruler-of.ts';
import { type ContextDecision, decideContext } from '../domain/context/decide.ts';
import type { Measurement } from '../domain/context/measure.ts';
import { isAt } from '../domain/context/overflow-plan.ts';
import { isPruneWorthwhile } from '../domain/context/prune-plan.ts';
import type { Ruler } from '../domain/context/ruler.ts';
import type { ContextState } from '../domain/context/state.ts';
import type { ViewMessage } from '../domain/message.ts';
import { type JobScope, type LoggedScope, logFields } from '../jobs/job-scope.ts';
import { type ModelKey, type ModelMemory, recallModel, rememberLimits } from '../store/model-limits.ts';
import { pauseLeftMs } from '../store/provider-pauses.ts';
import type { Tool } from '../tools/tool.ts';
import type { StepDeps } from './deps.ts';
import type { ResolvedModel } from './model-port.ts';

/** A step that has begun: its message is open, the inbox is drained. */
export type BegunStep = Readonly<{
  messageId: string;
  messageSeq: number;
  view: readonly ViewMessage[];
  /** What the claim has brought along; without it what is known of the model is read. */
  modelMemory?: ModelMemory;
}>;

/** What a step knows of its context before it asks the model. Its view is the one that the model is shown. */
export type StepContext = BegunStep &
  Readonly<{
    /** Media types of files that the model cannot be shown. */
    unsupported: readonly string[];
    resolved: ResolvedModel;
    tools: readonly Tool[];
    ruler: Ruler;
    /** Real tokens per estimated token, from earlier sessions with this model. */
    prior: number | null;
    measurement: Measurement;
    decision: ContextDecision;
    modelKey: ModelKey;
    /** For so long the provider may not be asked. */
    pausedMs: number;
  }>;

type AssessDeps = Pick<StepDeps, 'db' | 'modelRegistry' | 'models' | 'toolsOf' | 'log'>;
type AssessScope = LoggedScope & Pick<JobScope, 'agent' | 'contextState' | 'finalAnswerFor'>;

/** Measures the view of a step and decides whether it can be sent. */
export async function assessStep(deps: AssessDeps, scope: AssessScope, begun: BegunStep): Promise<StepContext> {
  const resolved = deps.models(scope.agent.model);
  const tools = await offeredTools(deps, scope.agent, resolved, begun.view);
  const known = begun.modelMemory === undefined ? null : recallModel(begun.modelMemory, modelKey(resolved));
  const [{ ruler, prior }, pausedMs] = await Promise.all([
    rulerOf(deps, scope.agent, resolved, tools, known?.remembered),
    known?.pausedMs ?? pauseLeftMs(deps.db, resolved),
  ]);
  const state = scope.contextState;
  const { view, unsupported } = ruler.show(begun.view);
  const measurement = ruler.measure(view, state);
  const decision = decideContext(
    ruler,
    measurement,
    state,
    () => isPrunable(ruler, view, state, measurement.total),
    mostOutputTokens(scope),
    scope.finalAnswerFor !== null,
  );
  if (decision.kind === 'proceed') {
    const { total: tokens, isAnchored } = measurement;
    deps.log('debug', { event: 'context_measured', ...logFields(scope), tokens, isAnchored });
  }
  return {
    ...begun,
    view,
    unsupported,
    resolved,
    tools,
    ruler,
    prior,
    measurement,
    decision,
    modelKey: modelKey(resolved),
    pausedMs,
  };
}

/** Whether a prune of this view, which measures so many tokens, is worth its while. */
export function isPrunable(
  { thresholds, policy, count, ratioOf }: Ruler,
  view: readonly ViewMessage[],
  state: ContextState,
  usedTokens: number,
): boolean {
  // Nothing is taken out unasked.
  if (!policy.auto) return false;
  return isPruneWorthwhile({ view, count, ratio: ratioOf(state), thresholds, policy: policy.prune, usedTokens });
}

function mostOutputTokens(scope: AssessScope): number {
  const { runId, stepNo, contextState } = scope;
  const asked = scope.agent.settings.maxOutputTokens ?? Number.POSITIVE_INFINITY;
  const capped = isAt(contextState.outputCap, { runId, stepNo }) ? contextState.outputCap.tokens : asked;
  return Math.min(asked, capped);
}

/** Remembers what an overflow taught, for every session with this model behind this endpoint. */
export async function learnLimits(
  deps: StepDeps,
  context: Pick<StepContext, 'modelKey'>,
  learned: Parameters<typeof rememberLimits>[2] | null,
): Promise<void> {
  if (learned !== null) await rememberLimits(deps.db, context.modelKey, learned);
}
