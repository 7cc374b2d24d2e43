import { BatonError } from '../domain/errors.ts';
import type { Db, Tx } from '../store/db/database.ts';
import { refuseOverStorage } from '../store/session/quota.ts';
import { findSessionByKey, insertSession, type NewSession, type SessionRow } from '../store/session/sessions.ts';
import type { CommandPorts } from './ports.ts';

/**
 * Creates a session, in the caller's transaction. Nothing follows the commit, and no audit entry: lists show the session
 * with its time.
 *
 * Locks nothing. Promises that the tenant's storage quota had room.
 * @throws BatonError `storage_exceeded`; `conflict` (its id or key is taken)
 */
export async function createSessionIn(
  tx: Tx,
  { quota }: Pick<CommandPorts, 'quota'>,
  session: NewSession,
): Promise<SessionRow> {
  await refuseOverStorage(tx, session.tenantId, quota);
  return insertSession(tx, session);
}

type Keyed = Readonly<{ tenantId: string; key: string | undefined; agentName: string }>;

/** The session with the key. Null: there is none, or no key is given. @throws BatonError `conflict` (another agent) */
export async function findKeyedSession(db: Db | Tx, { tenantId, key, agentName }: Keyed): Promise<SessionRow | null> {
  const row = key === undefined ? null : await findSessionByKey(db, tenantId, key);
  if (row !== null) refuseOtherAgent(row, agentName);
  return row;
}

/** @throws BatonError `conflict`: a session that a key names has another agent than the caller expects */
export function refuseOtherAgent({ agent_name: agent, external_key: key }: SessionRow, expected: string): void {
  if (agent === expected) return;
  throw new BatonError('conflict', `the session with the key ${JSON.stringify(key)} has the agent ${agent}`);
}

export type OpenedSession = Readonly<{ session: SessionRow; isNew: boolean }>;

/**
 * Creates a session, or finds the one that has its external key, whichever agent that has, in the caller's transaction.
 * Nothing follows the commit.
 *
 * Locks nothing, but waits for the end of another transaction that creates a session with the same key. Promises that the
 * key has one session.
 * @throws BatonError `storage_exceeded`; `conflict` (the id is taken)
 */
export async function openSessionIn(
  tx: Tx,
  ports: Pick<CommandPorts, 'quota'>,
  session: NewSession,
): Promise<OpenedSession> {
  const { tenantId, externalKey } = session;
  const find = () => (externalKey === undefined ? null : findSessionByKey(tx, tenantId, externalKey));
  const known = await find();
  if (known !== null) return { session: known, isNew: false };
  try {
    return { session: await createSessionIn(tx, ports, session), isNew: true };
  } catch (error) {
    // Of two that create it at once, the other one has committed meanwhile.
    const other = error instanceof BatonError && error.code === 'conflict' ? await find() : null;
    if (other === null) throw error;
    return { session: other, isNew: false };
  }
}
