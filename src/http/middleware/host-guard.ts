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
 * Refuses requests that are addressed to another name than the server has, where its names are known. Without any
 * there are still those that no key is needed for: `createAuthentication` has them checked by `refuseOtherHosts`.
 * @throws ProblemError `forbidden`
 */
export const hostGuard: MiddlewareHandler<HttpEnv> = async (c, next) => {
  const { allowedHosts } = c.env ?? {};
  if (allowedHosts !== undefined && allowedHosts !== null) refuseOtherHosts(c, allowedHosts);
  return next();
};

/**
 * Refuses a request that is addressed to another name than a loopback one or those given, and pages of other origins.
 * Nothing else protects a server that needs no key from a web page whose domain was made to resolve to it (DNS
 * rebinding), also where the way to it is a port of loopback that leads into a container. What watches the service asks
 * for health and numbers by the names and addresses of a network: they answer to any, but on loopback.
 * @throws ProblemError `forbidden`
 */
export function refuseOtherHosts(c: Context<HttpEnv>, allowedHosts: readonly string[]): void {
  if (c.env.onLoopback !== true && isMonitoringPath(c.req.path)) return;
  const allowed = (hostname: string | null): boolean =>
    hostname !== null && (isLoopback(hostname) || allowedHosts.includes(hostname));
  const host = c.req.header('host') ?? '';
  if (!allowed(hostnameOf(`http://${host}`))) {
    throw new ProblemError(
      'forbidden',
      'The Host header names a host that this server does not serve (BATON_ALLOWED_HOSTS says which it does)',
    );
  }
  const origin = c.req.header('origin');
  if (origin !== undefined && !allowed(hostnameOf(origin))) {
    throw new ProblemError('forbidden', 'Requests of pages of another origin are refused');
  }
}

/** Null: not one that a URL can have. An IPv6 address comes without its brackets. */
function hostnameOf(url: string): string | null {
  return URL.canParse(url) ? new URL(url).hostname.replaceAll(/^\[|\]$/g, '') : null;
}
