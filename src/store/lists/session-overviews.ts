import { sql } from 'kysely';
import { z } from 'zod';
import { type ContextState, contextStateSchema } from '../../domain/context/meter/state.ts';
import { PENDING_KINDS, RUN_KINDS, RUN_STATUSES } from '../../domain/run/run.ts';
import { shownStatus, type Wait, waitOf } from '../../domain/run/waits-for.ts';
import { MESSAGE_ROLES } from '../../domain/transcript/message.ts';
import { ACTION_KINDS } from '../../domain/transcript/required-action.ts';
import { DEFAULT_MAX_STEPS } from '../../domain/tunables.ts';
import type { Db } from '../db/database.ts';
import type { SessionRow } from '../session/sessions.ts';

/** Characters of the last words. */
const WORDS_CHARS = 200;
/** Messages among which the last words are looked for: a step with calls may have none. */
const WORDS_MESSAGES = 6;
/** Bytes of a text beyond which none of it is shown: a list must not read megabytes. */
const WORDS_BYTES = 65_536;
/** Queued messages beyond which no list counts. */
const MOST_QUEUED = 1_000;

const time = z.coerce.date();

const rowSchema = z.object({
  id: z.string(),
  words: z.object({ role: z.enum(MESSAGE_ROLES), text: z.string(), at: time }).nullable(),
  run: z
    .object({
      id: z.string(),
      kind: z.enum(RUN_KINDS),
      status: z.enum(RUN_STATUSES),
      reason: z.string().nullable(),
      errorCode: z.string().nullable(),
      steps: z.int(),
      maxSteps: z.int().nullable(),
      createdAt: time,
      startedAt: time.nullable(),
      finishedAt: time.nullable(),
      pendingKind: z.enum(PENDING_KINDS).nullable(),
      pendingAt: time.nullable(),
      isDelegating: z.boolean(),
      isClaimed: z.boolean(),
      throttledAt: time.nullable(),
      approvalExpiresAt: time.nullable(),
    })
    .nullable(),
  calls: z.array(z.object({ kind: z.enum(ACTION_KINDS), toolName: z.string() })),
  queued: z.int(),
});

type LastRun = NonNullable<z.infer<typeof rowSchema>['run']>;

/** The state of a session for a list of sessions. */
export type SessionOverview = Readonly<{
  /** The last text of the transcript, without summaries. */
  lastWords: z.infer<typeof rowSchema>['words'];
  lastRun: LastRun | null;
  waitsFor: Wait | null;
  context: ContextState['meter'];
  /** Queued messages, of which at most 1 000 are counted. */
  queued: number;
}>;

/** The overviews of these sessions, by id. */
export async function readOverviews(
  db: Db,
  sessions: readonly Pick<SessionRow, 'id' | 'context_state'>[],
): Promise<ReadonlyMap<string, SessionOverview>> {
  if (sessions.length === 0) return new Map();
  const now = new Date();
  const states = new Map(sessions.map(({ id, context_state }) => [id, context_state]));
  const { rows } = await sql`
    select asked.id, words.words, run.run, queued.count as queued,
      coalesce(case when run.run ->> 'status' = 'requires_action' then calls.calls end, '[]') as calls
    from unnest(${[...states.keys()]}::uuid[]) as asked (id)
    left join lateral (
      select jsonb_build_object('role', newest.role, 'at', newest.created_at, 'text',
        case when parts.content_bytes <= ${WORDS_BYTES} then left(parts.content ->> 'text', ${WORDS_CHARS}) else '' end) as words
      from (
        select id, session_id, seq, role, created_at from messages
        where session_id = asked.id and not superseded and reverted_no is null and not is_summary order by seq desc limit ${WORDS_MESSAGES}
      ) as newest join parts on parts.session_id = newest.session_id and parts.message_id = newest.id and parts.type = 'text'
      where parts.content ->> 'text' <> '' order by newest.seq desc, parts.idx desc limit 1
    ) as words on true
    left join lateral (
      select jsonb_build_object('id', id, 'kind', kind, 'status', status, 'reason', status_reason,
        'errorCode', error ->> 'code', 'steps', step_count, 'maxSteps', case when kind = 'task' then coalesce(max_steps, ${sql.lit(DEFAULT_MAX_STEPS)}) end, 'createdAt', created_at,
        'startedAt', started_at, 'finishedAt', finished_at, 'pendingKind', pending_kind, 'pendingAt', pending_at,
        'isDelegating', is_delegating, 'isClaimed', claim_id is not null, 'throttledAt', throttled_at, 'approvalExpiresAt', approval_expires_at) as run
      from runs where session_id = asked.id order by created_at desc, id desc limit 1
    ) as run on true
    left join lateral (
      select jsonb_agg(jsonb_build_object('kind', required_action, 'toolName', content ->> 'toolName') order by message_id, idx) as calls
      from parts where session_id = asked.id and state in ('pending', 'awaiting_approval', 'awaiting_output', 'running', 'unknown')
        and required_action is not null and answer is null
    ) as calls on true
    left join lateral (
      select count(*)::integer as count from (
        select 1 from inbox where session_id = asked.id and consumed_message_seq is null limit ${MOST_QUEUED}) as waiting
    ) as queued on true`.execute(db);
  return new Map(
    z
      .array(rowSchema)
      .parse(rows)
      .map(({ id, words, run, calls, queued }) => {
        const context = contextStateSchema.parse(states.get(id) ?? {}).meter;
        const waitsFor = run === null ? null : waitOf({ ...run, calls }, now);
        return [
          id,
          { lastWords: words, lastRun: run && { ...run, status: shownStatus(run) }, waitsFor, context, queued },
        ];
      }),
  );
}
