import { isIPv4 } from 'node:net';
import type { MiddlewareHandler } from 'hono';
import type { HttpEnv } from './http-deps.ts';
import { ProblemError } from './problem.ts';

/** True for an address or name that only this machine answers to. */
export function isLoopback(hostname: string): boolean {
  const name = hostname.toLowerCase();
  if (name === 'localhost' || name.endsWith('.localhost') || name === '::1' || name === '[::1]') return true;
  return isIPv4(name) && name.startsWith('127.');
}

/**
 * Refuses requests that are addressed to another name, and pages of other origins. A server on loopback has no other
 * protection from a web page whose domain was made to resolve to 127.0.0.1 (DNS rebinding).
 */
export const hostGuard: MiddlewareHandler<HttpEnv> = async (c, next) => {
  const { allowedHosts } = c.env ?? {};
  if (allowedHosts === undefined || allowedHosts === null) return next();
  const allowed = (hostname: string | null): boolean =>
    hostname !== null && (isLoopback(hostname) || allowedHosts.includes(hostname));
  const host = c.req.header('host') ?? '';
  if (!allowed(hostnameOf(`http://${host}`))) {
    throw new ProblemError('forbidden', 'The Host header names a host that this server does not serve');
  }
  const origin = c.req.header('origin');
  if (origin !== undefined && !allowed(hostnameOf(origin))) {
    throw new ProblemError('forbidden', 'Requests of pages of another origin are refused');
  }
  return next();
};

const hostnameOf = (url: string): string | null => (URL.canParse(url) ? new URL(url).hostname : null);
