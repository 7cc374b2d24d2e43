import type { Agent } from '../agents/agent.ts';
import type { ContextState } from '../domain/context/meter/state.ts';
import type { ErrorRecord } from '../domain/errors.ts';
import type { Budget } from '../domain/run/budget.ts';
import type { JobPayload } from '../domain/run/job.ts';
import type { JobReport } from '../domain/run/job-report.ts';
import type { OutputFormat, OutputState } from '../domain/run/output-format.ts';
import type { LimitReason, RunKind } from '../domain/run/run.ts';
import type { ClaimedRun, Fence } from '../store/work/claims.ts';
import type { CarryOn } from '../store/work/step-writes.ts';
import type { HeldClaim } from './claim-keeper.ts';

export type JobScope = Readonly<{
  tenantId: string;
  sessionId: string;
  runId: string;
  runKind: RunKind;
  /** A call of another session began the session. */
  isChild: boolean;
  /** The step, or the one that follows the compaction or prune. */
  stepNo: number;
  attempt: number;
  /** Model steps of the run before this one, and their limit. */
  stepsBefore: number;
  maxSteps: number;
  budget: Budget;
  /** The limit that the run has reached. If set, only its final answer is left. */
  finalAnswerFor: LimitReason | null;
  /** The result that the run is asked for, and its state. Null: any answer will do. */
  output: Readonly<{ format: OutputFormat; state: OutputState }> | null;
  /** Time from the due time of the work to its claim, and the duration of the claim itself. */
  waitedMs: number;
  claimMs: number;
  /** By `performance.now()`. */
  claimedAtMs: number;
  /** Deadline of the run or of its final answer, by `performance.now()`. Infinite if there is none. */
  deadlineAtMs: number;
  /** The agent with the current model of the run: see `modelPosition`. */
  agent: Agent;
  /** Position of that model in the agent's list. */
  modelPosition: number;
  /** Most calls of the step that run at the same time. */
  toolConcurrency: number;
  fence: Fence;
  held: HeldClaim;
  /** The failure of the run, the report of the job and the next job that this worker has begun, once committed. */
  ended: { failure: ErrorRecord | null; report: JobReport | null; next: JobPayload | null };
  /** The claim for the next step. Null: the step goes to any worker, through the queue. */
  nextClaim: () => NextClaim | null;
  contextState: ContextState;
}>;

/**
 * A claim that is registered before the worker asks for it, so that no cancel in between is missed. Disposing it lets
 * go of an unused one.
 */
export type NextClaim = Disposable &
  Readonly<{
    carryOn: CarryOn;
    /** Asks for the claim again after a lost reply. Null: the step was not begun. */
    find: (no: number) => Promise<Readonly<{ job: JobPayload; claim: ClaimedRun }> | null>;
    /** Goes on with the step that the transaction has begun. */
    goOn: (job: JobPayload, claim: ClaimedRun) => void;
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
