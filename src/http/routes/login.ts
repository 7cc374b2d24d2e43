import { z } from '@hono/zod-openapi';
import { limitBody } from '../../api/body-limit.ts';
import { getCallerRoute } from '../../api/login.ts';
import { logIn, logOut } from '../../commands/log-in.ts';
import { CONSOLE_HEADER, CONSOLE_PATH } from '../../domain/access.ts';
import { formatId } from '../../domain/ids.ts';
import { MAX_LOGIN_BODY_BYTES } from '../../domain/tunables.ts';
import { findLogin } from '../../store/around/console-logins.ts';
import { ProblemError } from '../bodies/problem.ts';
import type { HttpDeps } from '../http-deps.ts';
import type { BatonApp } from '../http-env.ts';
import { findKeyOwner } from '../middleware/identify.ts';
import { readLoginCookie, removeLoginCookie, setLoginCookie } from '../middleware/login-cookie.ts';
import { refuseElsewhere, refuseWithoutConsole } from '../middleware/same-origin.ts';
import { createWrongKeys } from '../middleware/wrong-keys.ts';

/** A key, with room for one that a later version makes longer. */
const loginBody = z.strictObject({ key: z.string().trim().min(1).max(512) });

/**
 * Who the caller is; and the login of the console. It has two secrets, neither of which counts alone: one in a cookie
 * that no script reads, and one that the page keeps and sends in a header. The key itself stays in neither.
 */
export function registerLoginRoutes(
  app: BatonApp,
  { db, board, traceUrl, newId, wrongKeys = createWrongKeys() }: HttpDeps,
): void {
  app.openapi(getCallerRoute, (c) => {
    const { tenantId, keyId, scopes } = c.get('caller');
    const key = keyId === null ? null : formatId('key', keyId);
    return c.json(
      { tenant: tenantId, keyId: key, scopes: [...scopes], board: board !== undefined, traceUrl: traceUrl ?? null },
      200,
    );
  });

  app.post(`${CONSOLE_PATH}/login`, limitBody(MAX_LOGIN_BODY_BYTES), async (c) => {
    refuseElsewhere(c);
    refuseWithoutConsole(c);
    const parsed = loginBody.safeParse(await c.req.json().catch(() => null));
    if (!parsed.success) throw new ProblemError('invalid_request', 'Invalid body: {"key": "baton_…"} is expected');
    // The answer to a wrong key may wait, which must not take others' room.
    c.get('body')?.release();
    const { keyId, tenantId } = await findKeyOwner(c, db, wrongKeys, parsed.data.key);
    if (keyId === null) throw new ProblemError('internal', 'The key has no id');
    const { cookie, expiresAt, ...secrets } = await logIn({ db, newId }, { tenantId, keyId });
    setLoginCookie(c, cookie);
    return c.json({ ...secrets, expiresAt: expiresAt.toISOString() }, 200);
  });

  app.post(`${CONSOLE_PATH}/logout`, limitBody(MAX_LOGIN_BODY_BYTES), async (c) => {
    refuseElsewhere(c);
    refuseWithoutConsole(c);
    const proof = { of: 'page', secret: c.req.header(CONSOLE_HEADER) ?? '' } as const;
    const login = await findLogin(db, { cookie: readLoginCookie(c) ?? '', proof });
    const { loginId } = login ?? {};
    if (loginId !== undefined) await logOut({ db }, loginId);
    removeLoginCookie(c);
    return c.body(null, 204);
  });
}
