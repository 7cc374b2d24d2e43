import type { Context } from 'hono';
import { accepts } from 'hono/accepts';
import type { HttpEnv } from '../http-env.ts';
import { ProblemError } from './problem.ts';

const OFFERED = ['text/event-stream', 'application/json'] as const;

/**
 * The media type in which a caller wants events. A caller that accepts any type gets the stream.
 * @throws ProblemError `not_acceptable` if the header names neither
 */
export function wantedEventFormat(c: Context<HttpEnv>): (typeof OFFERED)[number] {
  const header = c.req.header('accept');
  if (header === undefined || header.trim() === '') return 'text/event-stream';
  const anything = /(^|,)\s*\*\/\*\s*(;|,|$)/.test(header);
  const wanted = accepts(c, { header: 'Accept', supports: [...OFFERED], default: anything ? OFFERED[0] : '' });
  const offered = OFFERED.find((type) => type === wanted);
  if (offered !== undefined) return offered;
  throw new ProblemError('not_acceptable', `Events come as ${OFFERED.join(' or ')}: name one of them in Accept`);
}
