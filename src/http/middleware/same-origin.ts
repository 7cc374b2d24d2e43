import type { Context } from 'hono';
import { CONSOLE_HEADER, isReading } from '../../domain/access.ts';
import { ProblemError } from '../bodies/problem.ts';
import type { HttpEnv } from '../http-env.ts';

/**
 * A browser adds a password or a cookie that it knows to requests of other pages, too.
 * @throws ProblemError `forbidden`
 */
export function refuseElsewhere(c: Context<HttpEnv>): void {
  if (isFromElsewhere(c)) throw new ProblemError('forbidden', 'Requests of pages of another origin are refused');
}

/**
 * Refuses what a page of another origin asks for without a preflight, as it opens a WebSocket.
 * @throws ProblemError `forbidden`
 */
export function refuseOtherPages(c: Context<HttpEnv>): void {
  if (c.get('isNamedOrigin') !== true) refuseElsewhere(c);
}

/** @throws ProblemError `forbidden` */
export function refuseWithoutConsole(c: Context<HttpEnv>): void {
  if (c.req.header(CONSOLE_HEADER) !== undefined) return;
  throw new ProblemError('forbidden', `This needs the header ${CONSOLE_HEADER}, which the console adds`);
}

/**
 * Refuses a change that a page of another origin asks for with the cookies of the program: the browser adds them unasked.
 * Where the browser says which site asks, its word counts: a proxy may have put another name into `Host`.
 * @throws ProblemError `forbidden`
 */
export function refuseForged(c: Context<HttpEnv>): void {
  if (isReading(c.req.method) || c.req.header('cookie') === undefined || c.get('isNamedOrigin') === true) return;
  const site = c.req.header('sec-fetch-site');
  if (site === undefined ? !isFromElsewhere(c) : site === 'same-origin' || site === 'none') return;
  throw new ProblemError(
    'forbidden',
    'Changes by pages of another origin are refused, unless BATON_CORS_ORIGINS (corsOrigins) names it',
  );
}

/** Whether a page of another origin made the request. */
function isFromElsewhere(c: Context<HttpEnv>): boolean {
  const origin = c.req.header('origin');
  if (origin !== undefined) return !URL.canParse(origin) || new URL(origin).host !== c.req.header('host');
  const site = c.req.header('sec-fetch-site');
  return site !== undefined && site !== 'same-origin' && site !== 'none';
}
