import { logFields } from '../../claims/job-scope.ts';
import type { ContextState } from '../../domain/context/meter/state.ts';
import { isAtModel } from '../../domain/context/overflow-plan.ts';
import { toErrorRecord } from '../../domain/errors.ts';
import { formatId } from '../../domain/ids.ts';
import { describeAdaptation, isSame } from '../../domain/model/remedies/adaptation.ts';
import { MAX_CHANGES, MAX_REMEDIES_PER_STEP, planRemedy } from '../../domain/model/remedies/plan-remedy.ts';
import { fileGroupsOf } from '../../domain/model/shown-media.ts';
import type { NewEvent } from '../../domain/run/events.ts';
import type { Part } from '../../domain/transcript/message.ts';
import { NO_USAGE } from '../../domain/usage.ts';
import type { ModelFailure } from '../../model/model-error.ts';
import { failureFields } from '../../platform/log.ts';
import { rememberAdaptations } from '../../store/work/model-limits.ts';
import type { Answering } from '../answering.ts';
import { endStep } from '../finish.ts';
import { keptIfCancelled, resetEvent } from './partial-answer.ts';

/**
 * The provider refused the request for its form, in words for which there is a remedy: repeats the step with a change
 * of the request. Each change is tried once in a step. False: there is none, or none is left.
 */
export async function endRefusedForm(
  answering: Answering,
  streamed: readonly Part[],
  failure: ModelFailure,
): Promise<boolean> {
  const { deps, scope, messageId, context } = answering;
  const { remedies } = scope.contextState;
  const place = { runId: scope.runId, stepNo: scope.stepNo, model: scope.agent.model };
  const tried = isAtModel(remedies, scope) ? remedies : { ...place, changes: [], count: 0 };
  if (tried.count >= MAX_REMEDIES_PER_STEP) return false;
  const changes = planRemedy(failure.class, failure.signals, {
    tools: context.tools.map(({ name }) => name),
    files: fileGroupsOf(context.view),
    adaptations: context.resolved.adaptations ?? [],
  });
  const isPossible = context.resolved.adapted !== undefined || changes.every(({ kind }) => kind === 'omit_file');
  if (changes.length === 0 || !isPossible) return false;
  const error = toErrorRecord(failure.error);
  const text = changes.map(describeAdaptation).join(' ');
  deps.log('warn', { event: 'step_failed', ...logFields(scope), ...failureFields(failure.error) });
  const kinds = [...new Set(changes.map(({ kind }) => kind))];
  deps.log('warn', { event: 'request_adapted', ...logFields(scope), model: scope.agent.model, changes: kinds });
  const events: NewEvent[] = [
    { type: 'llm:error', data: { error, recoverable: true } },
    {
      type: 'llm:adapted',
      data: {
        runId: formatId('run', scope.runId),
        step: scope.stepNo,
        model: scope.agent.model,
        changes: changes.map(({ kind, detail }) => ({ kind, detail })),
        text,
      },
    },
    resetEvent(scope, messageId),
  ];
  const contextState: ContextState = {
    ...scope.contextState,
    remedies: { ...place, changes: [...tried.changes, ...changes].slice(-2 * MAX_CHANGES), count: tried.count + 1 },
  };
  await endStep(deps, scope, {
    messageId,
    // The console shows it with the attempt.
    response: {
      messageId,
      parts: [],
      error: { ...error, message: `${error.message} Made again: ${text}` },
      superseded: true,
    },
    ...keptIfCancelled(answering, streamed),
    usage: NO_USAGE,
    steps: 0,
    contextState,
    events,
    outcome: { finishReason: 'error', toolCalls: 0, result: { kind: 'repeat', after: 'step' } },
  });
  return true;
}

/** Remembers the changes with which the provider took this step's request, for all sessions of the tenant. */
export async function rememberRemedies({ deps, scope, context }: Answering): Promise<void> {
  const { remedies } = scope.contextState;
  if (!isAtModel(remedies, scope)) return;
  const adaptations = context.resolved.adaptations ?? [];
  const helped = remedies.changes.filter((change) => adaptations.some((one) => isSame(one, change)));
  await rememberAdaptations(deps.db, scope.tenantId, context.modelKey, helped);
}
