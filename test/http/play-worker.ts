import type { ErrorRecord } from '../../src/domain/errors.ts';
import type { JobPayload } from '../../src/domain/run/job.ts';
import { planNext, type StepOutcome } from '../../src/domain/run/next-step.ts';
import type { Json, ToolPart } from '../../src/domain/transcript/message.ts';
import {
  type ActionKind,
  isAsked,
  type RequiredAction,
  toRequiredAction,
} from '../../src/domain/transcript/required-action.ts';
import { newId } from '../../src/platform/new-id.ts';
import type { Db } from '../../src/store/db/database.ts';
import { type ClaimedRun, claimRun, type Fence } from '../../src/store/work/claims.ts';
import type { FinishedWork } from '../../src/store/work/finished-work.ts';
import { finishStep, type ResponseWrite } from '../../src/store/work/step-writes.ts';

export type Claimed = Readonly<{ fence: Fence; run: ClaimedRun['run']; job: JobPayload; messageId: string }>;

const USAGE = {
  inputTokens: 12,
  outputTokens: 5,
  reasoningTokens: 2,
  cacheReadTokens: 4,
  cacheWriteTokens: 0,
  totalTokens: 17,
};

/** Takes a job as a worker does. */
export async function claimJob(db: Db, job: JobPayload | undefined, messageId = newId()): Promise<Claimed> {
  if (job === undefined) throw new Error('there is no job');
  const claimId = newId();
  const claim = await claimRun(db, { job, claimId, workerId: 'w1', leaseDurationMs: 30_000, messageId });
  if (claim.outcome !== 'claimed') throw new Error(`the job was not claimed: ${claim.outcome}`);
  return { fence: { runId: job.runId, epoch: claim.epoch, claimId }, run: claim.run, job, messageId };
}

/** Ends the step with an answer, and with it the run unless a message waits. */
export function answerStep(db: Db, claimed: Claimed, text: string): Promise<FinishedWork> {
  return endStep(db, claimed, {
    messageId: claimed.messageId,
    parts: [{ type: 'step-start' }, { type: 'text', text }],
    finishReason: 'stop',
    model: 'simulated/coder',
    usage: USAGE,
  });
}

/** Ends the step with an error of the model that may pass: it is tried again after a pause. */
export function retryStep(db: Db, claimed: Claimed, error: ErrorRecord, delayMs: number): Promise<FinishedWork> {
  const retry = { delayMs, attempt: claimed.run.attempt };
  const { messageId } = claimed;
  const dropped = { messageId, parts: [], finishReason: 'error', error, superseded: true } as const;
  return endStep(db, claimed, dropped, { result: { kind: 'failed', error, retry } });
}

/** Ends the run with an error of the model. */
export function failStep(db: Db, claimed: Claimed, error: ErrorRecord): Promise<FinishedWork> {
  return endStep(
    db,
    claimed,
    { messageId: claimed.messageId, parts: [], finishReason: 'error', error },
    {
      result: { kind: 'failed', error },
    },
  );
}

/** Ends the run after a step with a call, by a limit or by a context that cannot be made to fit. */
export function stopStep(
  db: Db,
  claimed: Claimed,
  stopped: Partial<Pick<StepOutcome, 'limit' | 'result'>>,
): Promise<FinishedWork> {
  const response = { messageId: claimed.messageId, parts: [], finishReason: 'tool-calls' } as const;
  return endStep(db, claimed, response, { toolCalls: 1, ...stopped });
}

/** Ends the step with calls that wait for an answer. No worker has the run afterwards. */
export async function askStep(
  db: Db,
  claimed: Claimed,
  asked: readonly Readonly<{ kind: ActionKind; toolName: string; input?: Json }>[],
  waitMs: number | null = null,
  hasWorkOutside = false,
): Promise<readonly RequiredAction[]> {
  const { messageId } = claimed;
  const parts = asked.map(({ kind, toolName, input = { by: toolName } }): ToolPart => {
    const state = kind === 'unknown_outcome' ? 'unknown' : 'pending';
    return { type: 'tool', toolCallId: 'again', toolName, input, state };
  });
  const calls = asked.flatMap(({ kind }, index) => {
    const part = parts[index];
    return part === undefined ? [] : [{ kind, index, part }];
  });
  const response = { messageId, parts, finishReason: 'tool-calls', model: 'simulated/coder', usage: USAGE } as const;
  await endStep(db, claimed, response, {
    toolCalls: calls.length,
    result: { kind: 'asks', messageId, calls, waitMs },
    ...(hasWorkOutside && { hasWorkOutside }),
  });
  return calls.filter(isAsked).map((call) => toRequiredAction(messageId, call));
}

/** Ends the step with any result, as `planNext` plans it. */
export async function endStep(
  db: Db,
  claimed: Claimed,
  response: ResponseWrite,
  outcome: Partial<Pick<StepOutcome, 'limit' | 'toolCalls' | 'result' | 'hasWorkOutside'>> = {},
): Promise<FinishedWork> {
  const next = planNext({
    runId: claimed.fence.runId,
    stepNo: claimed.job.no,
    stepsBefore: claimed.run.stepCount,
    maxSteps: claimed.run.maxSteps ?? 100,
    finishReason: response.finishReason ?? 'other',
    toolCalls: 0,
    result: { kind: 'answered' },
    ...outcome,
  });
  const finished = await finishStep(db, claimed.fence, {
    response,
    moves: [],
    usage: USAGE,
    costUsd: 0,
    nextRunId: newId(),
    steps: 1,
    events: [],
    next,
  });
  if (finished === null) throw new Error('the step was fenced');
  return finished;
}
