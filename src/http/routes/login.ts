import { createRoute, z } from '@hono/zod-openapi';
import type { Context } from 'hono';
import { deleteCookie, setCookie } from 'hono/cookie';
import { CONSOLE_PATH, LOGIN_COOKIE, SCOPES, WHOAMI_PATH } from '../../domain/access.ts';
import { formatId } from '../../domain/ids.ts';
import { MAX_LOGIN_BODY_BYTES } from '../../domain/tunables.ts';
import { noQuery } from '../bodies/fields.ts';
import { ProblemError } from '../bodies/problem.ts';
import { jsonOf, REFUSED } from '../bodies/responses.ts';
import type { HttpDeps } from '../http-deps.ts';
import type { BatonApp, HttpEnv } from '../http-env.ts';
import { findKeyOwner, refuseElsewhere, refuseWithoutConsole } from '../middleware/authenticate.ts';
import { limitBody } from '../middleware/body-limit.ts';
import { createWrongKeys } from '../middleware/wrong-keys.ts';

export const callerBody = z
  .object({
    tenant: z.string(),
    keyId: z.string().nullable().openapi({ description: 'Null: the service needs no key yet.' }),
    scopes: z.array(z.enum(SCOPES)),
    board: z.boolean().openapi({ description: 'There is a page of the queues at /admin/queues.' }),
    traceUrl: z.string().nullable().openapi({
      description: 'Of the page of a trace, with `{traceId}` in it; null: none is configured.',
    }),
  })
  .openapi('Caller');

const whoami = createRoute({
  method: 'get',
  path: WHOAMI_PATH,
  operationId: 'getCaller',
  tags: ['access'],
  summary: 'Whose key this is, and what it may do',
  request: { query: noQuery },
  responses: { 200: jsonOf(callerBody, 'The caller, with any valid key.'), ...REFUSED },
});

/** A key, with room for one that a later version makes longer. */
const loginBody = z.strictObject({ key: z.string().trim().min(1).max(512) });

/**
 * Who the caller is; and the login of the console, which keeps the key in a cookie that no script can read, until the
 * browser is closed.
 */
export function registerLoginRoutes(
  app: BatonApp,
  { db, board, traceUrl, wrongKeys = createWrongKeys() }: HttpDeps,
): void {
  app.openapi(whoami, (c) => {
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
    const given = loginBody.safeParse(await c.req.json().catch(() => null));
    if (!given.success) throw new ProblemError('invalid_request', 'Invalid body: {"key": "baton_…"} is expected');
    // The answer to a wrong key may wait, which must not take others' room.
    c.get('body')?.release();
    await findKeyOwner(c, db, wrongKeys, given.data.key);
    setCookie(c, LOGIN_COOKIE, given.data.key, cookieOptions(c));
    return c.body(null, 204);
  });

  app.post(`${CONSOLE_PATH}/logout`, limitBody(MAX_LOGIN_BODY_BYTES), (c) => {
    refuseElsewhere(c);
    refuseWithoutConsole(c);
    deleteCookie(c, LOGIN_COOKIE, cookieOptions(c));
    return c.body(null, 204);
  });
}

/** `Secure` only where the browser came by TLS: on plain HTTP it would drop the cookie. */
const cookieOptions = (c: Context<HttpEnv>) =>
  ({
    path: '/',
    httpOnly: true,
    sameSite: 'Strict',
    secure: c.req.header('x-forwarded-proto') === 'https' || c.req.url.startsWith('https:'),
  }) as const;
