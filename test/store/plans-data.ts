import { sql } from 'kysely';
import { WORD_WINDOW_BITS } from '../../src/domain/tunables.ts';
import type { Db } from '../../src/store/db/database.ts';

/** Shares of the tenant's count of stored bytes: each one stands for a transaction that counted at the same time. */
export const STORED_SHARES = 50;
export const SESSION_COUNT = 20_000;
/** The session that has been going on for long: only its last messages are still in the view. */
export const OLD_SESSION = { n: 1, messages: 10_000, runs: 1_000, view: 50 };
/** States of the runs of the other sessions, by the session's number. All other runs have ended. */
export const LEASED = { from: 101, upto: 200 };
export const DUE = { from: 201, upto: 300 };
export const DELAYED = { from: 301, upto: 400 };
export const EXPIRED = { from: 401, upto: 420 };
export const WAITING = { from: 421, upto: 500 };
/** Number of workers that have the leased and the expired runs in turn: `worker-0` and so on. */
export const WORKERS = 8;
export const CHUNKS_PER_MESSAGE = 50;

const id = (kind: string, n: number): string => `${kind}-0000-7000-8000-${n.toString(16).padStart(12, '0')}`;
export const sessionId = (n: number): string => id('00000001', n);
export const runId = (n: number): string => id('00000002', n);
/** The unfinished message of a leased or expired run. */
export const leftoverOf = (n: number): string => id('00000003', 2 * n + 2);
const idSql = (kind: number, n: string) =>
  sql.raw(`('0000000${kind}-0000-7000-8000-' || lpad(to_hex(${n}), 12, '0'))::uuid`);

export const DUE_CHILDREN = 10;

/**
 * Fills a database as it looks after months: 20 000 sessions with a run each, a few hundred of them at work, and one
 * session with 10 000 messages. Statistics are up to date.
 */
export async function fillDatabase(db: Db): Promise<void> {
  await db.transaction().execute(async (tx) => {
    await insertSessions(tx);
    await insertRuns(tx);
    await insertMessages(tx);
    await insertWords(tx);
    await insertInbox(tx);
    await insertEvents(tx);
    await insertCompactions(tx);
    await insertReverts(tx);
    await insertEndpoints(tx);
    await insertDeadWorkers(tx);
    await insertStoredBytes(tx);
    await insertWebhooks(tx);
  });
  await insertChildren(db);
  await sql`vacuum analyze`.execute(db);
}

/** Webhooks of 500 tenants, and deliveries, all but a few of which have ended. */
async function insertWebhooks(db: Db): Promise<void> {
  await sql`
    insert into webhooks (id, tenant_id, url, secret, events)
    select ${idSql(8, 'n')}, 'tenant-' || n % 500, 'https://hooks.example/' || n, 'secret', '{run:failed}'
    from generate_series(1, 5000) n`.execute(db);
  await sql`
    insert into webhook_deliveries (id, tenant_id, webhook_id, endpoint, type, body, state)
    select ${idSql(9, 'n')}, 'tenant-' || n % 500, ${idSql(8, '1 + n % 5000')}, (${idSql(8, '1 + n % 5000')})::text,
      'run:failed', '{}', case when n <= 20 then 'waiting' else 'delivered' end
    from generate_series(1, 20000) n`.execute(db);
}

async function insertSessions(db: Db): Promise<void> {
  await sql`
    insert into sessions (id, tenant_id, agent_name, agent_version, agent_snapshot, metadata, status, message_seq,
      event_seq, inbox_seq, view_start_seq, created_at)
    select ${idSql(1, 'n')}, case n % 10 when 0 then 'other' else 'default' end, 'workspace', '1', '{"limits":{"maxSteps":50}}',
      jsonb_build_object('customer', 'c' || n % 2000, 'tier', case n % 2 when 0 then 'free' else 'paid' end),
      case when n between ${LEASED.from} and ${EXPIRED.upto} then 'busy' else 'idle' end,
      2, 3, 2, 1, now() - make_interval(mins => ${SESSION_COUNT} - n)
    from generate_series(1, ${SESSION_COUNT}::integer) n`.execute(db);
  await sql`
    update sessions set message_seq = ${OLD_SESSION.messages}, event_seq = ${2 * OLD_SESSION.messages},
      inbox_seq = ${OLD_SESSION.messages / 2}, view_start_seq = ${OLD_SESSION.messages - OLD_SESSION.view + 1}
    where id = ${sessionId(OLD_SESSION.n)}`.execute(db);
}

async function insertRuns(db: Db): Promise<void> {
  const between = (range: Readonly<{ from: number; upto: number }>) => sql`n between ${range.from} and ${range.upto}`;
  const claimed = sql`(${between(LEASED)} or ${between(EXPIRED)})`;
  await sql`
    insert into runs (id, tenant_id, session_id, status, pending_kind, pending_at, claim_id, lease_owner,
      lease_expires_at, epoch, created_at)
    select ${idSql(2, 'n')}, s.tenant_id, s.id,
      case when ${claimed} then 'running' when ${between(DUE)} or ${between(DELAYED)} then 'queued'
        when ${between(WAITING)} then 'requires_action' else 'completed' end,
      case when n between ${LEASED.from} and ${WAITING.upto} then 'step' end,
      case when ${between(DELAYED)} then now() + interval '1 hour' else s.created_at end,
      case when ${claimed} then ${idSql(4, 'n')} end,
      case when ${claimed} then 'worker-' || n % ${WORKERS}::integer end,
      case when ${between(EXPIRED)} then now() - interval '1 minute' when ${claimed} then now() + interval '1 hour' end,
      1, s.created_at
    from generate_series(1, ${SESSION_COUNT}::integer) n join sessions s on s.id = ${idSql(1, 'n')}`.execute(db);
  await sql`
    insert into runs (id, session_id, status, created_at)
    select ${idSql(2, `${SESSION_COUNT} + n`)}, ${sessionId(OLD_SESSION.n)}, 'completed', now() - make_interval(mins => 1000 - n)
    from generate_series(1, ${OLD_SESSION.runs}::integer) n`.execute(db);
  await sql`
    update sessions set active_run_id = runs.id from runs
    where runs.session_id = sessions.id and runs.pending_kind is not null`.execute(db);
}

async function insertMessages(db: Db): Promise<void> {
  const inFlight = sql`(n between ${LEASED.from} and ${LEASED.upto} or n between ${EXPIRED.from} and ${EXPIRED.upto})`;
  await sql`
    insert into messages (id, session_id, seq, role, run_id, step_no, attempt, epoch, finish_reason)
    select ${idSql(3, 'n * 2 + seq')}, ${idSql(1, 'n')}, seq, case seq when 1 then 'user' else 'assistant' end,
      ${idSql(2, 'n')}, 1, 1, 1, case when seq = 2 and not ${inFlight} then 'stop' end
    from generate_series(2, ${SESSION_COUNT}::integer) n, generate_series(1, 2) seq`.execute(db);
  const base = 10 * SESSION_COUNT;
  const perRun = OLD_SESSION.messages / OLD_SESSION.runs;
  await sql`
    insert into messages (id, session_id, seq, role, run_id, step_no, attempt, epoch, finish_reason, event_seq, view_start_seq)
    select ${idSql(3, `${base} + seq`)}, ${sessionId(OLD_SESSION.n)}, seq,
      case seq % 2 when 1 then 'user' else 'assistant' end,
      ${idSql(2, `${SESSION_COUNT} + 1 + (seq - 1) / ${perRun}`)}, 1 + (seq - 1) % ${perRun}::integer, 1, 1,
      case seq % 2 when 0 then 'stop' end, case seq % 2 when 0 then 2 * seq end,
      case seq % 2 when 0 then ${OLD_SESSION.messages - OLD_SESSION.view + 1}::bigint end
    from generate_series(1, ${OLD_SESSION.messages}::integer) seq`.execute(db);
  await sql`
    insert into parts (message_id, idx, session_id, type, content)
    select id, idx, session_id, 'text', jsonb_build_object('type', 'text', 'text', repeat('words and more ', 20))
    from messages, generate_series(0, 1) idx where role = 'user' or finish_reason is not null`.execute(db);
  await sql`
    insert into part_chunks (session_id, message_id, char_offset, part_idx, type, chunk)
    select session_id, id, 10 * n, 0, 'text', 'ten chars.' from messages, generate_series(0, ${CHUNKS_PER_MESSAGE}::integer - 1) n
    where role = 'assistant' and finish_reason is null`.execute(db);
  await sql`
    insert into parts (message_id, idx, session_id, type, state, required_action, content)
    select id, 2, session_id, 'tool', 'awaiting_approval', 'approval',
      '{"type":"tool","toolCallId":"c","toolName":"bash","input":{}}' from messages
    where role = 'assistant' and session_id between ${sessionId(WAITING.from)} and ${sessionId(WAITING.upto)}`.execute(
    db,
  );
}

/** Words of all messages: a rare one, one that every second message has, and one that only the oldest sessions have. */
async function insertWords(db: Db): Promise<void> {
  await sql`
    insert into message_words (session_id, seq, tenant_id, created_at, words)
    select m.session_id, m.seq, s.tenant_id, s.created_at, array_to_tsvector(array[s.tenant_id || ' n' || s.n,
      s.tenant_id || case when m.seq % 2 = 0 then ' even' else ' odd' end,
      s.tenant_id || case when s.n <= 4000 then ' early' else ' late' end]
      || array(select s.tenant_id || ' #' || bits || ':' || (floor(extract(epoch from s.created_at))::bigint >> bits)
        from unnest(${[...WORD_WINDOW_BITS]}::integer[]) as bits))
    from (select id, tenant_id, created_at, row_number() over (order by id) as n from sessions) as s
    join messages m on m.session_id = s.id`.execute(db);
}

async function insertInbox(db: Db): Promise<void> {
  await sql`
    insert into inbox (session_id, seq, id, content, run_id, consumed_message_seq)
    select session_id, (seq + 1) / 2, id, '[{"type":"text","text":"words"}]', run_id, seq
    from messages where role = 'user'`.execute(db);
  await sql`
    insert into inbox (session_id, seq, id, content, run_id)
    select ${idSql(1, 'n')}, 2, ${idSql(5, 'n')}, '[{"type":"text","text":"words"}]', ${idSql(2, 'n')}
    from generate_series(${LEASED.from}::integer, ${DUE.upto}::integer) n`.execute(db);
}

async function insertEvents(db: Db): Promise<void> {
  await sql`
    insert into events (session_id, seq, type, data)
    select id, seq, case when seq % 4 = 0 then 'tools:pinned' else 'message:created' end, '{"words":"words and more words"}'
    from sessions, generate_series(1, event_seq) seq`.execute(db);
}

async function insertCompactions(db: Db): Promise<void> {
  await sql`
    insert into session_agents (session_id, upto_seq, tenant_id, snapshot)
    select id, 1, tenant_id, agent_snapshot from sessions`.execute(db);
  await sql`
    insert into compactions (id, session_id, run_id, round, strategy, reason, state, from_seq, upto_seq, tokens_before)
    select gen_random_uuid(), ${sessionId(OLD_SESSION.n)}, ${idSql(2, `${SESSION_COUNT} + n`)}, n, 'auto', 'threshold', 'completed', 1, n, 9
    from generate_series(1, ${OLD_SESSION.runs}::integer) n`.execute(db);
  await sql`
    insert into compactions (id, session_id, round, strategy, reason, state, from_seq, upto_seq, tokens_before)
    select gen_random_uuid(), ${idSql(1, 'n')}, 1, 'auto', 'threshold', 'completed', 1, 1, 9
    from generate_series(2, 10000) n`.execute(db);
}

/** Many sessions that were reverted, one of them often. */
async function insertReverts(db: Db): Promise<void> {
  const more = sql`select ${idSql(1, '2')}, n + 1 from generate_series(1, 1000) n`;
  await sql`
    insert into session_reverts (session_id, no, message_id, to_seq, upto_seq, message_count, view_start_seq)
    select session_id, no, gen_random_uuid(), 1, 2, 1, 1
    from (select id as session_id, 1 as no from sessions union all ${more}) as reverts`.execute(db);
}

/** Many models behind many endpoints, some of them paused. A claim finds its rows about them by an index. */
async function insertEndpoints(db: Db): Promise<void> {
  await sql`
    insert into model_limits (provider, endpoint, model, context_tokens)
    select 'provider' || n % 50, 'https://' || n || '.example', 'model', 8000 from generate_series(1, 2000) n`.execute(
    db,
  );
  await sql`
    insert into provider_pauses (model, tenant_id, endpoint, credential, session_id, told_at, until_at)
    select 'model' || n % 50, 'tenant' || n, 'https://' || n % 3 || '.example', 'key', ${idSql(1, 'n')}, now(), now()
    from generate_series(1, 2000) n
    union all
    select 'crowded', 'tenant' || n, 'https://1.example', 'key', ${idSql(1, 'n')}, now(), now() + interval '1 hour'
    from generate_series(1, 1000) n`.execute(db);
}

/** Dead workers: a claim looks for its own worker among them. */
async function insertDeadWorkers(db: Db): Promise<void> {
  await sql`insert into dead_workers (id) select 'gone-' || n from generate_series(1, 2000) n`.execute(db);
}

/** Children of one session, some of which are due. */
async function insertChildren(db: Db): Promise<void> {
  await sql`
    insert into children (message_id, idx, parent_session_id, parent_run_id, tool_name, agent_name, mode, limits,
        max_parallel, session_id, run_id, state, due_at)
      select gen_random_uuid(), 0, ${sessionId(1)}, gen_random_uuid(), 'any', 'any', 'wait', '{}', 1, gen_random_uuid(),
        gen_random_uuid(), case when n <= ${DUE_CHILDREN} then 'running' else 'delivered' end,
        case when n <= ${DUE_CHILDREN} then clock_timestamp() end
      from generate_series(1, 20000) as n`.execute(db);
}

/** The tenants' counts of stored bytes, in a share for each transaction that counted at the same time. */
async function insertStoredBytes(db: Db): Promise<void> {
  await sql`
    insert into stored_bytes (tenant_id, share, bytes)
    select case when n <= ${STORED_SHARES} then 'default' else 'tenant' || n end, n, 1 from generate_series(1, 3000) n`.execute(
    db,
  );
}
