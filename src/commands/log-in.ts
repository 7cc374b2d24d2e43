import { formatId } from '../domain/ids.ts';
import { createLogin, endLogin, type NewLogin } from '../store/around/console-logins.ts';
import { inTransaction } from '../store/db/database.ts';
import { auditAct } from './audit.ts';
import type { CommandPorts } from './ports.ts';

/**
 * Begins a login of the console with a key. Of the key's earlier logins the newest stay.
 *
 * Locks nothing. The audit log has the act.
 */
export function logIn(
  { db, newId }: Pick<CommandPorts, 'db' | 'newId'>,
  { tenantId, keyId }: Readonly<{ tenantId: string; keyId: string }>,
): Promise<NewLogin> {
  return inTransaction(db, async (tx) => {
    await auditAct(tx, { tenantId, keyId }, 'console:login', `/v1/keys/${formatId('key', keyId)}`);
    return createLogin(tx, { id: newId(), keyId });
  });
}

/** Ends a login of the console: its next request is refused. One that does not exist has ended already. */
export async function logOut({ db }: Pick<CommandPorts, 'db'>, loginId: string): Promise<void> {
  await inTransaction(db, (tx) => endLogin(tx, loginId));
}
