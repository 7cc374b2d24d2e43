import type { JobScope } from '../claims/job-scope.ts';
import type { ErrorRecord } from '../domain/errors.ts';
import { formatId } from '../domain/ids.ts';
import { callEvent, callResultEvent } from '../domain/run/call-events.ts';
import type { NewEvent } from '../domain/run/events.ts';
import type { StepOutcome } from '../domain/run/next-step.ts';
import { partEvents } from '../domain/run/part-events.ts';
import type { FinishReason, Part } from '../domain/transcript/message.ts';
import type { CallRequiringAction, PlacedCall } from '../domain/transcript/required-action.ts';
import type { ResponseWrite } from '../store/step-writes.ts';
import type { ModelResponse } from './call-model.ts';
import type { StepDeps } from './deps.ts';
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
}>;

/** A refusal (`content-filter`) fails the run with a typed error. */
export function refusalOf(finishReason: FinishReason): { error?: ErrorRecord } {
  if (finishReason !== 'content-filter') return {};
  return { error: { code: 'content_policy', message: 'The provider stopped its answer for its content.' } };
}

export function asksOf(
  scope: JobScope,
  messageId: string,
  calls: readonly CallRequiringAction[],
): Pick<StepOutcome, 'asks'> {
  if (calls.length === 0) return {};
  return { asks: { messageId, calls, waitMs: scope.agent.limits.approvalTimeoutMs ?? null } };
}

/** @param starts indices of the calls that are `running` with this write */
export function toWrite(
  { messageId, scope }: Answering,
  response: ModelResponse,
  starts: ReadonlySet<number> = new Set(),
): ResponseWrite {
  const { finishReason, usage } = response;
  const parts = response.parts.map(
    (part, index): Part => (part.type === 'tool' && starts.has(index) ? { ...part, state: 'running' } : part),
  );
  return { messageId, parts, finishReason, usage, model: scope.agent.model };
}

export function responseEvents({ messageId: id, context }: Answering, response: ModelResponse): NewEvent[] {
  const messageId = formatId('message', id);
  const textOf = (type: 'text' | 'reasoning'): string =>
    response.parts.flatMap((part) => (part.type === type ? [part.text] : [])).join('');
  const reasoning = textOf('reasoning');
  const { provider, modelId: model } = context.resolved;
  const { finishReason, usage: tokenUsage } = response;
  const answered = { messageId, content: textOf('text'), provider, model, finishReason, tokenUsage };
  const rest = response.parts.flatMap((part, index): NewEvent[] =>
    part.type === 'tool' ? callEvents(id, { index, part }) : partEvents(id, [part]),
  );
  const said: NewEvent = { type: 'llm:response', data: reasoning === '' ? answered : { ...answered, reasoning } };
  return [...unsupportedEvents(context), said, ...rest];
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
