import type { z } from '@hono/zod-openapi';
import { nextCursor } from '../../api/cursor.ts';
import { createKeyRoute, type keyBody, listKeysRoute, revokeKeyRoute } from '../../api/keys.ts';
import { createKey, revokeKey } from '../../commands/change-keys.ts';
import { keyProblem } from '../../domain/access.ts';
import { formatId } from '../../domain/ids.ts';
import { type ApiKey, findKeyExpiry, listKeysOfTenant } from '../../store/around/api-keys.ts';
import { ProblemError } from '../bodies/problem.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, tenantOf } from '../http-env.ts';

export function registerKeyRoutes(app: BatonApp, deps: HttpDeps): void {
  const { db } = deps;
  app.openapi(listKeysRoute, async (c) => {
    const { cursor, limit } = c.req.valid('query');
    const filter = { tenantId: tenantOf(c), limit: limit + 1, ...(cursor !== undefined && { after: cursor }) };
    const found = await listKeysOfTenant(db, filter);
    const rows = found.map(({ createdAt, id }) => ({ created_at: createdAt, id }));
    return c.json({ keys: found.slice(0, limit).map(toBody), nextCursor: nextCursor('keys', rows, limit) }, 200);
  });

  app.openapi(createKeyRoute, async (c) => {
    const actor = c.get('caller');
    const { name, scopes, expiresInSeconds } = c.req.valid('json');
    const expiresAt = expiresInSeconds === undefined ? null : new Date(Date.now() + expiresInSeconds * 1_000);
    const own = { scopes: actor.scopes, expiresAt: await findKeyExpiry(db, actor.keyId) };
    const problem = keyProblem(own, { scopes, expiresAt });
    if (problem !== null) {
      const { field, message } = problem;
      throw new ProblemError('forbidden', message, { errors: [{ path: field, message }] });
    }
    const { id, secret } = await createKey(deps, { actor, name, scopes: [...new Set(scopes)], expiresAt });
    return c.json({ id: formatId('key', id), key: secret, expiresAt: expiresAt?.toISOString() ?? null }, 201);
  });

  app.openapi(revokeKeyRoute, async (c) => {
    await revokeKey(deps, { actor: c.get('caller'), keyId: c.req.valid('param').id });
    return c.body(null, 204);
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
