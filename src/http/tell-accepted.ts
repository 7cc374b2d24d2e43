import type { AcceptedMessage } from '../store/inbox.ts';
import { dispatchJob } from './dispatch.ts';
import type { HttpDeps } from './http-deps.ts';
import { tellCancelled } from './tell-cancelled.ts';

/** After the commit: readers are told of the message, a worker that is interrupted of that, the queue of the run. */
export async function tellAccepted(deps: HttpDeps, sessionId: string, accepted: AcceptedMessage): Promise<void> {
  deps.bus.announce(sessionId, accepted.eventSeq);
  if (accepted.cancelled !== null) await tellCancelled(deps, accepted.cancelled);
  if (accepted.job !== null) await dispatchJob(deps, accepted.job);
}
