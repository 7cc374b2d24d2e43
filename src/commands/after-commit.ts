import { setTimeout as delay } from 'node:timers/promises';
import type { JobPayload } from '../domain/run/job.ts';
import { toSafeError } from '../platform/log.ts';
import type { AddOptions } from '../queues/job-queue.ts';
import type { AnsweredCall } from '../store/changes/call-answers.ts';
import type { CancelOutcome } from '../store/changes/cancels.ts';
import type { AcceptedMessage } from '../store/changes/inbox.ts';
import { noteRunEnd } from '../store/session/note-run-end.ts';
import type { CommandPorts } from './ports.ts';

/** Longest wait of a request for the queue. Its message is in Postgres already. */
const QUEUE_PATIENCE_MS = 1_000;

/**
 * Adds the jobs of committed changes. Never rejects: if adding fails, the reconciler adds each job from its run's row.
 */
export async function addJobs(
  { jobs: queues, log }: CommandPorts,
  jobs: readonly JobPayload[],
  options?: AddOptions,
): Promise<void> {
  if (jobs.length === 0) return;
  const runIds = jobs.map(({ runId }) => runId);
  const adding = queues
    .add(jobs, options)
    .catch((error: unknown) => log('warn', { event: 'jobs_not_enqueued', runIds, error: toSafeError(error) }));
  const patience = new AbortController();
  const waited = delay(QUEUE_PATIENCE_MS, undefined, { signal: patience.signal, ref: false }).catch(() => undefined);
  await Promise.race([adding, waited]);
  patience.abort();
}

/** After the commit of a message: tells the session's readers and the worker of a cancelled run, and adds the job. */
export async function afterAccepted(ports: CommandPorts, sessionId: string, accepted: AcceptedMessage): Promise<void> {
  ports.bus.announce(sessionId, accepted.eventSeq);
  if (accepted.cancelled !== null) await afterCancelled(ports, accepted.cancelled);
  await addJobs(ports, jobsOf(accepted));
}

/** After the commit of a cancel: tells the session's readers and the run's worker, and adds the job that follows. */
export async function afterCancelled(ports: CommandPorts, outcome: CancelOutcome): Promise<void> {
  const { bus } = ports;
  const { runId, sessionId, status } = outcome;
  bus.announce(sessionId, outcome.eventSeq);
  if (outcome.notify) bus.requestCancel(runId);
  ports.lookAfterChildren();
  // Recovering an interrupted step is short, so its job does not wait behind whole steps.
  await addJobs(ports, jobsOf(outcome), { isFirst: !outcome.hasEnded });
  if (outcome.hasEnded) await noteRunEnd(ports, { runId, sessionId, status });
}

const jobsOf = ({ job }: Pick<Changed, 'job'>): JobPayload[] => (job === null ? [] : [job]);

type Changed = Readonly<{
  /** Seq of the session's last event, the change's own included. */
  eventSeq: number;
  /** Job of the run that goes on or starts; null: none. */
  job: JobPayload | null;
}>;

/** After the commit of any other change: tells the session's readers and adds the job. */
export async function afterChanged(ports: CommandPorts, sessionId: string, { eventSeq, job }: Changed): Promise<void> {
  ports.bus.announce(sessionId, eventSeq);
  await addJobs(ports, jobsOf({ job }));
}

/** After the commit of a change that starts nothing: tells the session's readers. `eventSeq` null: nothing has changed. */
export function afterEvent(
  { bus }: CommandPorts,
  sessionId: string,
  { eventSeq }: Readonly<{ eventSeq: number | null }>,
): void {
  if (eventSeq !== null) bus.announce(sessionId, eventSeq);
}

/** After the commit of an answer: tells the readers of the session and of its root, and adds the job of the run. */
export async function afterAnswered(ports: CommandPorts, answered: AnsweredCall): Promise<void> {
  const { root } = answered;
  if (root !== null) ports.bus.announce(root.sessionId, root.eventSeq);
  ports.lookAfterChildren();
  await afterChanged(ports, answered.sessionId, answered);
}
