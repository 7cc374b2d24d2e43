import { z } from 'zod';
import { type ErrorRecord, errorRecordSchema } from '../errors.ts';
import { formatId } from '../ids.ts';
import { type Json, jsonSchema } from '../transcript/message.ts';
import type { OutputAnswer } from '../transcript/required-action.ts';
import { INCOMPLETE_REASONS } from './run.ts';
import type { RunLimits } from './run-limits.ts';

/** Greatest depth of a session in its tree. A session that no call began is at depth 0. */
export const MAX_CHILD_DEPTH = 3;

/** Children of one tool that run at a time, unless the agent says otherwise. */
export const DEFAULT_MAX_PARALLEL = 16;

/** `wait`: the call ends with the child's run. `background`: it ends at once, and the parent is told of the end. */
export const CHILD_MODES = ['wait', 'background'] as const;
type ChildMode = (typeof CHILD_MODES)[number];

/** See the table `children`. */
export const CHILD_STATES = ['held', 'asked', 'running', 'ended', 'delivered', 'dropped'] as const;
export type ChildState = (typeof CHILD_STATES)[number];

/**
 * Status of a child, for people and programs. `waiting`: it is not begun yet. `requires_action`: a person or a client
 * has to act on its calls.
 */
export const CHILD_STATUSES = [
  'waiting',
  'running',
  'requires_action',
  'completed',
  'incomplete',
  'failed',
  'cancelled',
  'refused',
] as const;
export type ChildStatus = (typeof CHILD_STATUSES)[number];

/** An agent's settings for the children of one of its tools. */
export type ChildSpec = Readonly<{
  agent: string;
  mode: ChildMode;
  limits: RunLimits;
  maxParallel: number;
}>;

/** A call that begins or continues a session, with the ids that are made of its key. */
export type ChildCall = ChildSpec & Readonly<{ toolName: string; sessionId: string; runId: string }>;

const MAX_TASK_CHARS = 100_000;

/** The input of such a call. */
export const childInputSchema = z.strictObject({
  task: z
    .string()
    .min(1, 'says what the agent has to do')
    .max(MAX_TASK_CHARS)
    .describe('Task of the agent, which sees nothing else of this conversation.'),
  context: z.string().max(MAX_TASK_CHARS).optional().describe('Facts that the agent needs for the task.'),
  session: z
    .string()
    .optional()
    .describe('The `session` of an earlier result of this tool: that agent goes on, and knows all that it has done.'),
});
export type ChildInput = Readonly<z.infer<typeof childInputSchema>>;

/** The first message of a child. */
export const taskText = ({ task, context }: ChildInput): string =>
  context === undefined || context.trim() === '' ? task : `${task}\n\n<context>\n${context}\n</context>`;

const nonnegative = z.number().nonnegative();

/** The end of a child's run. `refused`: the run was not begun. */
export const childResultSchema = z.strictObject({
  status: z.enum(['completed', 'incomplete', 'failed', 'cancelled', 'refused']),
  reason: z.enum(INCOMPLETE_REASONS).nullish(),
  error: errorRecordSchema.nullish(),
  /** The last whole answer. `value`: the result that a schema asked for. */
  text: z.string().nullish(),
  value: jsonSchema.optional(),
  /** Sums over the child's run and the children of that run. */
  steps: nonnegative,
  tokens: nonnegative,
  /** US dollars. Null: the price of a call is unknown. */
  costUsd: nonnegative.nullable(),
});
export type ChildResult = Readonly<z.infer<typeof childResultSchema>>;

/** The result of a call that began no run. */
export const refusedChild = (error: ErrorRecord): ChildResult => ({
  status: 'refused',
  error,
  steps: 0,
  tokens: 0,
  costUsd: 0,
});

type Named = Readonly<{ sessionId: string; runId: string }>;

/** @param status the end of the child's run; null: the run has not ended, or was never begun */
export function childStatus(
  state: ChildState,
  { status, asks }: Readonly<{ status: ChildResult['status'] | null; asks: number }>,
): ChildStatus {
  if (status !== null) return status;
  if (state === 'held' || state === 'asked') return 'waiting';
  if (state === 'dropped') return 'cancelled';
  return asks > 0 ? 'requires_action' : 'running';
}

/** Text about an ended child for the model. A failure names the session, so that the model can go on with it. */
export function childAnswer(child: Named, result: ChildResult): OutputAnswer {
  const isError = result.status !== 'completed' && result.status !== 'incomplete';
  return { kind: 'output', output: resultText(child, result), ...(isError && { isError }) };
}

/** The result as text: JSON in the database does not keep the order, and the answer comes last. */
function resultText({ sessionId, runId }: Named, result: ChildResult): string {
  const { status, reason, error, text, value, steps, tokens, costUsd } = result;
  const wasBegun = status !== 'refused';
  const report: Json = {
    status,
    ...(wasBegun && { session: formatId('session', sessionId), run: formatId('run', runId) }),
    ...(typeof reason === 'string' && { reason }),
    ...(error != null && { error: { code: error.code, message: error.message } }),
    ...(wasBegun && { steps, tokens, costUsd }),
    ...(value !== undefined ? { output: value } : typeof text === 'string' && { answer: text }),
  };
  return JSON.stringify(report);
}

/** Text about a child in the background for the model. */
export const backgroundAnswer = ({ sessionId, runId }: Named): OutputAnswer => ({
  kind: 'output',
  output: JSON.stringify({
    status: 'running',
    session: formatId('session', sessionId),
    run: formatId('run', runId),
    note: 'It works in the background. You are told when it has ended.',
  }),
});

/** The message by which a model is told of the end of a child in the background. */
export function endNotice(agent: string, child: Named, result: ChildResult): string {
  return `<notice from="system">\nThis is no message of the user. The agent ${agent}, which works in the background, has ended:\n${resultText(child, result)}\n</notice>`;
}

/** The smallest value of each limit over all sets. */
export function tightest(...all: readonly RunLimits[]): RunLimits {
  const least = (key: keyof RunLimits): number | undefined => {
    const bounds = all.flatMap((limits) => limits[key] ?? []);
    return bounds.length === 0 ? undefined : Math.min(...bounds);
  };
  const keys = ['maxSteps', 'maxTokens', 'maxCostUsd', 'deadlineMs'] as const;
  return Object.fromEntries(
    keys.flatMap((key) => {
      const limit = least(key);
      return limit === undefined ? [] : [[key, limit]];
    }),
  );
}

/** Work that a process has to do for a child. `stop` cancels its run; `ask` tells the root that a person has to act. */
export type ChildDuty = 'begin' | 'tell' | 'ask' | 'stop' | 'deliver';

type Kept = Readonly<{
  state: ChildState;
  stopRequested: boolean;
  isTold: boolean;
  asks: number;
  asksTold: number;
  result: ChildResult | null;
}>;

/** The next duty. Null: there is none. */
export function dutyOf({ state, stopRequested, isTold, asks, asksTold, result }: Kept): ChildDuty | null {
  if (state === 'asked') return 'begin';
  if (state !== 'running' && state !== 'ended') return null;
  // Readers hear of a child that was never begun only by its end.
  const wasBegun = result === null || result.status !== 'refused';
  if (state === 'running' && stopRequested) return 'stop';
  if (!isTold && wasBegun && !stopRequested) return 'tell';
  if (asks !== asksTold) return 'ask';
  return state === 'ended' ? 'deliver' : null;
}
