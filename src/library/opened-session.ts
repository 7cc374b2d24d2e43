import type { z } from 'zod';
import type { Dependencies } from '../app/dependencies.ts';
import { findKeyedSession, openSessionIn, refuseOtherAgent } from '../commands/create-session.ts';
import { BatonError } from '../domain/errors.ts';
import { fieldErrors } from '../domain/field-errors.ts';
import { parseSessionRef } from '../domain/run/session-ref.ts';
import type { Tx } from '../store/db/database.ts';
import { findSessionId } from '../store/session/sessions.ts';
import type { NewSessionInTransaction } from './contract.ts';

/** Finds or creates the session of a message in the transaction, and returns its id. */
export type OpenSession = (tx: Tx) => Promise<string>;

/**
 * Reads which session is meant. A new one is prepared here, because no transaction may wait for an MCP server.
 * @param named an id, `key:` and a key, or the session to create unless its key has one
 * @throws BatonError `not_found` (neither an id nor a key); `invalid_request`, `agent_not_found`, `model_unavailable`,
 * `tools_unavailable`, `conflict` (the session with the key has another agent)
 */
export async function prepareSession(
  deps: Dependencies,
  tenantId: string,
  named: string | NewSessionInTransaction,
): Promise<OpenSession> {
  if (typeof named === 'string') {
    const ref = parseSessionRef(named);
    if (ref === null) throw new BatonError('not_found', `${JSON.stringify(named)} is no session: ses_… or key:…`);
    return (tx) => findSessionId(tx, tenantId, ref);
  }
  if (typeof named !== 'object' || named === null) {
    throw new BatonError('invalid_request', 'session: expected ses_…, key:… or { agent, key }');
  }
  // The schemas of the API are loaded with the first use: workers do not need them.
  const { newSessionBody } = await import('../api/sessions.ts');
  const body = readFields(newSessionBody, named);
  const { agent: agentName, key } = body;
  const known = await findKeyedSession(deps.db, { tenantId, key, agentName });
  if (known !== null) return async () => known.id;
  const { newSessionOf } = await import('../http/new-session.ts');
  const fresh = await newSessionOf(deps, tenantId, body, (agent) => deps.pinTools(agent, new AbortController().signal));
  return async (tx) => {
    const { session } = await openSessionIn(tx, deps, fresh);
    refuseOtherAgent(session, agentName);
    return session.id;
  };
}

/** @throws BatonError `invalid_request` that names the first wrong field */
export function readFields<Schema extends z.ZodType>(schema: Schema, fields: unknown): z.output<Schema> {
  const parsed = schema.safeParse(fields);
  if (parsed.success) return parsed.data;
  const [first] = fieldErrors(parsed.error);
  const words = [first?.path, first?.message ?? 'is invalid'].filter(Boolean).join(': ');
  throw new BatonError('invalid_request', words, { cause: parsed.error });
}
