import type { Agent } from '../agents/agent.ts';
import type { ContextState } from '../domain/context/meter/state.ts';
import type { ErrorRecord } from '../domain/errors.ts';
import type { Budget } from '../domain/run/budget.ts';
import type { JobReport } from '../domain/run/job-report.ts';
import type { LimitReason, RunKind } from '../domain/run/run.ts';
import type { Fence } from '../store/claims.ts';
import type { HeldClaim } from './claim-keeper.ts';

/** The one job that is being worked on: what each of its parts needs to know of the others. */
export type JobScope = Readonly<{
  tenantId: string;
  sessionId: string;
  runId: string;
  runKind: RunKind;
  /** The step, or the one that the compaction or prune goes before. */
  stepNo: number;
  attempt: number;
  /** Model steps of the run before this one, and how many it may make. */
  stepsBefore: number;
  maxSteps: number;
  budget: Budget;
  /** The limit that the run has reached: all that is left is its final answer. Null: none. */
  finalAnswerFor: LimitReason | null;
  /** By the clock of `performance.now()`. */
  claimedAtMs: number;
  /** Of the run, or of its final answer, by the clock of `performance.now()`; infinite where it has none. */
  deadlineAtMs: number;
  agent: Agent;
  /** Calls of the step that run at the same time. */
  toolConcurrency: number;
  fence: Fence;
  held: HeldClaim;
  /** How the run failed with this job, and what the job has done, once either is committed. */
  ended: { failure: ErrorRecord | null; report: JobReport | null };
  /** What was known of the context when the job was claimed. */
  contextState: ContextState;
}>;

/** A pause in milliseconds, cut off at the run's deadline: nobody waits for what comes after it. */
export function beforeDeadline({ deadlineAtMs }: Pick<JobScope, 'deadlineAtMs'>, delayMs: number): number {
  return Math.min(delayMs, Math.max(0, Math.ceil(deadlineAtMs - performance.now()) + 1));
}

/** How long the job has been in hand. */
export function durationMs({ claimedAtMs }: Pick<JobScope, 'claimedAtMs'>): number {
  return Math.round(performance.now() - claimedAtMs);
}

export type LoggedScope = Pick<JobScope, 'sessionId' | 'runId' | 'stepNo' | 'attempt'>;

/** What every log line about a job carries. */
export function logFields(scope: LoggedScope): { sessionId: string; runId: string; step: number; attempt: number } {
  return { sessionId: scope.sessionId, runId: scope.runId, step: scope.stepNo, attempt: scope.attempt };
}
