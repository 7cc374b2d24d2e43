import type { Context, MiddlewareHandler } from 'hono';
import type { Caller } from '../../domain/access.ts';
import type { AuditedAction } from '../../domain/audit.ts';
import { formatId } from '../../domain/ids.ts';
import { appendAudit, type NewAuditEntry } from '../../store/around/audit.ts';
import type { AcceptedMessage } from '../../store/changes/inbox.ts';
import type { Db, Tx } from '../../store/db/database.ts';
import type { HttpEnv } from '../http-env.ts';

/**
 * Audits an operator's changes to the queues, after the change and before the answer, because the queues share no
 * transaction with Postgres. If the entry cannot be written, the answer is an error.
 */
export function createAdminTrail(db: Db): MiddlewareHandler<HttpEnv> {
  return async (c, next) => {
    await next();
    if (READS.has(c.req.method) || c.res.status >= 400) return;
    await appendAudit(db, { ...byWhom(c.get('caller')), action: 'admin:request', target: c.req.path });
  };
}

const READS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS']);

/**
 * Audits a request in the transaction that does its work: neither is committed without the other.
 * @param target default: its path
 */
export async function auditRequest(
  tx: Tx,
  c: Context<HttpEnv>,
  action: AuditedAction,
  target: string = c.req.path,
): Promise<void> {
  await appendAudit(tx, { ...requestEntry(c, action), target });
}

/** The audit entry of a request, for functions that write it in their own transaction. */
export function requestEntry(c: Context<HttpEnv>, action: AuditedAction): NewAuditEntry {
  return { ...byWhom(c.get('caller')), action, target: c.req.path };
}

/** The tenant and the key of an act. Null: it needs no key. */
type Actor = Pick<Caller, 'tenantId' | 'keyId'>;

/** A message with `interrupt` cancels a run, which the path of its request does not say. */
export async function auditInterrupt(tx: Tx, caller: Actor, { cancelled }: AcceptedMessage): Promise<void> {
  if (cancelled !== null) await auditCancel(tx, caller, cancelled.runId);
}

/** Audits a cancel as if the caller had asked for it: an interrupt, or a completion whose client has gone away. */
export async function auditCancel(tx: Tx, caller: Actor, runId: string): Promise<void> {
  const target = `/v1/runs/${formatId('run', runId)}/cancel`;
  await appendAudit(tx, { ...byWhom(caller), action: 'run:cancel', target });
}

/** Audits a stop under the id of the session, because the path of a chat has the client's own name for it. */
export async function auditStop(tx: Tx, caller: Caller, sessionId: string): Promise<void> {
  const target = `/v1/sessions/${formatId('session', sessionId)}/cancel`;
  await appendAudit(tx, { ...byWhom(caller), action: 'session:cancel', target });
}

/** The same for a chat's message with limits of its own, and for a session that it resumes. */
export async function auditChat(
  tx: Tx,
  caller: Caller,
  sessionId: string,
  action: 'message:limits' | 'session:resume',
): Promise<void> {
  const target = `/v1/sessions/${formatId('session', sessionId)}`;
  await appendAudit(tx, { ...byWhom(caller), action, target });
}

const byWhom = ({ tenantId, keyId }: Actor): Actor => ({ tenantId, keyId });
