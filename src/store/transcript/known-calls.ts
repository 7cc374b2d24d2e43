import { BatonError } from '../../domain/errors.ts';
import { formatCallId, formatId } from '../../domain/ids.ts';
import type { Db } from '../db/database.ts';

/** The place of a call in a run of the tenant. */
export type CallRef = Readonly<{ tenantId: string; runId: string; messageId: string; index: number }>;

/** @throws BatonError `not_found` if the run has no such call */
export async function refuseUnknownCall(db: Db, { tenantId, runId, messageId, index }: CallRef): Promise<void> {
  const call = await db
    .selectFrom('messages')
    .innerJoin('parts', (of) =>
      of.onRef('parts.session_id', '=', 'messages.session_id').onRef('parts.message_id', '=', 'messages.id'),
    )
    .select('parts.idx')
    .where('messages.id', '=', messageId)
    .where('parts.idx', '=', index)
    .where('parts.type', '=', 'tool')
    .where('messages.run_id', '=', runId)
    .where('messages.tenant_id', '=', tenantId)
    .where('messages.superseded', '=', false)
    .executeTakeFirst();
  if (call === undefined) throw callNotFound({ runId, messageId, index });
}

export const callNotFound = ({ runId, messageId, index }: Omit<CallRef, 'tenantId'>): BatonError =>
  new BatonError('not_found', `call ${formatCallId(messageId, index)} is not of run ${formatId('run', runId)}`);
