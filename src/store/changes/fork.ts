import { sql } from 'kysely';
import { contextStateSchema, NEW_CONTEXT_STATE } from '../../domain/context/meter/state.ts';
import { BatonError } from '../../domain/errors.ts';
import { formatId } from '../../domain/ids.ts';
import { NOT_RUN } from '../../domain/run/settlement.ts';
import { isOutput, outcomeOf, UNKNOWN_OUTCOME } from '../../domain/transcript/required-action.ts';
import { newId } from '../../platform/new-id.ts';
import type { Tx } from '../db/database.ts';
import { toJson } from '../db/json.ts';
import { findSession, insertSession, type LockedSession, lockSession, type SessionRow } from '../session/sessions.ts';
import { appendEvents } from '../transcript/events.ts';
import { changeCall, readCallAnswers } from '../transcript/open-calls.ts';

export type NewFork = Readonly<{
  tenantId: string;
  /** The session to copy. */
  sessionId: string;
  forkId: string;
  /** The last message to copy. Null: the last finished one. */
  atMessageId: string | null;
  title?: string | null | undefined;
  metadata?: Readonly<Record<string, string>> | undefined;
}>;

/**
 * Copies a session up to a message: transcript with numbers and marks, compactions, files and agent. Open calls are
 * closed in the copy, and its inbox is empty.
 * @throws BatonError `not_found` for an unknown session or message; `conflict` for an unfinished message
 */
export async function forkSession(tx: Tx, fork: NewFork): Promise<SessionRow> {
  const { tenantId, forkId } = fork;
  const parent = await lockSession(tx, tenantId, fork.sessionId);
  const at =
    fork.atMessageId === null
      ? await findLastFinished(tx, parent)
      : { messageId: fork.atMessageId, seq: await findFinishedSeq(tx, { ...fork, messageId: fork.atMessageId }) };
  const uptoSeq = fork.atMessageId === null ? parent.message_seq : at.seq;
  await insertSession(tx, {
    id: forkId,
    tenantId,
    agentName: parent.agent_name,
    agentVersion: parent.agent_version,
    agentSnapshot: parent.agent_base ?? parent.agent_snapshot,
    overrides: parent.overrides,
    title: fork.title === undefined ? parent.title : fork.title,
    metadata: fork.metadata ?? parent.metadata,
    forkedFrom: { sessionId: parent.id, messageId: at.messageId },
  });
  await copyMessages(tx, parent.id, forkId, uptoSeq);
  const compactions = await copyCompactions(tx, parent.id, forkId, uptoSeq);
  // In the order of their hashes: every writer locks blobs in this order.
  await sql`
    insert into blob_refs (blob_id, session_id, tenant_id)
    select blobs.id, ${forkId}::uuid, blob_refs.tenant_id from blob_refs join blobs on blobs.id = blob_refs.blob_id
    where session_id = ${parent.id} order by sha256`.execute(tx);
  await tx
    .updateTable('sessions')
    .set({
      message_seq: uptoSeq,
      first_words: parent.first_words,
      ...viewOf(parent, compactions),
      context_state: contextOf(parent),
      words_due_at: sql`clock_timestamp()`,
    })
    .where('id', '=', forkId)
    .execute();
  const forkedFrom = {
    sessionId: formatId('session', parent.id),
    messageId: at.messageId === null ? null : formatId('message', at.messageId),
  };
  await appendEvents(tx, forkId, null, [{ type: 'session:forked', data: { forkedFrom } }]);
  return findSession(tx, tenantId, forkId);
}

/** Messages of the transcript that no later attempt can replace. */
const IS_FINISHED = sql<boolean>`not superseded and reverted_no is null and (role = 'user' or finish_reason is not null)`;

async function findLastFinished(tx: Tx, parent: LockedSession): Promise<{ messageId: string | null; seq: number }> {
  const last = await tx
    .selectFrom('messages')
    .select(['id', 'seq'])
    .where('session_id', '=', parent.id)
    .where(IS_FINISHED)
    .orderBy('seq', 'desc')
    .limit(1)
    .executeTakeFirst();
  return { messageId: last?.id ?? null, seq: last?.seq ?? 0 };
}

/**
 * The number of a message that no later attempt can replace.
 * @throws BatonError `not_found`; `conflict` if it is not finished or was reverted
 */
export async function findFinishedSeq(
  tx: Tx,
  { tenantId, sessionId, messageId }: Readonly<{ tenantId: string; sessionId: string; messageId: string }>,
): Promise<number> {
  const message = await tx
    .selectFrom('messages')
    .select(['seq', 'reverted_no as revertedNo', IS_FINISHED.as('isFinished')])
    .where('id', '=', messageId)
    .where('session_id', '=', sessionId)
    .where('tenant_id', '=', tenantId)
    .executeTakeFirst();
  const id = formatId('message', messageId);
  if (message === undefined) throw new BatonError('not_found', `message ${id} does not exist in this session`);
  if (message.revertedNo !== null) throw new BatonError('conflict', `message ${id} was reverted: undo that first`);
  if (!message.isFinished) throw new BatonError('conflict', `message ${id} is not finished`);
  return message.seq;
}

async function copyMessages(tx: Tx, parentId: string, forkId: string, uptoSeq: number): Promise<void> {
  const { rows } = await sql<{ id: string }>`
    select id from messages where session_id = ${parentId} and seq <= ${uptoSeq} and ${IS_FINISHED}
    order by seq`.execute(tx);
  const old = rows.map(({ id }) => id);
  const fresh = old.map(newId);
  const copies = sql`unnest(${old}::uuid[], ${fresh}::uuid[]) as copy (old_id, new_id)`;
  await sql`
    with copied as (
      insert into messages (id, tenant_id, session_id, seq, role, model, finish_reason, is_summary, usage, error,
        created_at, finished_at)
      select new_id, tenant_id, ${forkId}::uuid, seq, role, model, finish_reason, is_summary, usage, error, created_at,
        finished_at from ${copies} join messages on id = old_id and session_id = ${parentId}
    )
    insert into parts (session_id, message_id, idx, tenant_id, type, content, tool_call_id, tool_name,
      state, started_at, finished_at, truncated, compacted_at, view_limit, media_stripped_at, original_tokens)
    select ${forkId}::uuid, new_id, idx, tenant_id, type,
      case when state in ('pending', 'awaiting_approval', 'awaiting_output')
        then content || jsonb_build_object('output', ${toJson({ type: 'error-text', value: NOT_RUN })}::jsonb)
        when state in ('running', 'unknown')
        then content || jsonb_build_object('output', ${toJson({ type: 'error-text', value: UNKNOWN_OUTCOME })}::jsonb)
        else content end,
      tool_call_id, tool_name,
      case when state in ('pending', 'awaiting_approval', 'awaiting_output', 'running', 'unknown') then 'error'
        else state end,
      started_at, finished_at, truncated, compacted_at, view_limit, media_stripped_at, original_tokens
    from ${copies} join parts on session_id = ${parentId} and message_id = old_id`.execute(tx);
  // An output that a client gave belongs to the call, although no worker has recovered the step yet.
  for (const { messageId, index, given } of await readCallAnswers(tx, parentId, old)) {
    const copyId = fresh[old.indexOf(messageId)];
    if (copyId === undefined || !isOutput(given)) continue;
    await changeCall(tx, { sessionId: forkId, messageId: copyId, index }, outcomeOf(given));
  }
}

type CopiedCompaction = Readonly<{ id: string; uptoSeq: number; summarySeq: number; finishedAt: Date | null }>;

/** The compactions whose summaries were copied, newest first. */
async function copyCompactions(
  tx: Tx,
  parentId: string,
  forkId: string,
  uptoSeq: number,
): Promise<readonly CopiedCompaction[]> {
  const { rows } = await sql<CopiedCompaction>`
    select id, upto_seq as "uptoSeq", summary_message_seq as "summarySeq", finished_at as "finishedAt" from compactions
    where session_id = ${parentId} and state = 'completed' and summary_message_seq <= ${uptoSeq} and exists (
      select from messages where session_id = ${parentId} and seq = summary_message_seq and reverted_no is null)
    order by round desc`.execute(tx);
  const old = rows.map(({ id }) => id);
  await sql`
    insert into compactions (id, tenant_id, session_id, round, strategy, reason, state, from_seq, upto_seq,
      summary_message_seq, tokens_before, tokens_after, attempts, cost_usd, usage, started_at, finished_at)
    select new_id, tenant_id, ${forkId}::uuid, round, strategy, reason, state, from_seq, upto_seq, summary_message_seq,
      tokens_before, tokens_after, attempts, cost_usd, usage, started_at, finished_at
    from unnest(${old}::uuid[], ${old.map(newId)}::uuid[]) as copy (old_id, new_id)
    join compactions on id = old_id`.execute(tx);
  return rows;
}

/** The start of the copy's view: after its last compaction, which may be an earlier one of the original. */
function viewOf(parent: LockedSession, compactions: readonly CopiedCompaction[]) {
  const [last] = compactions;
  if (last === undefined) return {};
  const isParents = parent.summary_message_seq === last.summarySeq;
  return {
    view_start_seq: isParents ? parent.view_start_seq : last.uptoSeq + 1,
    summary_message_seq: last.summarySeq,
    compaction_count: compactions.length,
    last_compaction_at: last.finishedAt,
  };
}

/** Keeps the model and its calibration. The anchor goes: it is the bill for another request. */
export function contextOf(parent: LockedSession): string {
  const { model, calibration } = contextStateSchema.parse(parent.context_state);
  return toJson({ ...NEW_CONTEXT_STATE, model, calibration });
}
