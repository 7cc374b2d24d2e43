import type { Context } from 'hono';
import { type Caller, TOKEN_ALLOWANCES } from '../../domain/access.ts';
import { parseId } from '../../domain/ids.ts';
import { parseSessionRef } from '../../domain/run/session-ref.ts';
import { tokenReach } from '../../domain/run/session-token.ts';
import { findEndedAccess } from '../../store/around/api-keys.ts';
import { readToken } from '../../store/around/session-tokens.ts';
import type { Db } from '../../store/db/database.ts';
import { findRun } from '../../store/session/runs.ts';
import { findSessionByKey } from '../../store/session/sessions.ts';
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
  throw otherSession();
}

/** Said of a token that is valid but may not do this, so that a client looks for another one (RFC 6750 §3.1). */
const BEYOND = { 'www-authenticate': 'Bearer realm="baton", error="insufficient_scope"' };

const otherSession = (): ProblemError =>
  new ProblemError('forbidden', 'The token opens its own session alone: ask with an API key for anything else', {
    headers: BEYOND,
  });

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
      return isSession(db, tenantId, decoded(reach.id), session.id);
    case 'run': {
      const runId = parseId('run', reach.id);
      return runId !== null && (await findRun(db, tenantId, runId)).session_id === session.id;
    }
  }
}

/** As the routes read a part of a path. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Whether the text names this session. A key that no session has is like that of another one. */
async function isSession(db: Db, tenantId: string, text: string, sessionId: string): Promise<boolean> {
  const ref = parseSessionRef(text);
  if (ref === null || 'id' in ref) return ref?.id === sessionId;
  return (await findSessionByKey(db, tenantId, ref.key))?.id === sessionId;
}

/** @throws ProblemError `forbidden`: the caller's token opens another session */
export function refuseOtherSession({ session }: Caller, sessionId: string): void {
  if (session === undefined || session.id === sessionId) return;
  throw otherSession();
}

/** @throws ProblemError `forbidden`: the body of a chat names another session than the caller's token opens */
export async function refuseOtherChat(db: Db, { tenantId, session }: Caller, chatId: string): Promise<void> {
  if (session === undefined || (await isSession(db, tenantId, chatId, session.id))) return;
  const message = 'The token opens its own session alone: the id of the chat has to be ses_…, or key: and its key';
  throw new ProblemError('forbidden', message, { headers: BEYOND });
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
  throw new ProblemError('forbidden', message, { errors: [{ path: field, message }], headers: BEYOND });
}
