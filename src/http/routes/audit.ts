import { listAuditEntriesRoute } from '../../api/audit.ts';
import { formatId } from '../../domain/ids.ts';
import { listAudit } from '../../store/around/audit.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, tenantOf } from '../http-env.ts';

export function registerAuditRoutes(app: BatonApp, { db }: HttpDeps): void {
  app.openapi(listAuditEntriesRoute, async (c) => {
    const { before, limit } = c.req.valid('query');
    const filter = { tenantId: tenantOf(c), limit: limit + 1, ...(before !== undefined && { before }) };
    const found = await listAudit(db, filter);
    const page = found.slice(0, limit);
    const entries = page.map(({ seq, action, target, keyId, createdAt }) => ({
      seq,
      action,
      target,
      keyId: keyId === null ? null : formatId('key', keyId),
      createdAt: createdAt.toISOString(),
    }));
    return c.json({ entries, next: found.length > limit ? (page.at(-1)?.seq ?? null) : null }, 200);
  });
}
