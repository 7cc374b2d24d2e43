import { sql } from 'kysely';
import { type Agent, agentSchema, agentVersion } from '../src/agents/agent.ts';
import type { ContextState } from '../src/domain/context/meter/state.ts';
import type { JobPayload } from '../src/domain/run/job.ts';
import type { ViewMessage } from '../src/domain/transcript/message.ts';
import { newId } from '../src/platform/new-id.ts';
import type { Db } from '../src/store/db/database.ts';
import { toJson } from '../src/store/db/json.ts';
import { insertSession } from '../src/store/session/sessions.ts';
import { acceptMessage } from '../test/support/unlimited.ts';
import { MODEL } from './coding-session.ts';

const TENANT = 'default';

/** The agent of a stored session: the workspace tools, and instructions of usual length. */
export const AGENT: Agent = agentSchema.parse({
  name: 'bench',
  model: MODEL,
  tools: ['workspace'],
  instructions: 'You work on a repository. Read before you change, test what you change, report what you saw. '.repeat(
    30,
  ),
});

export type StoredSession = Readonly<{
  /** Default: the one above. */
  agent?: Agent;
  messages: readonly ViewMessage[];
  contextState: ContextState;
  /** Set if the session was compacted: the summary's number and the first message that the view still holds. */
  compacted?: Readonly<{ summarySeq: number; viewStartSeq: number }>;
}>;

/** Writes a session with its transcript, as its steps would have. @returns its id */
export async function storeSession(
  db: Db,
  { agent = AGENT, messages, contextState, compacted }: StoredSession,
): Promise<string> {
  const id = newId();
  await insertSession(db, {
    id,
    tenantId: TENANT,
    agentName: agent.name,
    agentVersion: agentVersion(agent),
    agentSnapshot: agent,
    title: null,
    metadata: {},
  });
  await sql`
    update sessions set message_seq = ${messages.at(-1)?.seq ?? 0}, context_state = ${toJson(contextState)}::jsonb,
      view_start_seq = ${compacted?.viewStartSeq ?? 1}, summary_message_seq = ${compacted?.summarySeq ?? null},
      compaction_count = ${compacted === undefined ? 0 : 1}
    where id = ${id}`.execute(db);
  await db.transaction().execute(async (tx) => {
    for (const message of messages) await insertMessage(tx, id, message, message.seq === compacted?.summarySeq);
  });
  return id;
}

async function insertMessage(db: Db, sessionId: string, message: ViewMessage, isSummary: boolean): Promise<void> {
  const { seq, role, model, parts } = message;
  const rows = parts.map(({ marks, ...part }, idx) => {
    const { state = null, ...content } = part.type === 'tool' ? part : { ...part, state: undefined };
    return { idx, type: part.type, state, content, pruned: marks?.pruned ?? false };
  });
  await sql`
    with message as (
      insert into messages (id, session_id, seq, role, model, is_summary, finish_reason, finished_at)
      values (${newId()}, ${sessionId}, ${seq}, ${role}, ${model}, ${isSummary},
        ${role === 'assistant' ? 'tool-calls' : null}, now())
      returning id
    )
    insert into parts (message_id, idx, session_id, type, state, content, compacted_at)
    select message.id, part.idx, ${sessionId}, part.type, part.state, part.content, case when part.pruned then now() end
    from message, jsonb_to_recordset(${toJson(rows)}::jsonb)
      as part (idx integer, type text, state text, content jsonb, pruned boolean)`.execute(db);
}

/** Sends the session a message. @returns the job of the run that it started */
export async function startRun(db: Db, sessionId: string): Promise<JobPayload> {
  const { job } = await acceptMessage(db, {
    tenantId: TENANT,
    sessionId,
    messageId: newId(),
    runId: newId(),
    content: [{ type: 'text', text: 'Go on with the next file.' }],
  });
  if (job === null) throw new Error(`session ${sessionId} is at work already`);
  return job;
}
