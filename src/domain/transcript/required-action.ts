import { z } from 'zod';
import { formatCallId, formatId } from '../ids.ts';
import { type Json, jsonSchema, outputItemSchema, type ToolOutput, type ToolPart } from './message.ts';
import type { ToolCallState } from './tool-call.ts';

/**
 * What a call waits for. `approval`: somebody lets it run or not. `output`: the client runs it and says what came of
 * it. `unknown_outcome`: its worker died while it ran, and somebody says whether it is run again.
 */
export const ACTION_KINDS = ['approval', 'output', 'unknown_outcome'] as const;
export type ActionKind = (typeof ACTION_KINDS)[number];

/** One call of a batch, where it stands in its message. */
export type PlacedCall = Readonly<{ index: number; part: ToolPart }>;

/** A call that somebody has to say something about before the run goes on. */
export type CallRequiringAction = PlacedCall & Readonly<{ kind: ActionKind }>;

/** A call that a run waits for, as callers see it. */
export const requiredActionSchema = z.strictObject({
  /** Names the call and no other one; what the provider calls it may come again. */
  id: z.string(),
  kind: z.enum(ACTION_KINDS),
  messageId: z.string(),
  toolName: z.string(),
  args: jsonSchema,
});
export type RequiredAction = z.infer<typeof requiredActionSchema>;

/** A call that waits for somebody, as clients are told it. `messageId`: the UUID of its message. */
export function toRequiredAction(messageId: string, { index, part, kind }: CallRequiringAction): RequiredAction {
  const { toolName, input: args } = part;
  return { id: formatCallId(messageId, index), kind, messageId: formatId('message', messageId), toolName, args };
}

const failed = { isError: z.literal(true).optional() };

/**
 * The output that a client gives for a call: a string or any JSON value, as a tool would return it, or texts and files.
 * As it is kept it names its files as blobs.
 */
const outputAnswerSchema = z.union([
  z.strictObject({ output: jsonSchema, ...failed }),
  z.strictObject({ content: z.array(outputItemSchema).min(1), ...failed }),
]);
export type OutputAnswer = Readonly<z.infer<typeof outputAnswerSchema>>;

/** What somebody said about a call. `expired`: nobody did in time. */
const callAnswerSchema = z.union([
  z.strictObject({ decision: z.enum(['approve', 'expired']) }),
  z.strictObject({ decision: z.literal('deny'), reason: z.string().optional() }),
  outputAnswerSchema,
]);
export type CallAnswer = Readonly<z.infer<typeof callAnswerSchema>>;

/** An answer as it is kept, with how many calls of the batch were open after it. */
export const recordedAnswerSchema = z.strictObject({ given: callAnswerSchema, open: z.number().int() });
export type RecordedAnswer = z.infer<typeof recordedAnswerSchema>;

export const isOutput = (answer: CallAnswer): answer is OutputAnswer => 'output' in answer || 'content' in answer;

/** The answer in one word. */
export const answerWord = (answer: CallAnswer): 'approve' | 'deny' | 'output' | 'expired' =>
  isOutput(answer) ? 'output' : answer.decision;

/** What becomes of a call. `output` where that is its outcome. */
export type CallResolution = Readonly<{ state: ToolCallState; output?: ToolOutput }>;
/** An outcome that the model is shown. */
export type CallOutcome = Readonly<{ state: 'completed' | 'error' | 'denied'; output: ToolOutput }>;

/** How a call that waits is marked. */
export const WAITING_STATES = {
  approval: 'awaiting_approval',
  output: 'awaiting_output',
  unknown_outcome: 'unknown',
} as const satisfies Record<ActionKind, ToolCallState>;

/** What the model reads where nobody answered in time. */
export const EXPIRED = 'Nobody answered in time.';

/** What the model reads in place of the result of a call whose outcome nobody knows. */
export const UNKNOWN_OUTCOME =
  'The outcome of this call is unknown: the worker died while it ran. It may or may not have taken effect. Verify before you repeat it.';

/**
 * What an answer makes of the call, or null where it does not fit what was asked. A call that is to run, and an output
 * that is to be fitted into the view, are left to the next worker.
 */
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

/** The outcome of a call whose output a client gave. What shows how it failed is shown as such. */
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

/** What the model reads before the texts and files that say why. */
const CALL_FAILED = 'The call failed:';

const textOf = (value: Json): string => (typeof value === 'string' ? value : JSON.stringify(value));

/**
 * The outcome of a call without one, whose run ends. An output that a client gave is kept.
 * @param notStarted what the model reads of a call that never ran
 */
export function closeCall(state: ToolCallState, answer: CallAnswer | null, notStarted: string): CallOutcome {
  if (answer !== null && isOutput(answer)) return outcomeOf(answer);
  if (state === 'running' || state === 'unknown') return unknownOutcome(undefined);
  return { state: 'error', output: { type: 'error-text', value: notStarted } };
}
