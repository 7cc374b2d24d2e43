import { sql } from 'kysely';
import { z } from 'zod';
import { PENDING_KINDS, RUN_KINDS, RUN_STATUSES } from '../../../src/domain/run/run.ts';
import { TOOL_CALL_STATES } from '../../../src/domain/transcript/tool-call.ts';
import type { Db } from '../../../src/store/db/database.ts';

const runSchema = z.object({
  kind: z.enum(RUN_KINDS),
  status: z.enum(RUN_STATUSES),
  epoch: z.number(),
  claimId: z.uuid().nullable(),
  pendingKind: z.enum(PENDING_KINDS).nullable(),
  no: z.number(),
  dispatch: z.number(),
  attempt: z.number(),
  resumeCount: z.number(),
  stepCount: z.number(),
  isCancelRequested: z.boolean(),
  cancelInboxSeq: z.number().nullable(),
  startInboxSeq: z.number(),
  /** The place of its end among the ends of the session's runs. Null: it has not ended. */
  endedAs: z.number().nullable(),
});

const callSchema = z.object({
  state: z.enum(TOOL_CALL_STATES),
  isAsked: z.boolean(),
  /** It has begun work outside of its worker. */
  hasBegun: z.boolean(),
  /** Calls that were open after its answer. Null: it has no answer. */
  answeredWithOpen: z.number().nullable(),
});

const messageSchema = z.object({
  id: z.uuid(),
  seq: z.number(),
  role: z.enum(['user', 'assistant']),
  runId: z.uuid(),
  stepNo: z.number(),
  finishReason: z.string().nullable(),
  isSuperseded: z.boolean(),
  /** Of an assistant's message. */
  calls: z.array(callSchema),
  /** The accepted messages that a user's message was made of. */
  accepted: z.array(z.uuid()),
});

/** All that the protocol says about one session. The model predicts it, and Postgres has it. */
const stateSchema = z.object({
  session: z.object({
    status: z.enum(['idle', 'busy', 'requires_action']),
    activeRunId: z.uuid().nullable(),
    nextRunId: z.uuid().nullable(),
    epoch: z.number(),
    messageSeq: z.number(),
    inboxSeq: z.number(),
    requestedMaintenance: z.enum(['compaction', 'prune']).nullable(),
    isResumeRequested: z.boolean(),
  }),
  runs: z.record(z.uuid(), runSchema),
  /** Accepted messages by id. `takenSeq`: the message of the transcript that they are in. */
  inbox: z.record(z.uuid(), z.object({ seq: z.number(), runId: z.uuid().nullable(), takenSeq: z.number().nullable() })),
  messages: z.array(messageSchema),
});

export type ProtocolState = z.infer<typeof stateSchema>;
export type RunState = z.infer<typeof runSchema>;
export type MessageState = z.infer<typeof messageSchema>;
export type CallState = z.infer<typeof callSchema>;

export const NEW_SESSION: ProtocolState = {
  session: {
    status: 'idle',
    activeRunId: null,
    nextRunId: null,
    epoch: 0,
    messageSeq: 0,
    inboxSeq: 0,
    requestedMaintenance: null,
    isResumeRequested: false,
  },
  runs: {},
  inbox: {},
  messages: [],
};

/** The state as Postgres has it. `eventsHaveGap`: the numbers of the log are not 1 to `event_seq`. */
export async function readState(db: Db, sessionId: string): Promise<ProtocolState & { eventsHaveGap: boolean }> {
  const { rows } = await sql<{ state: unknown; eventsHaveGap: boolean }>`
    select json_build_object(
      'session', json_build_object('status', status, 'activeRunId', active_run_id, 'nextRunId', next_run_id,
        'epoch', epoch, 'messageSeq', message_seq, 'inboxSeq', inbox_seq,
        'requestedMaintenance', requested_maintenance, 'isResumeRequested', requested_resume is not null),
      'runs', (select coalesce(json_object_agg(id, json_build_object('kind', kind, 'status', status, 'epoch', epoch,
          'claimId', claim_id, 'pendingKind', pending_kind, 'no', pending_no, 'dispatch', pending_dispatch,
          'attempt', attempt, 'resumeCount', resume_count, 'stepCount', step_count,
          'isCancelRequested', cancel_requested_at is not null, 'cancelInboxSeq', cancel_inbox_seq,
          'startInboxSeq', start_inbox_seq,
          'endedAs', case when finished_at is not null then rank end)), '{}')
        from (select *, rank() over (order by finished_at) from runs where session_id = sessions.id) as runs),
      'inbox', (select coalesce(json_object_agg(id,
          json_build_object('seq', seq, 'runId', run_id, 'takenSeq', consumed_message_seq)), '{}')
        from inbox where session_id = sessions.id),
      'messages', (select coalesce(json_agg(json_build_object('id', id, 'seq', seq, 'role', role, 'runId', run_id,
          'stepNo', step_no, 'finishReason', finish_reason, 'isSuperseded', superseded,
          'calls', (select coalesce(json_agg(json_build_object('state', state, 'isAsked', required_action is not null,
              'hasBegun', outside_work is not null,
              'answeredWithOpen', answer -> 'open') order by idx), '[]')
            from parts where session_id = sessions.id and message_id = messages.id and type = 'tool'),
          'accepted', (select coalesce(json_agg(replace(item ->> 'id', 'msg_', '')::uuid), '[]')
            from jsonb_array_elements(coalesce(metadata -> 'inbox', '[]')) as item)) order by seq), '[]')
        from messages where session_id = sessions.id)) as state,
      event_seq <> (select count(*) from events where session_id = sessions.id)
        or event_seq <> (select coalesce(max(seq), 0) from events where session_id = sessions.id) as "eventsHaveGap"
    from sessions where id = ${sessionId}`.execute(db);
  return { ...stateSchema.parse(rows[0]?.state), eventsHaveGap: rows[0]?.eventsHaveGap ?? true };
}
