import type { Context, MiddlewareHandler } from 'hono';
import { auditAct, auditEntry } from '../../commands/audit.ts';
import type { AuditedAction } from '../../domain/audit.ts';
import { appendAudit } from '../../store/around/audit.ts';
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
    await appendAudit(db, auditEntry(c.get('caller'), 'admin:request', c.req.path));
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
  await auditAct(tx, c.get('caller'), action, target);
}
