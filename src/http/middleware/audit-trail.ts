import type { Context, MiddlewareHandler } from 'hono';
import type { Caller } from '../../domain/access.ts';
import type { AuditedAction } from '../../domain/audit.ts';
import { formatId } from '../../domain/ids.ts';
import { appendAudit, type NewAuditEntry } from '../../store/audit.ts';
import type { Db, Tx } from '../../store/database.ts';
import type { AcceptedMessage } from '../../store/inbox.ts';
import type { HttpEnv } from '../http-env.ts';

/**
 * Writes down what an operator changes in the queues, once it is done and before they have the answer: that is in no
 * transaction of ours. Where it cannot be written the answer is an error.
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
 * Writes down who did what has to be answered for, in the transaction that does it: neither is there without the other.
 * The entry has the path of the request.
 */
export async function auditRequest(tx: Tx, c: Context<HttpEnv>, action: AuditedAction): Promise<void> {
  await appendAudit(tx, requestEntry(c, action));
}

/** The entry of the request, for what is written down with it. */
export function requestEntry(c: Context<HttpEnv>, action: AuditedAction): NewAuditEntry {
  return { ...byWhom(c.get('caller')), action, target: c.req.path };
}

/** A message that interrupts cancels a run, which its path does not say. */
export async function auditInterrupt(tx: Tx, caller: Caller, { cancelled }: AcceptedMessage): Promise<void> {
  if (cancelled !== null) await auditCancel(tx, caller, cancelled.runId);
}

/** A client that goes away cancels the run that nobody else could come back to. */
export async function auditCancel(tx: Tx, caller: Caller, runId: string): Promise<void> {
  const target = `/v1/runs/${formatId('run', runId)}/cancel`;
  await appendAudit(tx, { ...byWhom(caller), action: 'run:cancel', target });
}

/** The path of a chat has the client's own name in it: the entry has the session's id. */
export async function auditStop(tx: Tx, caller: Caller, sessionId: string): Promise<void> {
  const target = `/v1/sessions/${formatId('session', sessionId)}/cancel`;
  await appendAudit(tx, { ...byWhom(caller), action: 'session:cancel', target });
}

const byWhom = ({ tenantId, keyId }: Caller): Pick<Caller, 'tenantId' | 'keyId'> => ({ tenantId, keyId });
