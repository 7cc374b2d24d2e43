import { readFile } from 'node:fs/promises';
import type pg from 'pg';
import { z } from 'zod';

// The checker's whole knowledge of the product is in this file: its tables, and nothing of its code.

export type StoredPart = Readonly<{
  type: string;
  text?: string;
  toolName?: string;
  input?: Readonly<{ token?: string; task?: string }>;
  output?: Readonly<{ type: string; value: unknown }>;
}>;

export type StoredMessage = Readonly<{
  id: string;
  sessionId: string;
  seq: number;
  role: 'user' | 'assistant';
  runId: string | null;
  stepNo: number | null;
  finishReason: string | null;
  superseded: boolean;
  /** A summary stands for the messages before it: no user sent it, although it has that role. */
  isSummary: boolean;
  /** `startedAfterCancel`: the call began after a cancel of its run was requested. `index`: the place of the part. */
  parts: readonly Readonly<{
    content: StoredPart;
    state: string | null;
    startedAfterCancel?: boolean;
    index?: number;
  }>[];
}>;

/** Statuses of a run that is over. */
export const ENDED: readonly string[] = ['completed', 'cancelled', 'failed', 'incomplete'];

/** Runs are read in the order in which they ended. */
type StoredRun = Readonly<{
  id: string;
  sessionId: string;
  kind: string;
  status: string;
  reason: string | null;
  error: unknown;
  /** By the database's clock. */
  finishedAtMs?: number | null;
  /** Steps of the children whose results the run has got. */
  childrenSteps?: number;
}>;

type StoredEvent = Readonly<{
  sessionId: string;
  seq: number;
  runId: string | null;
  type: string;
  data: Readonly<Record<string, unknown>>;
  createdAt?: string;
}>;

type StoredSession = Readonly<{
  id: string;
  status: string;
  eventSeq: number;
  messageSeq: number;
  isCompacting: boolean;
  /** Null or left out: no call began the session. */
  parentSessionId?: string | null;
}>;

/** A call that gave a task to another agent, with the state of that task. */
export type StoredChild = Readonly<{
  messageId: string;
  index: number;
  parentSessionId: string;
  parentRunId: string;
  sessionId: string;
  runId: string;
  state: string;
  /** Steps that the child's result reports. */
  steps: number;
  /** The child is due: some process has to look after it. */
  isDue: boolean;
}>;

/** A round of compaction. */
type StoredCompaction = Readonly<{ id: string; sessionId: string; state: string }>;

/** `at`: the wall-clock time. */
export type Effect = Readonly<{ tool: string; token: string; callKey: string; at?: number }>;

/** All records of a world when its traffic is over. */
export type Snapshot = Readonly<{
  sessions: readonly StoredSession[];
  runs: readonly StoredRun[];
  messages: readonly StoredMessage[];
  events: readonly StoredEvent[];
  /** Messages that were not taken up, by id. */
  waiting: ReadonlySet<string>;
  effects: readonly Effect[];
  compactions: readonly StoredCompaction[];
  children: readonly StoredChild[];
  /** Required version of each run on which not every worker may work, by the run's id. */
  requiredVersions: ReadonlyMap<string, number>;
}>;

/** Reads the records of the world. Ids are the database's own, without a prefix. */
export async function readSnapshot(database: pg.Pool, ledgerFile: string): Promise<Snapshot> {
  const read = async <Row extends pg.QueryResultRow>(text: string): Promise<Row[]> =>
    (await database.query<Row>(text)).rows;
  const sessions = await read<StoredSession>(
    `select id, status, event_seq::int as "eventSeq", message_seq::int as "messageSeq",
       compacting_since is not null as "isCompacting", parent_session_id as "parentSessionId" from sessions`,
  );
  const runs = await read<StoredRun>(
    `select id, session_id as "sessionId", kind, status, status_reason as reason, error,
       (extract(epoch from finished_at) * 1000)::float8 as "finishedAtMs", children_steps as "childrenSteps"
     from runs order by finished_at, id`,
  );
  const messages = await read<StoredMessage>(
    `select m.id, m.session_id as "sessionId", m.seq::int, m.role, m.run_id as "runId", m.step_no as "stepNo",
       m.finish_reason as "finishReason", m.superseded, m.is_summary as "isSummary",
       coalesce((select jsonb_agg(jsonb_build_object('content', p.content, 'state', p.state, 'index', p.idx,
           'startedAfterCancel', coalesce(p.started_at > r.cancel_requested_at, false)) order by p.idx)
         from parts p where p.session_id = m.session_id and p.message_id = m.id), '[]') as parts
     from messages m left join runs r on r.id = m.run_id order by m.session_id, m.seq`,
  );
  const events = await read<StoredEvent>(
    `select session_id as "sessionId", seq::int, run_id as "runId", type, data, to_json(created_at) #>> '{}' as "createdAt"
     from events order by session_id, seq`,
  );
  const waiting = await read<{ id: string }>(`select id from inbox where consumed_message_seq is null`);
  const compactions = await read<StoredCompaction>(`select id, session_id as "sessionId", state from compactions`);
  const children = await read<StoredChild>(
    `select message_id as "messageId", idx as index, parent_session_id as "parentSessionId",
       parent_run_id as "parentRunId", session_id as "sessionId", run_id as "runId", state,
       coalesce((result ->> 'steps')::int, 0) as steps, due_at is not null as "isDue" from children`,
  );
  const demanding = await read<{ id: string; engine: number }>(
    'select id, required_engine as engine from runs where required_engine > 1',
  );
  const lines = (await readFile(ledgerFile, 'utf8')).split('\n').filter((line) => line !== '');
  return {
    sessions,
    runs,
    messages: messages.map((message) => ({ ...message, parts: message.parts.map(readPart) })),
    events,
    waiting: new Set(waiting.map(({ id }) => id)),
    effects: lines.map((line) => JSON.parse(line) as Effect),
    compactions,
    children,
    requiredVersions: new Map(demanding.map(({ id, engine }) => [id, engine])),
  };
}

/** The arguments of a call are kept as text where their keys are not in the order of `jsonb`. */
function readPart<Part extends StoredMessage['parts'][number]>(part: Part): Part {
  const written = z.looseObject({ input: z.strictObject({ '@json': z.string() }) }).safeParse(part.content);
  if (!written.success) return part;
  return { ...part, content: { ...part.content, input: JSON.parse(written.data.input['@json']) } };
}

/** The database's form of a public id: `msg_` and 32 hex digits. */
export function rawId(publicId: string): string {
  const hex = publicId.slice(publicId.indexOf('_') + 1);
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
}
