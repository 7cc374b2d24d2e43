import type { JobPayload } from '../domain/run/job.ts';
import { dispatchJob } from './dispatch.ts';
import type { HttpDeps } from './http-deps.ts';

/** What was done to a session. */
type Changed = Readonly<{
  /** The session's last event after this. */
  eventSeq: number;
  /** Of the run that goes on or begins with it. */
  job: JobPayload | null;
}>;

/** After the commit: readers are told of it, and the queue of the run. */
export async function tellChanged(deps: HttpDeps, sessionId: string, { eventSeq, job }: Changed): Promise<void> {
  deps.bus.announce(sessionId, eventSeq);
  if (job !== null) await dispatchJob(deps, job);
}
