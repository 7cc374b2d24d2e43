import { setTimeout as delay } from 'node:timers/promises';
import type { ErrorCode } from '../domain/errors.ts';
import type { JobPayload } from '../domain/run/job.ts';
import type { LimitReason } from '../domain/run/run.ts';
import { toSafeError } from '../platform/log.ts';
import type { AddOptions } from '../queues/job-queue.ts';
import type { AnsweredCall } from '../store/changes/call-answers.ts';
import type { CancelOutcome } from '../store/changes/cancels.ts';
import type { AcceptedMessage } from '../store/changes/inbox.ts';
import { noteRunEnd } from '../store/session/note-run-end.ts';
import type { LeftWork } from '../store/work/run-failure.ts';
import type { CommandPorts } from './ports.ts';

/**
 * Readers, workers, the queue, the keeper of children, the log and the trace: all that hear of a commit. Commands and
 * workers tell them by this file alone, which `test/imports/floors.ts` checks.
 */
export type EffectPorts = Pick<CommandPorts, 'db' | 'bus' | 'log' | 'lookAfterChildren'> &
  Readonly<{ jobs: Pick<CommandPorts['jobs'], 'add'> }>;

/** Effects of processes that may fail runs. */
export type FailurePorts = EffectPorts &
  Readonly<{
    /** Stops the work that calls of a failed run have begun outside of Baton. Returns at once. */
    stopLeftWork: (left: LeftWork) => void;
  }>;

/** Longest wait of a request for the queue. Its message is in Postgres already. */
const QUEUE_PATIENCE_MS = 1_000;

/**
 * Adds the jobs of committed changes, and waits for the queue. Never rejects: if adding fails, the reconciler adds each
 * job from its run's row.
 */
export async function addJobs(
  { jobs: queues, log }: Pick<EffectPorts, 'jobs' | 'log'>,
  jobs: readonly JobPayload[],
  place: AddOptions = {},
): Promise<void> {
  if (jobs.length === 0) return;
  try {
    await queues.add(jobs, place);
  } catch (error) {
    log('warn', { event: 'jobs_not_enqueued', runIds: jobs.map(({ runId }) => runId), error: toSafeError(error) });
  }
}

/** `addJobs` for a caller that does not wait for a slow queue. */
async function addJobsOfRequest(ports: EffectPorts, jobs: readonly JobPayload[], place?: AddOptions): Promise<void> {
  if (jobs.length === 0) return;
  const patience = new AbortController();
  const waited = delay(QUEUE_PATIENCE_MS, undefined, { signal: patience.signal, ref: false }).catch(() => undefined);
  await Promise.race([addJobs(ports, jobs, place), waited]);
  patience.abort();
}

/** After the commit of a message: tells the session's readers and the worker of a cancelled run, and adds the job. */
export async function afterAccepted(ports: EffectPorts, sessionId: string, accepted: AcceptedMessage): Promise<void> {
  ports.bus.announce(sessionId, accepted.eventSeq);
  if (accepted.cancelled !== null) await afterCancelled(ports, accepted.cancelled);
  await addJobsOfRequest(ports, jobsOf(accepted));
}

type Cancelled = Omit<CancelOutcome, 'isNews'>;

/** After the commit of a cancel: tells the session's readers and the run's worker, and adds the job that follows. */
export const afterCancelled = (ports: EffectPorts, outcome: Cancelled): Promise<void> => afterCancels(ports, [outcome]);

/** After the commit of several cancels, as `afterCancelled`: their jobs are added together. */
export async function afterCancels(ports: EffectPorts, outcomes: readonly Cancelled[]): Promise<void> {
  if (outcomes.length === 0) return;
  for (const { runId, sessionId, eventSeq, notify } of outcomes) {
    ports.bus.announce(sessionId, eventSeq);
    if (notify) ports.bus.requestCancel(runId);
  }
  ports.lookAfterChildren();
  const { following = [], interrupted = [] } = Object.groupBy(outcomes, ({ hasEnded }) =>
    hasEnded ? 'following' : 'interrupted',
  );
  // Recovering an interrupted step is short, so its job does not wait behind whole steps.
  await addJobsOfRequest(ports, interrupted.flatMap(jobsOf), { isFirst: true });
  await addJobsOfRequest(ports, following.flatMap(jobsOf));
  await Promise.all(following.map(({ runId, sessionId, status }) => noteRunEnd(ports, { runId, sessionId, status })));
}

const jobsOf = ({ job }: Pick<Changed, 'job'>): JobPayload[] => (job === null ? [] : [job]);

type Changed = Readonly<{
  /** Seq of the session's last event, the change's own included. */
  eventSeq: number;
  /** Job of the run that goes on or starts; null: none. */
  job: JobPayload | null;
}>;

/** After the commit of any other change: tells the session's readers and adds the job. */
export async function afterChanged(ports: EffectPorts, sessionId: string, { eventSeq, job }: Changed): Promise<void> {
  ports.bus.announce(sessionId, eventSeq);
  await addJobsOfRequest(ports, jobsOf({ job }));
}

/** After the commit of a change that starts nothing: tells the session's readers. `eventSeq` null: nothing has changed. */
export function afterEvent(
  { bus }: Pick<EffectPorts, 'bus'>,
  sessionId: string,
  { eventSeq }: Readonly<{ eventSeq: number | null }>,
): void {
  if (eventSeq !== null) bus.announce(sessionId, eventSeq);
}

/** After the commit of an answer: tells the readers of the session and of its root, and adds the job of the run. */
export async function afterAnswered(ports: EffectPorts, answered: AnsweredCall): Promise<void> {
  const { root } = answered;
  if (root !== null) ports.bus.announce(root.sessionId, root.eventSeq);
  await afterWait(ports, answered.sessionId, answered);
}

/** After the commit that ends a wait for answers: as `afterChanged`, and a child's keeper may have work. */
export async function afterWait(ports: EffectPorts, sessionId: string, changed: Changed): Promise<void> {
  ports.lookAfterChildren();
  await afterChanged(ports, sessionId, changed);
}

type FailedRun = Readonly<{
  runId: string;
  sessionId: string;
  eventSeq: number;
  /** The limit that had already ended the run's work: it is `incomplete`, not `failed`. */
  limit: LimitReason | null;
  left: LeftWork | null;
  /** Absent: it is read. */
  agent?: string;
}>;

/** After the commit of a failure outside the end of a step: the reconciler adds the job of the run that follows. */
export async function afterFailed(
  ports: FailurePorts,
  { runId, sessionId, eventSeq, limit, left, agent }: FailedRun,
  code: ErrorCode,
): Promise<void> {
  afterEvent(ports, sessionId, { eventSeq });
  ports.lookAfterChildren();
  if (left !== null) ports.stopLeftWork(left);
  const end =
    limit === null ? ({ status: 'failed', reason: code } as const) : ({ status: 'incomplete', reason: limit } as const);
  await noteRunEnd(ports, { runId, sessionId, ...(agent !== undefined && { agent }), ...end });
}

/** After the commit that gives up a run which lost too many workers, or whose claim takes too long. */
export async function afterGivenUp(
  ports: FailurePorts,
  run: FailedRun & Readonly<{ resumeCount: number }>,
): Promise<void> {
  const { runId, sessionId, resumeCount } = run;
  ports.log('error', { event: 'run_given_up', runId, sessionId, resumeCount });
  await afterFailed(ports, run, 'resume_limit');
}

/**
 * Adds a job that the queue has lost: no commit precedes it now.
 * @throws the queue's error if it cannot be reached. The next sweep finds the job still missing
 */
export async function addLostJob(
  { jobs, log }: Pick<EffectPorts, 'jobs' | 'log'>,
  { sessionId, runId, kind, no, dispatch }: JobPayload & Readonly<{ sessionId: string }>,
  place: AddOptions,
): Promise<void> {
  await jobs.add([{ runId, kind, no, dispatch }], place);
  log('warn', { event: 'run_recovered', runId, sessionId, reason: 'job_lost' });
}
