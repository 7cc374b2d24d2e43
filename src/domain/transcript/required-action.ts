import { z } from 'zod';
import { formatCallId, formatId } from '../ids.ts';
import { type CallQuestion, questionItemSchema } from './call-question.ts';
import {
  type Json,
  jsonObjectSchema,
  jsonSchema,
  outputItemSchema,
  type ToolOutput,
  type ToolPart,
} from './message.ts';
import type { ToolCallState } from './tool-call.ts';

/**
 * `approval`: a person lets the call run or denies it. `output`: the client runs it and returns the output.
 * `unknown_outcome`: its worker died while it ran, and a person decides whether it runs again. `input`: the tool has begun,
 * and asks a person for more before it goes on.
 */
export const ASKED_KINDS = ['approval', 'output', 'unknown_outcome', 'input'] as const;
/** `child`: the call ends with the run of the session that it began; no person or client has to act. */
export const ACTION_KINDS = [...ASKED_KINDS, 'child'] as const;
export type ActionKind = (typeof ACTION_KINDS)[number];
export type AskedKind = (typeof ASKED_KINDS)[number];

/** A call and its index among the parts of its message. */
export type PlacedCall = Readonly<{ index: number; part: ToolPart }>;

/** A call that requires an action before the run goes on. `question`: set for `input`. */
export type CallRequiringAction = PlacedCall & Readonly<{ kind: ActionKind; question?: CallQuestion | null }>;
/** One on which a person or a client has to act. */
export type AskedCall = CallRequiringAction & Readonly<{ kind: AskedKind }>;

/** Whether a person or a client has to act on it. */
export const isAsked = <Call extends Readonly<{ kind: ActionKind }>>(call: Call): call is Call & { kind: AskedKind } =>
  call.kind !== 'child';

/** A required action as callers see it. */
export const requiredActionSchema = z.strictObject({
  /** The call key. Unlike the provider's id it is unique. */
  id: z.string(),
  kind: z.enum(ASKED_KINDS),
  messageId: z.string(),
  toolName: z.string(),
  args: jsonSchema,
  /** Set for `input`. */
  questions: z.array(questionItemSchema).optional(),
  /** Set at the root if a session below it asks. */
  child: z.strictObject({ sessionId: z.string(), runId: z.string(), agent: z.string() }).optional(),
});
export type RequiredAction = z.infer<typeof requiredActionSchema>;

/** @param messageId the UUID of its message */
export function toRequiredAction(messageId: string, { index, part, kind, question }: AskedCall): RequiredAction {
  const { toolName, input: args } = part;
  const action = {
    id: formatCallId(messageId, index),
    kind,
    messageId: formatId('message', messageId),
    toolName,
    args,
  };
  return question == null ? action : { ...action, questions: question.items };
}

const failed = { isError: z.literal(true).optional() };

/** A client's output for a call: a string or any JSON value, or texts and files. In storage its files are blobs. */
const outputAnswerSchema = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('output'), output: jsonSchema, ...failed }),
  z.strictObject({ kind: z.literal('content'), content: z.array(outputItemSchema).min(1), ...failed }),
]);
export type OutputAnswer = Readonly<z.infer<typeof outputAnswerSchema>>;

/** An answer to a required action. `expired`: none came in time. `args`: the call runs with these. */
const callAnswerSchema = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('approve'), args: jsonObjectSchema.optional() }),
  z.strictObject({ kind: z.literal('expired') }),
  z.strictObject({ kind: z.literal('deny'), reason: z.string().optional() }),
  outputAnswerSchema,
]);
export type CallAnswer = Readonly<z.infer<typeof callAnswerSchema>>;

/**
 * A stored answer. `open`: calls of the batch that were open after it. `insteadOf`: the arguments of the model, where it
 * was approved with others.
 */
export const recordedAnswerSchema = z.strictObject({
  given: callAnswerSchema,
  open: z.number().int(),
  insteadOf: jsonSchema.optional(),
});
export type RecordedAnswer = z.infer<typeof recordedAnswerSchema>;

export const isOutput = (answer: CallAnswer): answer is OutputAnswer =>
  answer.kind === 'output' || answer.kind === 'content';

export const answerWord = (answer: CallAnswer): 'approve' | 'deny' | 'output' | 'expired' =>
  isOutput(answer) ? 'output' : answer.kind;

/** The state of a call after an answer, with `output` if that is its outcome, and with `input` if that is another one. */
export type CallResolution = Readonly<{ state: ToolCallState; output?: ToolOutput; input?: Json }>;
/** An outcome that the model is shown. */
export type CallOutcome = Readonly<{ state: 'completed' | 'error' | 'denied'; output: ToolOutput }>;

export const WAITING_STATES = {
  approval: 'awaiting_approval',
  output: 'awaiting_output',
  unknown_outcome: 'unknown',
  input: 'awaiting_output',
  child: 'awaiting_output',
} as const satisfies Record<ActionKind, ToolCallState>;

/** The model reads it if no answer came in time. */
export const EXPIRED = 'No answer came in time.';

/** The model reads it in place of the result of a call with an unknown outcome. */
export const UNKNOWN_OUTCOME =
  'The outcome of this call is unknown: the worker died while it ran. It may or may not have taken effect. Verify before you repeat it.';

/** The model reads it of a call whose run ended while the tool waited for an answer. */
export const UNFINISHED =
  'The tool asked for more and the run ended before it went on. It may have taken effect in part: verify before you repeat it.';

/**
 * Null: the answer does not fit the action. The next worker runs approved calls, fits outputs into the view, and takes
 * answers to the tools that asked.
 */
export function planAnswer(kind: ActionKind, answer: CallAnswer): CallResolution | null {
  return kind === 'input' ? planReply(answer) : planDecision(kind, answer);
}

/** The answer to the question of a tool: JSON, or that there is none. */
function planReply(answer: CallAnswer): CallResolution | null {
  const isReply = answer.kind !== 'approve' && answer.kind !== 'content' && !('isError' in answer);
  return isReply ? { state: 'pending' } : null;
}

function planDecision(kind: Exclude<ActionKind, 'input'>, answer: CallAnswer): CallResolution | null {
  if (isOutput(answer))
    return kind === 'approval' ? null : { state: WAITING_STATES[kind] === 'unknown' ? 'unknown' : 'pending' };
  if (answer.kind === 'approve') {
    const { args: input } = answer;
    // A call of unknown outcome may have taken effect with the arguments that it has.
    if (kind === 'output' || kind === 'child' || (kind === 'unknown_outcome' && input !== undefined)) return null;
    return { state: kind === 'approval' ? 'pending' : 'unknown', ...(input !== undefined && { input }) };
  }
  const denialReason = answer.kind === 'deny' ? answer.reason : undefined;
  if (kind === 'unknown_outcome') return unknownOutcome(denialReason);
  const reason = answer.kind === 'deny' ? denialReason : EXPIRED;
  return { state: 'denied', output: { type: 'execution-denied', ...(reason !== undefined && { reason }) } };
}

function unknownOutcome(reason: string | undefined): CallOutcome {
  const value = reason === undefined ? UNKNOWN_OUTCOME : `${UNKNOWN_OUTCOME} ${reason}`;
  return { state: 'error', output: { type: 'error-text', value } };
}

/** The outcome of a call whose output a client gave. A failed call keeps its texts and files. */
export function outcomeOf(answer: OutputAnswer): CallOutcome {
  const { isError } = answer;
  if (answer.kind === 'content') {
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

/** An open call of a run that ends. */
type ClosingCall = Readonly<{ state: ToolCallState; kind: ActionKind | null }>;

/** The outcome of an open call whose run ends; a given output is kept. `notStarted`: for a call that never ran. */
export function closeCall({ state, kind }: ClosingCall, answer: CallAnswer | null, notStarted: string): CallOutcome {
  if (answer !== null && isOutput(answer) && kind !== 'input') return outcomeOf(answer);
  if (state === 'running' || state === 'unknown') return unknownOutcome(undefined);
  if (kind === 'input') return { state: 'error', output: { type: 'error-text', value: UNFINISHED } };
  return { state: 'error', output: { type: 'error-text', value: notStarted } };
}
