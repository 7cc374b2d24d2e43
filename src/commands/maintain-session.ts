import type { PendingKind } from '../domain/run/run.ts';
import { type RequestedMaintenance, requestMaintenance } from '../store/changes/maintenance.ts';
import { inTransaction } from '../store/db/database.ts';
import { refuseOverQuota } from '../store/session/quota.ts';
import { afterChanged } from './after-commit.ts';
import { type Actor, auditAct, sessionPath } from './audit.ts';
import type { CommandPorts } from './ports.ts';

const ACTS = {
  compaction: { action: 'session:compact', path: 'compact' },
  prune: { action: 'session:prune', path: 'prune' },
} as const;

/**
 * Requests a compaction or a prune of a session's context: before the next step of the active run, else in a run of its
 * own.
 *
 * Locks the session. A later request replaces an earlier one. The audit log has the act.
 * @throws BatonError `not_found`; `quota_exceeded` (a compaction: a prune asks no model)
 */
export async function maintainSession(
  ports: CommandPorts,
  { actor, sessionId, kind }: Readonly<{ actor: Actor; sessionId: string; kind: Exclude<PendingKind, 'step'> }>,
): Promise<RequestedMaintenance> {
  const { tenantId } = actor;
  if (kind === 'compaction') await refuseOverQuota(ports.db, tenantId, ports.quota);
  const requested = await inTransaction(ports.db, async (tx) => {
    const maintenance = await requestMaintenance(tx, { tenantId, sessionId, kind, runId: ports.newId() });
    await auditAct(tx, actor, ACTS[kind].action, `${sessionPath(sessionId)}/${ACTS[kind].path}`);
    return maintenance;
  });
  await afterChanged(ports, sessionId, requested);
  return requested;
}
