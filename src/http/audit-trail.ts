import type { MiddlewareHandler } from 'hono';
import type { Caller } from '../domain/access.ts';
import { auditedAction } from '../domain/audit.ts';
import { formatId } from '../domain/ids.ts';
import { appendAudit } from '../store/audit.ts';
import type { Db, Tx } from '../store/database.ts';
import type { AcceptedMessage } from '../store/inbox.ts';
import type { HttpEnv } from './http-deps.ts';

/**
 * Writes down who did what has to be answered for, once it is done and before the caller has the answer: where it cannot
 * be written the answer is an error. By paths, so that a route is covered wherever its work is done.
 */
export function createAuditTrail(db: Db): MiddlewareHandler<HttpEnv> {
  return async (c, next) => {
    await next();
    const { method, path } = c.req;
    const action = auditedAction(method, path);
    if (action === null || c.res.status >= 400) return;
    const { tenantId, keyId } = c.get('caller');
    await appendAudit(db, { tenantId, keyId, action, target: path });
  };
}

/** A message that interrupts cancels a run, which its path does not say. */
export async function auditInterrupt(tx: Tx, caller: Caller, { cancelled }: AcceptedMessage): Promise<void> {
  if (cancelled !== null) await auditCancel(tx, caller, cancelled.runId);
}

/** A client that goes away cancels the run that nobody else could come back to. */
export async function auditCancel(tx: Tx, { tenantId, keyId }: Caller, runId: string): Promise<void> {
  const target = `/v1/runs/${formatId('run', runId)}/cancel`;
  await appendAudit(tx, { tenantId, keyId, action: 'run:cancel', target });
}

/** The path of a chat has the client's own name in it: the entry has the session's id. */
export async function auditStop(db: Db, { tenantId, keyId }: Caller, sessionId: string): Promise<void> {
  const target = `/v1/sessions/${formatId('session', sessionId)}/cancel`;
  await appendAudit(db, { tenantId, keyId, action: 'session:cancel', target });
}
