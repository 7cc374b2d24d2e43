import type { Context } from 'hono';
import { deleteCookie, getCookie, setCookie } from 'hono/cookie';
import { LOGIN_COOKIE } from '../../domain/access.ts';
import type { HttpEnv } from '../http-env.ts';

const COOKIE = { path: '/', httpOnly: true, sameSite: 'Strict' } as const;
/** A browser takes it from this host alone, and over TLS alone. */
const OVER_TLS = { ...COOKIE, secure: true, prefix: 'host' } as const;

/**
 * Whether the browser came by TLS, by its own words: what a proxy says in a header, anybody may say. On plain HTTP a
 * browser would drop a cookie with `Secure`.
 */
const cameByTls = (c: Context<HttpEnv>): boolean => (c.req.header('origin') ?? c.req.url).startsWith('https:');

/** The cookie of a login; undefined: there is none. */
export const readLoginCookie = (c: Context<HttpEnv>): string | undefined =>
  getCookie(c, LOGIN_COOKIE, 'host') ?? getCookie(c, LOGIN_COOKIE);

export function setLoginCookie(c: Context<HttpEnv>, cookie: string): void {
  setCookie(c, LOGIN_COOKIE, cookie, cameByTls(c) ? OVER_TLS : COOKIE);
}

export function removeLoginCookie(c: Context<HttpEnv>): void {
  deleteCookie(c, LOGIN_COOKIE, cameByTls(c) ? OVER_TLS : COOKIE);
}
