import { sql } from 'kysely';
import type { Json } from '../../domain/transcript/message.ts';
import type { Db } from '../db/database.ts';
import { toJson } from '../db/json.ts';
import type { Fence } from './claims.ts';

/** Notes what a running call has begun elsewhere. False: the claim is lost, and nothing is written. */
export async function noteOutsideWork(
  db: Db,
  { runId, epoch, claimId }: Fence,
  { messageId, index }: Readonly<{ messageId: string; index: number }>,
  work: Json,
): Promise<boolean> {
  const { rows } = await sql`
    with held as materialized (
      select session_id from runs where id = ${runId} and epoch = ${epoch} and claim_id = ${claimId} for share
    )
    update parts set outside_work = ${toJson(work)}::jsonb from held
    where parts.session_id = held.session_id and message_id = ${messageId} and idx = ${index}
    returning idx`.execute(db);
  return rows.length > 0;
}
