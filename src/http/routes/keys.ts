import type { z } from '@hono/zod-openapi';
import { nextCursor } from '../../api/cursor.ts';
import { type keyBody, listKeysRoute } from '../../api/keys.ts';
import { formatId } from '../../domain/ids.ts';
import { type ApiKey, listKeysOfTenant } from '../../store/around/api-keys.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, tenantOf } from '../http-env.ts';

export function registerKeyRoutes(app: BatonApp, { db }: HttpDeps): void {
  app.openapi(listKeysRoute, async (c) => {
    const { cursor, limit } = c.req.valid('query');
    const filter = { tenantId: tenantOf(c), limit: limit + 1, ...(cursor !== undefined && { after: cursor }) };
    const found = await listKeysOfTenant(db, filter);
    const rows = found.map(({ createdAt, id }) => ({ created_at: createdAt, id }));
    return c.json({ keys: found.slice(0, limit).map(toBody), nextCursor: nextCursor('keys', rows, limit) }, 200);
  });
}

function toBody({ id, name, shown, scopes, createdAt, ...times }: ApiKey): z.infer<typeof keyBody> {
  return {
    id: formatId('key', id),
    name,
    shown,
    scopes: [...scopes],
    createdAt: createdAt.toISOString(),
    lastUsedAt: times.lastUsedAt?.toISOString() ?? null,
    expiresAt: times.expiresAt?.toISOString() ?? null,
    revokedAt: times.revokedAt?.toISOString() ?? null,
  };
}
