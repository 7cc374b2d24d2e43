import { isIPv4 } from 'node:net';
import type { Context, MiddlewareHandler } from 'hono';
import { isMonitoringPath } from '../../domain/access.ts';
import { ProblemError } from '../bodies/problem.ts';
import type { HttpEnv } from '../http-env.ts';

/** True for an address or name that only this machine answers to. */
export function isLoopback(hostname: string): boolean {
  const name = hostname.toLowerCase();
  if (name === 'localhost' || name.endsWith('.localhost') || name === '::1') return true;
  return isIPv4(name) && name.startsWith('127.');
}

/**
 * Refuses requests to a host name that the server does not have, if its names are known. Otherwise
 * `createAuthentication` checks the requests that need no key by `refuseOtherHosts`.
 * @throws ProblemError `forbidden`
 */
export const hostGuard: MiddlewareHandler<HttpEnv> = async (c, next) => {
  const { allowedHosts } = c.env ?? {};
  if (allowedHosts !== undefined && allowedHosts !== null) refuseOtherHosts(c, allowedHosts);
  return next();
};

/**
 * Refuses requests to any host but loopback and `allowedHosts`, and those of pages of other origins. A server that
 * needs no key has no other protection from DNS rebinding, even behind a loopback port that leads into a container.
 *
 * The monitoring paths answer to any name, except on loopback: monitors use names and addresses of a network.
 * @throws ProblemError `forbidden`
 */
export function refuseOtherHosts(c: Context<HttpEnv>, allowedHosts: readonly string[]): void {
  if (c.env.onLoopback !== true && isMonitoringPath(c.req.path)) return;
  const allowed = (hostname: string | null): boolean =>
    hostname !== null && (isLoopback(hostname) || allowedHosts.includes(hostname));
  // A server's requests have the header; those of a program that calls `fetch` may have an URL alone.
  const host = c.req.header('host') ?? new URL(c.req.url).host;
  if (!allowed(hostnameOf(`http://${host}`))) {
    throw new ProblemError(
      'forbidden',
      'The request names a host that this server does not serve (BATON_ALLOWED_HOSTS says which it does)',
    );
  }
  const origin = c.req.header('origin');
  if (c.get('isNamedOrigin') === true) return;
  if (origin !== undefined && !allowed(hostnameOf(origin))) {
    throw new ProblemError('forbidden', 'Requests of pages of another origin are refused');
  }
}

/** Null: no valid host. An IPv6 address comes without its brackets. */
function hostnameOf(url: string): string | null {
  return URL.canParse(url) ? new URL(url).hostname.replaceAll(/^\[|\]$/g, '') : null;
}
