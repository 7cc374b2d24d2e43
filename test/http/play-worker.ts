import type { ErrorRecord } from '../../src/domain/errors.ts';
import type { JobPayload } from '../../src/domain/job.ts';
import { planNext } from '../../src/domain/next-step.ts';
import { newId } from '../../src/runtime/new-id.ts';
import { type ClaimedRun, claimRun, type Fence } from '../../src/store/claims.ts';
import type { Db } from '../../src/store/database.ts';
import type { FinishedWork } from '../../src/store/finished-work.ts';
import { finishStep, type ResponseWrite } from '../../src/store/step-writes.ts';

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
export async function claimJob(db: Db, job: JobPayload | undefined): Promise<Claimed> {
  if (job === undefined) throw new Error('there is no job');
  const messageId = newId();
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

/** Ends the run with an error of the model. */
export function failStep(db: Db, claimed: Claimed, error: ErrorRecord): Promise<FinishedWork> {
  return endStep(db, claimed, { messageId: claimed.messageId, parts: [], finishReason: 'error', error }, error);
}

async function endStep(db: Db, claimed: Claimed, response: ResponseWrite, error?: ErrorRecord): Promise<FinishedWork> {
  const next = planNext({
    runId: claimed.fence.runId,
    stepNo: claimed.job.no,
    stepsBefore: claimed.run.stepCount,
    maxSteps: claimed.run.maxSteps ?? 100,
    finishReason: response.finishReason ?? 'other',
    toolCalls: 0,
    stillRan: [],
    ...(error === undefined ? {} : { error }),
  });
  const finished = await finishStep(db, claimed.fence, {
    response,
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
