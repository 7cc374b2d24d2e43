import type { Context, MiddlewareHandler } from 'hono';
import { z } from 'zod';
import { parseCallId, parseId } from '../../domain/ids.ts';
import { findRun } from '../../store/session/runs.ts';
import { findSession } from '../../store/session/sessions.ts';
import { refuseUnknownCall } from '../../store/transcript/known-calls.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type HttpEnv, tenantOf } from '../http-env.ts';
import { findModel } from '../known-agent.ts';

/**
 * Checks that the subject of a large request exists before its body is validated. Validating a small body costs less
 * than the query, so there the route checks.
 * @throws BatonError `not_found`, `agent_not_found`; ProblemError `not_found`
 */
export function lookUpFirst(deps: Pick<HttpDeps, 'db' | 'agents'>): MiddlewareHandler<HttpEnv> {
  return async (c, next) => {
    if (c.get('largeBody') !== undefined) await lookUp(c, deps, c.get('largeBody'));
    return next();
  };
}

const SUBJECT = /^\/v1\/(?:sessions\/(?<session>[^/]+)|runs\/(?<run>[^/]+))(?:\/tool-calls\/(?<call>[^/]+))?/;

/** Ignores malformed ids and fields, which the route refuses. */
async function lookUp(
  c: Context<HttpEnv>,
  { db, agents }: Pick<HttpDeps, 'db' | 'agents'>,
  body: unknown,
): Promise<void> {
  const { path } = c.req;
  const { session = '', run = '', call = '' } = SUBJECT.exec(path)?.groups ?? {};
  const sessionId = parseId('session', session);
  const runId = parseId('run', run);
  const place = parseCallId(call);
  if (sessionId !== null) await findSession(db, tenantOf(c), sessionId);
  if (runId !== null) await findRun(db, tenantOf(c), runId);
  if (runId !== null && place !== null) await refuseUnknownCall(db, { tenantId: tenantOf(c), runId, ...place });
  const { agent, model } = namesSchema.catch({}).parse(body);
  if (path === '/v1/sessions' && agent !== undefined) (await agents.current()).get(agent);
  if ((path === '/v1/chat/completions' || /^\/v1\/responses(?:\/compact)?$/.test(path)) && model !== undefined)
    await findModel(agents, model);
}

const name = z.string().max(256).optional();
const namesSchema = z.object({ agent: name, model: name });
