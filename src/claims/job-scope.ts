import type { Agent } from '../agents/agent.ts';
import type { ContextState } from '../domain/context/meter/state.ts';
import type { ErrorRecord } from '../domain/errors.ts';
import type { Budget } from '../domain/run/budget.ts';
import type { JobReport } from '../domain/run/job-report.ts';
import type { LimitReason, RunKind } from '../domain/run/run.ts';
import type { Fence } from '../store/claims.ts';
import type { HeldClaim } from './claim-keeper.ts';

export type JobScope = Readonly<{
  tenantId: string;
  sessionId: string;
  runId: string;
  runKind: RunKind;
  /** The step, or the one that follows the compaction or prune. */
  stepNo: number;
  attempt: number;
  /** Model steps of the run before this one, and their limit. */
  stepsBefore: number;
  maxSteps: number;
  budget: Budget;
  /** The limit that the run has reached. If set, only its final answer is left. */
  finalAnswerFor: LimitReason | null;
  /** By `performance.now()`. */
  claimedAtMs: number;
  /** Deadline of the run or of its final answer, by `performance.now()`. Infinite if there is none. */
  deadlineAtMs: number;
  agent: Agent;
  /** Calls of the step that run at a time. */
  toolConcurrency: number;
  fence: Fence;
  held: HeldClaim;
  /** The failure of the run and the report of the job, set once they are committed. */
  ended: { failure: ErrorRecord | null; report: JobReport | null };
  contextState: ContextState;
}>;

/** Cuts a delay off at the run's deadline. In milliseconds. */
export function beforeDeadline({ deadlineAtMs }: Pick<JobScope, 'deadlineAtMs'>, delayMs: number): number {
  return Math.min(delayMs, Math.max(0, Math.ceil(deadlineAtMs - performance.now()) + 1));
}

export function durationMs({ claimedAtMs }: Pick<JobScope, 'claimedAtMs'>): number {
  return Math.round(performance.now() - claimedAtMs);
}

export type LoggedScope = Pick<JobScope, 'sessionId' | 'runId' | 'stepNo' | 'attempt'>;

export function logFields(scope: LoggedScope): { sessionId: string; runId: string; step: number; attempt: number } {
  return { sessionId: scope.sessionId, runId: scope.runId, step: scope.stepNo, attempt: scope.attempt };
}
