import { requestCancel } from '../store/changes/cancels.ts';
import { cancelChildless, cancelWaiting } from '../store/changes/tree-cancels.ts';
import { noteRunEnd } from '../store/session/note-run-end.ts';
import { addJobs, afterCancelled } from './after-commit.ts';
import type { CommandPorts } from './ports.ts';

/**
 * Cancels the run of a child whose parent no longer waits; its own children are then due to stop. The audit log has the
 * cancel of the parent.
 *
 * Locks as `cancelRun`.
 * @throws BatonError `not_found` (the child's session was deleted)
 */
export async function stopChild(
  ports: CommandPorts,
  { tenantId, runId }: Readonly<{ tenantId: string; runId: string }>,
): Promise<void> {
  await afterCancelled(ports, await requestCancel(ports.db, tenantId, runId));
}

/**
 * Cancels the claimed runs among these that have no children, in one round trip, and ends those that wait for answers.
 * The others stay as they are.
 * @returns the ids of the runs that it stopped
 */
export async function stopChildren(ports: CommandPorts, runIds: readonly string[]): Promise<readonly string[]> {
  const stopped = await Promise.all([stopChildless(ports, runIds), stopWaiting(ports, runIds)]);
  return stopped.flat();
}

async function stopChildless({ db, bus }: CommandPorts, runIds: readonly string[]): Promise<string[]> {
  const cancelled = await cancelChildless(db, runIds);
  for (const { runId, sessionId, eventSeq } of cancelled) {
    bus.requestCancel(runId);
    bus.announce(sessionId, eventSeq);
  }
  return cancelled.map(({ runId }) => runId);
}

async function stopWaiting(ports: CommandPorts, runIds: readonly string[]): Promise<string[]> {
  const ended = await cancelWaiting(ports.db, runIds);
  for (const { sessionId, eventSeq } of ended) ports.bus.announce(sessionId, eventSeq);
  await addJobs(
    ports,
    ended.flatMap(({ job }) => (job === null ? [] : [job])),
  );
  await Promise.all(ended.map(({ runId, sessionId }) => noteRunEnd(ports, { runId, sessionId, status: 'cancelled' })));
  return ended.map(({ runId }) => runId);
}
