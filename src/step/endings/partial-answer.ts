import { type JobScope, logFields } from '../../claims/job-scope.ts';
import type { ErrorRecord } from '../../domain/errors.ts';
import { formatId } from '../../domain/ids.ts';
import type { NewEvent } from '../../domain/run/events.ts';
import { partEvents } from '../../domain/run/part-events.ts';
import { CANCELLED_BEFORE_START, NOT_RUN } from '../../domain/run/settlement.ts';
import type { FinishReason, Part } from '../../domain/transcript/message.ts';
import type { PlacedCall } from '../../domain/transcript/required-action.ts';
import { NO_USAGE, type Usage } from '../../domain/usage.ts';
import type { ResponseWrite } from '../../store/work/step-writes.ts';
import type { StepDeps } from '../deps.ts';
import { endStep, type StepEnding } from '../finish.ts';

export type OpenStep = Readonly<{ deps: StepDeps; scope: JobScope; messageId: string }>;

/** Keeps the streamed parts of a cancelled run's answer. Its pending calls do not start. */
export async function endCancelledAnswer(answered: OpenStep, parts: readonly Part[]): Promise<void> {
  const { deps, scope, messageId } = answered;
  await endStep(deps, scope, {
    ...cancelledEnding(answered, parts),
    events: partEvents(messageId, parts),
    outcome: { finishReason: 'aborted', toolCalls: 0, result: { kind: 'answered' } },
  });
  deps.log('info', { event: 'step_cancelled', ...logFields(scope) });
}

function cancelledEnding(answered: OpenStep, parts: readonly Part[]): ReturnType<typeof partialEnding> {
  return partialEnding(answered, refuseCalls(parts, CANCELLED_BEFORE_START), { finishReason: 'aborted' });
}

/**
 * Replaces a dropped answer if the transaction finds the run `cancelling`: the streamed parts are kept, as in
 * `endCancelledAnswer`.
 * @param usage set if the answer was billed
 */
export function keptIfCancelled(
  answered: OpenStep,
  parts: readonly Part[],
  usage?: Usage,
): Pick<StepEnding, 'keptIfCancelled'> {
  const { response } = cancelledEnding(answered, parts);
  const billed = usage === undefined ? response : { ...response, usage };
  return { keptIfCancelled: { response: billed, events: partEvents(answered.messageId, parts) } };
}

/** Tells readers to discard their preview of the message. */
export function resetEvent(scope: JobScope, messageId: string): NewEvent {
  const data = { runId: formatId('run', scope.runId), step: scope.stepNo, messageId: formatId('message', messageId) };
  return { type: 'step:reset', data };
}

export function partialEnding(
  { messageId, scope }: OpenStep,
  parts: readonly Part[],
  {
    finishReason,
    error,
    dropped = false,
  }: Readonly<{ finishReason: FinishReason; error?: ErrorRecord; dropped?: boolean }>,
): Pick<StepEnding, 'messageId' | 'usage' | 'steps'> & Readonly<{ response: ResponseWrite }> {
  const superseded = dropped || parts.every((part) => part.type === 'step-start');
  const response: ResponseWrite = {
    messageId,
    parts,
    finishReason,
    model: scope.agent.model,
    ...(error === undefined ? {} : { error }),
    ...(superseded ? { superseded } : {}),
  };
  return { messageId, response, usage: NO_USAGE, steps: 0 };
}

/** Gives an error result to every call that has not started. @param why as the model reads it */
export function refuseCalls(parts: readonly Part[], why: string): Part[] {
  const output = { type: 'error-text', value: why } as const;
  return parts.map((part) => (isOpenCall(part) ? { ...part, state: 'error', output } : part));
}

/** In an answer that was cut off, also calls that the SDK could not read have that as the reason. */
export function refuseCutCalls(parts: readonly Part[]): Part[] {
  const output = { type: 'error-text', value: NOT_RUN } as const;
  return parts.map((part) =>
    part.type === 'tool' && part.providerExecuted !== true && (part.state === 'pending' || part.state === 'error')
      ? { ...part, state: 'error', output }
      : part,
  );
}

/** True: a call that has not started. */
export function isOpenCall(part: Part): part is PlacedCall['part'] {
  return part.type === 'tool' && part.state === 'pending';
}
