import type { RunLimits } from '../domain/run/run-limits.ts';
import { limitsFor } from '../domain/run/session-token.ts';
import { type ResumedSession as Resumed, resumeSession as resumeStopped } from '../store/changes/resume.ts';
import { inTransaction, type Tx } from '../store/db/database.ts';
import { afterChanged } from './after-commit.ts';
import { type Actor, auditAct, sessionPath } from './audit.ts';
import type { CommandPorts } from './ports.ts';

type ResumeSession = Readonly<{ actor: Actor; sessionId: string; limits?: RunLimits | undefined }>;

/** The run that goes on with a session. */
export type ResumedSession = Resumed;

/**
 * Goes on with a stopped session, in the caller's transaction. After the commit the caller passes the result to
 * `afterChanged`.
 *
 * Locks the session. Promises that a run within the tenant's quota goes on, and that the audit log has the act.
 * @throws BatonError `not_found`, `session_busy`, `conflict` (nothing to go on with), `quota_exceeded`: nothing is written
 */
export async function resumeSessionIn(
  tx: Tx,
  ports: CommandPorts,
  { actor, sessionId, limits }: ResumeSession,
): Promise<ResumedSession> {
  const resumed = await resumeStopped(tx, {
    tenantId: actor.tenantId,
    sessionId,
    runId: ports.newId(),
    ...limitsFor(actor.session?.grant, limits),
    quota: ports.quota,
  });
  await auditAct(tx, actor, 'session:resume', `${sessionPath(sessionId)}/resume`);
  return resumed;
}

/** Goes on with a stopped session: see `resumeSessionIn`. */
export async function resumeSession(ports: CommandPorts, request: ResumeSession): Promise<ResumedSession> {
  const resumed = await inTransaction(ports.db, (tx) => resumeSessionIn(tx, ports, request));
  await afterChanged(ports, request.sessionId, resumed);
  return resumed;
}
