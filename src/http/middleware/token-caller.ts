import type { Context } from 'hono';
import { type Caller, TOKEN_ALLOWANCES } from '../../domain/access.ts';
import { parseId } from '../../domain/ids.ts';
import { tokenReach } from '../../domain/run/session-token.ts';
import { findEndedAccess } from '../../store/around/api-keys.ts';
import { readToken } from '../../store/around/session-tokens.ts';
import type { Db } from '../../store/db/database.ts';
import { findRun } from '../../store/session/runs.ts';
import { ProblemError } from '../bodies/problem.ts';
import type { HttpEnv } from '../http-env.ts';

/**
 * The caller that a token makes of its holder. Null: it is not valid, or the key is not with which it was made.
 * @param withoutKeys whether a token that was made without a key counts
 * @throws ProblemError `forbidden` (the request is about something else than its session); BatonError `not_found`
 */
export async function findTokenHolder(
  c: Context<HttpEnv>,
  db: Db,
  token: string,
  withoutKeys: boolean,
): Promise<Caller | null> {
  const claims = await readToken(db, token);
  if (claims === null || (claims.keyId === null && !withoutKeys)) return null;
  const { tenantId, keyId, sessionId, canWrite, expiresAtMs, grant } = claims;
  if (keyId !== null && (await findEndedAccess(db, [keyId])).length > 0) return null;
  const scopes = canWrite ? (['read', 'write'] as const) : (['read'] as const);
  const caller = { tenantId, keyId, scopes, session: { id: sessionId, expiresAtMs, grant } };
  if (await isWithin(c.req.method, c.req.path, db, caller)) return caller;
  throw new ProblemError('forbidden', 'The token opens its own session alone: ask with an API key for anything else');
}

async function isWithin(
  method: string,
  path: string,
  db: Db,
  { tenantId, session }: Pick<Caller, 'tenantId'> & Readonly<{ session: Readonly<{ id: string }> }>,
): Promise<boolean> {
  const reach = tokenReach(method, path);
  switch (reach.kind) {
    case 'none':
      return false;
    case 'chat':
      return true;
    case 'session':
      return parseId('session', reach.id) === session.id;
    case 'run': {
      const runId = parseId('run', reach.id);
      return runId !== null && (await findRun(db, tenantId, runId)).session_id === session.id;
    }
  }
}

/** @throws ProblemError `forbidden`: the body of a chat names another session than the caller's token opens */
export function refuseOtherChat({ session }: Caller, chatId: string): void {
  if (session === undefined || parseId('session', chatId) === session.id) return;
  throw new ProblemError('forbidden', 'The token opens its own session alone: the id of the chat has to be ses_…');
}

/**
 * Refuses fields of a message that cost more or reach another host, unless the caller's token was made for them.
 * @throws ProblemError `forbidden` that names the field
 */
export function refuseBeyondToken(
  { session }: Caller,
  fields: Readonly<Partial<Record<(typeof TOKEN_ALLOWANCES)[number], unknown>>>,
): void {
  if (session === undefined) return;
  const [field] = TOKEN_ALLOWANCES.filter((name) => fields[name] !== undefined && !session.grant.allow.includes(name));
  if (field === undefined) return;
  const message = `The token was made without ${field}: leave it out, or make the token with "allow": ["${field}"]`;
  throw new ProblemError('forbidden', message, { errors: [{ path: field, message }] });
}
