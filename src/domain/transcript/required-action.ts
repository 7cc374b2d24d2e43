import { z } from 'zod';
import { formatCallId, formatId } from '../ids.ts';
import { type Json, jsonSchema, outputItemSchema, type ToolOutput, type ToolPart } from './message.ts';
import type { ToolCallState } from './tool-call.ts';

/**
 * `approval`: a person lets the call run or denies it. `output`: the client runs it and returns the output.
 * `unknown_outcome`: its worker died while it ran, and a person decides whether it runs again.
 */
export const ACTION_KINDS = ['approval', 'output', 'unknown_outcome'] as const;
export type ActionKind = (typeof ACTION_KINDS)[number];

/** A call and its index among the parts of its message. */
export type PlacedCall = Readonly<{ index: number; part: ToolPart }>;

/** A call that requires an action before the run goes on. */
export type CallRequiringAction = PlacedCall & Readonly<{ kind: ActionKind }>;

/** A required action as callers see it. */
export const requiredActionSchema = z.strictObject({
  /** The call key. Unlike the provider's id it is unique. */
  id: z.string(),
  kind: z.enum(ACTION_KINDS),
  messageId: z.string(),
  toolName: z.string(),
  args: jsonSchema,
});
export type RequiredAction = z.infer<typeof requiredActionSchema>;

/** @param messageId the UUID of its message */
export function toRequiredAction(messageId: string, { index, part, kind }: CallRequiringAction): RequiredAction {
  const { toolName, input: args } = part;
  return { id: formatCallId(messageId, index), kind, messageId: formatId('message', messageId), toolName, args };
}

const failed = { isError: z.literal(true).optional() };

/** A client's output for a call: a string or any JSON value, or texts and files. In storage its files are blobs. */
const outputAnswerSchema = z.union([
  z.strictObject({ output: jsonSchema, ...failed }),
  z.strictObject({ content: z.array(outputItemSchema).min(1), ...failed }),
]);
export type OutputAnswer = Readonly<z.infer<typeof outputAnswerSchema>>;

/** An answer to a required action. `expired`: none came in time. */
const callAnswerSchema = z.union([
  z.strictObject({ decision: z.enum(['approve', 'expired']) }),
  z.strictObject({ decision: z.literal('deny'), reason: z.string().optional() }),
  outputAnswerSchema,
]);
export type CallAnswer = Readonly<z.infer<typeof callAnswerSchema>>;

/** A stored answer. `open`: calls of the batch that were open after it. */
export const recordedAnswerSchema = z.strictObject({ given: callAnswerSchema, open: z.number().int() });
export type RecordedAnswer = z.infer<typeof recordedAnswerSchema>;

export const isOutput = (answer: CallAnswer): answer is OutputAnswer => 'output' in answer || 'content' in answer;

export const answerWord = (answer: CallAnswer): 'approve' | 'deny' | 'output' | 'expired' =>
  isOutput(answer) ? 'output' : answer.decision;

/** The state of a call after an answer, with `output` if that is its outcome. */
export type CallResolution = Readonly<{ state: ToolCallState; output?: ToolOutput }>;
/** An outcome that the model is shown. */
export type CallOutcome = Readonly<{ state: 'completed' | 'error' | 'denied'; output: ToolOutput }>;

export const WAITING_STATES = {
  approval: 'awaiting_approval',
  output: 'awaiting_output',
  unknown_outcome: 'unknown',
} as const satisfies Record<ActionKind, ToolCallState>;

/** The model reads it if no answer came in time. */
export const EXPIRED = 'Nobody answered in time.';

/** The model reads it in place of the result of a call with an unknown outcome. */
export const UNKNOWN_OUTCOME =
  'The outcome of this call is unknown: the worker died while it ran. It may or may not have taken effect. Verify before you repeat it.';

/** Null: the answer does not fit the action. The next worker runs approved calls and fits outputs into the view. */
export function planAnswer(kind: ActionKind, answer: CallAnswer): CallResolution | null {
  if (isOutput(answer)) return kind === 'approval' ? null : { state: kind === 'output' ? 'pending' : 'unknown' };
  if (answer.decision === 'approve') {
    if (kind === 'output') return null;
    return { state: kind === 'approval' ? 'pending' : 'unknown' };
  }
  const given = answer.decision === 'deny' ? answer.reason : undefined;
  if (kind === 'unknown_outcome') return unknownOutcome(given);
  const reason = answer.decision === 'deny' ? given : EXPIRED;
  return { state: 'denied', output: { type: 'execution-denied', ...(reason !== undefined && { reason }) } };
}

function unknownOutcome(reason: string | undefined): CallOutcome {
  const value = reason === undefined ? UNKNOWN_OUTCOME : `${UNKNOWN_OUTCOME} ${reason}`;
  return { state: 'error', output: { type: 'error-text', value } };
}

/** The outcome of a call whose output a client gave. A failed call keeps its texts and files. */
export function outcomeOf(answer: OutputAnswer): CallOutcome {
  const { isError } = answer;
  if ('content' in answer) {
    const state = isError === true ? 'error' : 'completed';
    const value = isError === true ? [{ type: 'text' as const, text: CALL_FAILED }, ...answer.content] : answer.content;
    return { state, output: { type: 'content', value } };
  }
  const { output } = answer;
  if (isError === true) return { state: 'error', output: { type: 'error-text', value: textOf(output) } };
  return {
    state: 'completed',
    output: typeof output === 'string' ? { type: 'text', value: output } : { type: 'json', value: output },
  };
}

/** The model reads it before the texts and files that explain the failure. */
const CALL_FAILED = 'The call failed:';

const textOf = (value: Json): string => (typeof value === 'string' ? value : JSON.stringify(value));

/** The outcome of an open call whose run ends; a given output is kept. `notStarted`: for a call that never ran. */
export function closeCall(state: ToolCallState, answer: CallAnswer | null, notStarted: string): CallOutcome {
  if (answer !== null && isOutput(answer)) return outcomeOf(answer);
  if (state === 'running' || state === 'unknown') return unknownOutcome(undefined);
  return { state: 'error', output: { type: 'error-text', value: notStarted } };
}
