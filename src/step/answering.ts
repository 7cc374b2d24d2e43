import type { JobScope } from '../claims/job-scope.ts';
import { costOf } from '../domain/context/limits/cost.ts';
import { formatId } from '../domain/ids.ts';
import { callEvent, callResultEvent } from '../domain/run/call-events.ts';
import type { NewEvent } from '../domain/run/events.ts';
import type { StepResult } from '../domain/run/next-step.ts';
import { partEvents } from '../domain/run/part-events.ts';
import type { FinishReason, Part } from '../domain/transcript/message.ts';
import type { CallRequiringAction, PlacedCall } from '../domain/transcript/required-action.ts';
import type { KeptRequest } from '../store/transcript/step-request.ts';
import type { ResponseWrite } from '../store/work/step-writes.ts';
import type { ModelResponse } from './call-model.ts';
import type { StepDeps } from './deps.ts';
import { childrenOf, type ToolsByName } from './required-actions.ts';
import type { StepContext } from './step-context.ts';
import type { ToolRunner } from './tool-runner/tool-runner.ts';

export type Answering = Readonly<{
  deps: StepDeps;
  scope: JobScope;
  messageId: string;
  context: StepContext;
  runner: ToolRunner;
  maxOutputTokens: number;
  isWindowBound: boolean;
  /** Hashes of the request; set once that is sent. */
  request?: KeptRequest;
}>;

/** The result of a whole answer. A refusal (`content-filter`) fails the run with a typed error. */
export function resultOf(
  scope: JobScope,
  messageId: string,
  {
    finishReason,
    requiring,
    tools,
  }: Readonly<{ finishReason: FinishReason; requiring: readonly CallRequiringAction[]; tools: ToolsByName }>,
): StepResult {
  if (finishReason === 'content-filter') {
    const error = { code: 'content_policy', message: 'The provider stopped its answer for its content.' } as const;
    return { kind: 'failed', error };
  }
  if (requiring.length === 0) return { kind: 'answered' };
  const children = childrenOf(tools, messageId, requiring);
  return { kind: 'asks', messageId, calls: requiring, children, waitMs: scope.agent.limits.approvalTimeoutMs ?? null };
}

/** @param starts indices of the calls that are `running` with this write */
export function toWrite(
  { messageId, scope, request }: Answering,
  response: ModelResponse,
  starts: ReadonlySet<number> = new Set(),
): ResponseWrite {
  const { finishReason, usage } = response;
  const parts = response.parts.map(
    (part, index): Part => (part.type === 'tool' && starts.has(index) ? { ...part, state: 'running' } : part),
  );
  return { messageId, parts, finishReason, usage, model: scope.agent.model, ...(request !== undefined && { request }) };
}

export function responseEvents(answering: Answering, response: ModelResponse): NewEvent[] {
  const { messageId: id, context } = answering;
  const messageId = formatId('message', id);
  const textOf = (type: 'text' | 'reasoning'): string =>
    response.parts.flatMap((part) => (part.type === type ? [part.text] : [])).join('');
  const reasoning = textOf('reasoning');
  const { provider, modelId: model } = context.resolved;
  const { finishReason, usage: tokenUsage } = response;
  const measured = measuredIn(answering, response);
  const answered = { messageId, content: textOf('text'), provider, model, finishReason, tokenUsage, ...measured };
  const rest = response.parts.flatMap((part, index): NewEvent[] =>
    part.type === 'tool' ? callEvents(id, { index, part }) : partEvents(id, [part]),
  );
  const event: NewEvent = { type: 'llm:response', data: reasoning === '' ? answered : { ...answered, reasoning } };
  return [...unsupportedEvents(context), event, ...rest];
}

function measuredIn({ deps, scope, context }: Answering, { usage, timing }: ModelResponse) {
  const { waitedMs, claimMs } = scope;
  const { total: usedTokens } = context.measurement;
  const { usableTokens } = context.meter.thresholds;
  return {
    costUsd: costOf(usage, context.meter.entry),
    workerId: deps.workerId,
    timing: { waitedMs, claimMs, ...timing },
    context: { usedTokens, usableTokens },
  };
}

/** Reports media types that the model was not shown; once per step, with its answer. */
function unsupportedEvents({ unsupported, meter }: StepContext): NewEvent[] {
  if (unsupported.length === 0) return [];
  return [{ type: 'llm:unsupported-input', data: { model: meter.model, mediaTypes: [...unsupported] } }];
}

/** The event of a call, and its result if that came with the response (invalid input, or run by the provider). */
function callEvents(messageId: string, call: PlacedCall): NewEvent[] {
  const { state, output } = call.part;
  if (output === undefined || (state !== 'completed' && state !== 'error')) return [callEvent(messageId, call)];
  return [callEvent(messageId, call), callResultEvent(messageId, call, { state, output })];
}
