import { type Selectable, sql } from 'kysely';
import { BatonError, type ErrorRecord, errorRecordSchema } from '../../domain/errors.ts';
import { formatId } from '../../domain/ids.ts';
import type { RunStatus, RunTrigger } from '../../domain/run/run.ts';
import type { Named } from '../../domain/run/session-name.ts';
import { DEFAULT_MAX_STEPS } from '../../domain/tunables.ts';
import type { Db } from '../db/database.ts';
import type { Tables } from '../db/tables.ts';
import { TOKEN_COLUMNS } from '../db/usage-columns.ts';

const COLUMNS = [
  'id',
  'session_id',
  'kind',
  'status_reason',
  'step_count',
  'budget_tokens',
  'budget_cost_usd',
  'deadline_at',
  'approval_expires_at',
  'cancel_requested_at',
  'traceparent',
  'error',
  'children_count',
  ...TOKEN_COLUMNS,
  'cost_usd',
  'created_at',
  'started_at',
  'finished_at',
] as const;

/** A run that waits for its children alone is at work: no person or client has to act. */
const STATUS = sql<RunStatus>`case when is_delegating then 'running' else status end`.as('status');

/** The call of another session that began a run, with the step that made it. */
type ParentCall = Readonly<{ sessionId: string; runId: string; step: number; messageId: string; index: number }>;

const PARENT = sql<ParentCall | null>`(
  select jsonb_build_object('sessionId', c.parent_session_id, 'runId', c.parent_run_id,
    'step', (select step_no from messages where id = c.message_id and session_id = c.parent_session_id), 'messageId', c.message_id, 'index', c.idx)
  from children c where c.run_id = runs.id)`.as('parent');

/** The limit that holds: nobody has to name one. Compactions and prunes have none. */
const MAX_STEPS = sql<
  number | null
>`case when kind = 'task' then coalesce(max_steps, ${sql.lit(DEFAULT_MAX_STEPS)}) end`.as('max_steps');

const NAMED = sql`jsonb_build_object('title', title, 'firstWords', first_words, 'key', external_key, 'agent', agent_name)`;

const SESSION = sql<Named>`(select ${NAMED} from sessions where sessions.id = runs.session_id)`.as('session');

const SENDER = sql`case when origin = 'system' then 'notice' else coalesce(sent_by, 'message') end`;

/**
 * A resumed run without a message of its own may take parked ones, whose senders count then. The run that they began and
 * that was cancelled before it took them keeps its cause: the newest message of its begin has gone to a later run. The
 * message of a child is that of its parent.
 */
const TRIGGER = sql<Exclude<RunTrigger, 'parent'>>`case
  when kind = 'maintenance' then 'maintenance'
  else coalesce(
    (select ${SENDER} from inbox where inbox.run_id = runs.id order by seq limit 1),
    (select ${SENDER} from inbox join runs later on later.id = inbox.run_id
      where inbox.session_id = runs.session_id
        and inbox.seq = coalesce(nullif(runs.start_inbox_seq, 0), runs.cancel_inbox_seq)
        and later.created_at > runs.created_at),
    'resume') end`.as('trigger');

const SHOWN = [STATUS, MAX_STEPS, PARENT, SESSION, TRIGGER] as const;

export type RunRow = Pick<Selectable<Tables['runs']>, (typeof COLUMNS)[number] | 'status' | 'max_steps'> &
  Readonly<{ parent: ParentCall | null; session: Named; trigger: Exclude<RunTrigger, 'parent'> }>;

export type RunOwner = Readonly<{ runId: string; sessionId: string; agent: string; tenant: string }>;

/** The owners of existing runs, of all tenants: for operators. */
export async function findOwners(db: Db, runIds: readonly string[]): Promise<RunOwner[]> {
  if (runIds.length === 0) return [];
  return db
    .selectFrom('runs')
    .innerJoin('sessions', 'sessions.id', 'runs.session_id')
    .select(['runs.id as runId', 'sessions.id as sessionId', 'agent_name as agent', 'sessions.tenant_id as tenant'])
    .where('runs.id', 'in', runIds)
    .execute();
}

/** @throws BatonError `not_found` */
export async function findRun(db: Db, tenantId: string, id: string): Promise<RunRow> {
  // A promised run may begin between the two reads. The third read finds it then.
  const row =
    (await readRun(db, tenantId, id)) ?? (await promisedRun(db, tenantId, id)) ?? (await readRun(db, tenantId, id));
  if (row === undefined) throw new BatonError('not_found', `run ${formatId('run', id)} does not exist`);
  return row;
}

function readRun(db: Db, tenantId: string, id: string): Promise<RunRow | undefined> {
  return db
    .selectFrom('runs')
    .select(COLUMNS)
    .select(SHOWN)
    .where('id', '=', id)
    .where('tenant_id', '=', tenantId)
    .executeTakeFirst();
}

/** A run that is promised and has not begun. Clients know its id and may ask for it. */
async function promisedRun(db: Db, tenantId: string, id: string): Promise<RunRow | undefined> {
  const session = await db
    .selectFrom('sessions')
    .select(['id', 'updated_at', sql<Named>`${NAMED}`.as('session')])
    .select((eb) =>
      eb
        .selectFrom('inbox')
        .select((inner) => inner.fn.min('enqueued_at').as('since'))
        .whereRef('inbox.session_id', '=', 'sessions.id')
        .where('consumed_message_seq', 'is', null)
        .as('since'),
    )
    .where('next_run_id', '=', id)
    .where('tenant_id', '=', tenantId)
    .executeTakeFirst();
  if (session === undefined) return undefined;
  return {
    ...PROMISED,
    id,
    session_id: session.id,
    session: session.session,
    created_at: session.since ?? session.updated_at,
  };
}

const PROMISED = {
  kind: 'task',
  trigger: 'message',
  status: 'queued',
  status_reason: null,
  step_count: 0,
  max_steps: null,
  budget_tokens: null,
  budget_cost_usd: null,
  deadline_at: null,
  approval_expires_at: null,
  cancel_requested_at: null,
  traceparent: null,
  error: null,
  children_count: 0,
  parent: null,
  input_tokens: 0,
  output_tokens: 0,
  reasoning_tokens: 0,
  cache_read_tokens: 0,
  cache_write_tokens: 0,
  cost_usd: 0,
  started_at: null,
  finished_at: null,
} as const;

export type RunOutcome = Readonly<{
  status: RunStatus;
  reason: string | null;
  error: ErrorRecord | null;
  /** The result that its schema asked for. Absent: it has none. */
  result?: Readonly<{ value: unknown }>;
}>;

export async function readRunOutcomes(
  db: Db,
  tenantId: string,
  ids: readonly string[],
): Promise<ReadonlyMap<string, RunOutcome>> {
  if (ids.length === 0) return new Map();
  const rows = await db
    .selectFrom('runs')
    .select(['id', 'status', 'status_reason', 'error', 'output'])
    .where('id', 'in', ids)
    .where('tenant_id', '=', tenantId)
    .execute();
  return new Map(
    rows.map(({ id, status, status_reason: reason, error, output }) => {
      const result = output === null ? {} : { result: output };
      return [id, { status, reason, error: error === null ? null : errorRecordSchema.parse(error), ...result }];
    }),
  );
}

export type RunFilter = Readonly<{
  tenantId: string;
  limit: number;
  status?: RunStatus;
  sessionId?: string;
  after?: Readonly<{ createdAt: string; id: string }>;
}>;

/** As `STATUS` has it, and served by the index of statuses. */
const hasStatus = (status: RunStatus) =>
  status === 'running'
    ? sql<boolean>`(status = 'running' or (status = 'requires_action' and is_delegating))`
    : status === 'requires_action'
      ? sql<boolean>`status = 'requires_action' and not is_delegating`
      : sql<boolean>`status = ${status}`;

/** Newest first. */
export async function listRuns(db: Db, filter: RunFilter): Promise<RunRow[]> {
  let query = db.selectFrom('runs').select(COLUMNS).select(SHOWN).where('tenant_id', '=', filter.tenantId);
  if (filter.status !== undefined) query = query.where(hasStatus(filter.status));
  if (filter.sessionId !== undefined) query = query.where('session_id', '=', filter.sessionId);
  const { after } = filter;
  if (after !== undefined) {
    query = query.where((eb) =>
      eb(eb.refTuple('created_at', 'id'), '<', eb.tuple(eb.val(new Date(after.createdAt)), eb.val(after.id))),
    );
  }
  return query.orderBy('created_at', 'desc').orderBy('id', 'desc').limit(filter.limit).execute();
}

/** The first task run of the session, from this run on, that did not fail and was not cancelled. Null: there is none. */
export async function findUnstoppedTask(
  db: Db,
  { tenantId, sessionId, runId }: Readonly<{ tenantId: string; sessionId: string; runId: string }>,
): Promise<string | null> {
  const found = await db
    .selectFrom('runs')
    .select('id')
    .where('session_id', '=', sessionId)
    .where('tenant_id', '=', tenantId)
    .where('kind', '=', 'task')
    .where('status', 'not in', ['failed', 'cancelled'])
    .where('created_at', '>=', (eb) => eb.selectFrom('runs').select('created_at').where('id', '=', runId))
    .orderBy('created_at')
    .limit(1)
    .executeTakeFirst();
  return found?.id ?? null;
}

/** The tenant's runs among these, in the order of the ids. */
export async function readRuns(db: Db, tenantId: string, ids: readonly string[]): Promise<RunRow[]> {
  if (ids.length === 0) return [];
  const rows = await db
    .selectFrom('runs')
    .select(COLUMNS)
    .select(SHOWN)
    .where('id', 'in', ids)
    .where('tenant_id', '=', tenantId)
    .execute();
  const byId = new Map(rows.map((row) => [row.id, row]));
  return ids.flatMap((id) => byId.get(id) ?? []);
}

/** The next task run of the session after this run, or its first one, in any state. Null: there is none. */
export async function findTaskAfter(
  db: Db,
  { tenantId, sessionId, runId }: Readonly<{ tenantId: string; sessionId: string; runId: string | null }>,
): Promise<string | null> {
  const tasks = db
    .selectFrom('runs')
    .select('id')
    .where('session_id', '=', sessionId)
    .where('tenant_id', '=', tenantId)
    .where('kind', '=', 'task')
    .orderBy('created_at')
    .limit(1);
  const next =
    runId === null
      ? tasks
      : tasks.where('created_at', '>', (eb) => eb.selectFrom('runs').select('created_at').where('id', '=', runId));
  return (await next.executeTakeFirst())?.id ?? null;
}
