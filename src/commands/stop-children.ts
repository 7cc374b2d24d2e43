import { requestCancel } from '../store/changes/cancels.ts';
import { cancelChildless, cancelWaiting } from '../store/changes/tree-cancels.ts';
import { afterCancelled, afterCancels } from './after-commit.ts';
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

async function stopChildless(ports: CommandPorts, runIds: readonly string[]): Promise<string[]> {
  const cancelled = await cancelChildless(ports.db, runIds);
  const outcome = { status: 'cancelling', notify: true, hasEnded: false, job: null } as const;
  await afterCancels(
    ports,
    cancelled.map((run) => ({ ...run, ...outcome })),
  );
  return cancelled.map(({ runId }) => runId);
}

async function stopWaiting(ports: CommandPorts, runIds: readonly string[]): Promise<string[]> {
  const ended = await cancelWaiting(ports.db, runIds);
  const outcome = { status: 'cancelled', notify: false, hasEnded: true } as const;
  await afterCancels(
    ports,
    ended.map((run) => ({ ...run, ...outcome })),
  );
  return ended.map(({ runId }) => runId);
}
