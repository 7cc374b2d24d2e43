import type { MiddlewareHandler } from 'hono';
import { auditAct } from '../../commands/audit.ts';
import { type Db, inTransaction } from '../../store/db/database.ts';
import type { HttpEnv } from '../http-env.ts';

/**
 * Audits an operator's changes to the queues, after the change and before the answer, because the queues share no
 * transaction with Postgres. If the entry cannot be written, the answer is an error.
 */
export function createAdminTrail(db: Db): MiddlewareHandler<HttpEnv> {
  return async (c, next) => {
    await next();
    if (READS.has(c.req.method) || c.res.status >= 400) return;
    await inTransaction(db, (tx) => auditAct(tx, c.get('caller'), 'admin:request', c.req.path));
  };
}

const READS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS']);
