import { BatonError } from '../domain/errors.ts';
import { formatId } from '../domain/ids.ts';
import type { RunStatus } from '../domain/run.ts';
import type { Db } from './database.ts';

const COLUMNS = [
  'id',
  'session_id',
  'kind',
  'status',
  'status_reason',
  'step_count',
  'max_steps',
  'cancel_requested_at',
  'error',
  'input_tokens',
  'output_tokens',
  'reasoning_tokens',
  'cache_read_tokens',
  'cache_write_tokens',
  'cost_usd',
  'created_at',
  'started_at',
  'finished_at',
] as const;

export type RunRow = Awaited<ReturnType<typeof findRun>>;

/** @throws BatonError `not_found` */
export async function findRun(db: Db, tenantId: string, id: string) {
  const row = await db
    .selectFrom('runs')
    .select(COLUMNS)
    .where('id', '=', id)
    .where('tenant_id', '=', tenantId)
    .executeTakeFirst();
  if (row === undefined) throw new BatonError('not_found', `run ${formatId('run', id)} does not exist`);
  return row;
}

export type RunFilter = Readonly<{
  tenantId: string;
  limit: number;
  status?: RunStatus;
  sessionId?: string;
  after?: Readonly<{ createdAt: string; id: string }>;
}>;

/** Newest first. */
export async function listRuns(db: Db, filter: RunFilter): Promise<RunRow[]> {
  let query = db.selectFrom('runs').select(COLUMNS).where('tenant_id', '=', filter.tenantId);
  if (filter.status !== undefined) query = query.where('status', '=', filter.status);
  if (filter.sessionId !== undefined) query = query.where('session_id', '=', filter.sessionId);
  const { after } = filter;
  if (after !== undefined) {
    query = query.where((eb) =>
      eb(eb.refTuple('created_at', 'id'), '<', eb.tuple(eb.val(new Date(after.createdAt)), eb.val(after.id))),
    );
  }
  return query.orderBy('created_at', 'desc').orderBy('id', 'desc').limit(filter.limit).execute();
}
