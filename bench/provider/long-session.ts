import { sql } from 'kysely';
import { NEW_CONTEXT_STATE } from '../../src/domain/context/meter/state.ts';
import type { ViewMessage } from '../../src/domain/transcript/message.ts';
import type { Db } from '../../src/store/db/database.ts';
import { CHAIN_AGENT } from '../chain/agent.ts';
import { codingSession } from '../coding-session.ts';
import { storeSession } from '../stored-session.ts';

const EVENTS_PER_MESSAGE = 8;
const MESSAGES_PER_RUN = 25;
const SEED = 20_261_121;

/** Stores a session of this many messages with their runs and events. A summary covers all of them. */
export async function storeLongSession(db: Db, messageCount: number): Promise<string> {
  const summary: ViewMessage = {
    id: 'summary',
    seq: messageCount + 1,
    role: 'user',
    model: null,
    parts: [{ type: 'compaction', text: 'The store was split by noun, and every write is fenced.' }],
  };
  const sessionId = await storeSession(db, {
    agent: CHAIN_AGENT,
    messages: [...codingSession(messageCount, SEED), summary],
    contextState: NEW_CONTEXT_STATE,
    compacted: { summarySeq: summary.seq, viewStartSeq: summary.seq + 1 },
  });
  const events = messageCount * EVENTS_PER_MESSAGE;
  await sql`
    insert into runs (id, session_id, status, created_at)
    select gen_random_uuid(), ${sessionId}, 'completed', now() - make_interval(mins => n)
    from generate_series(1, ${Math.ceil(messageCount / MESSAGES_PER_RUN)}::integer) n`.execute(db);
  await sql`
    insert into events (session_id, seq, type, data)
    select ${sessionId}, seq, 'message:created', '{"words":"words and more words"}'
    from generate_series(1, ${events}::integer) seq`.execute(db);
  await sql`update sessions set event_seq = ${events} where id = ${sessionId}`.execute(db);
  await sql`vacuum analyze`.execute(db);
  return sessionId;
}

/** Hides all messages behind the summary, as another compaction would. */
export async function hideWhatWasSaid(db: Db, sessionId: string): Promise<void> {
  await sql`update sessions set view_start_seq = message_seq + 1 where id = ${sessionId}`.execute(db);
}
