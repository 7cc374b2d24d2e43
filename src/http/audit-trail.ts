import type { MiddlewareHandler } from 'hono';
import { auditedAction } from '../domain/audit.ts';
import { appendAudit } from '../store/audit.ts';
import type { Db } from '../store/database.ts';
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
