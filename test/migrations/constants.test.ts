import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { COMPACTION_STATES } from '../../src/domain/compaction.ts';
import { CHILD_MODES, CHILD_STATES } from '../../src/domain/run/child.ts';
import {
  ACTIVE_RUN_STATUSES,
  LIMIT_REASONS,
  MESSAGE_SENDERS,
  PENDING_KINDS,
  RUN_KINDS,
  RUN_STATUSES,
} from '../../src/domain/run/run.ts';
import { DELIVERIES, SESSION_STATUSES } from '../../src/domain/run/session.ts';
import { CATCHUPS, FIRE_RESULTS, OVERLAPS, SESSION_KINDS } from '../../src/domain/schedules/plan-fire.ts';
import { MESSAGE_ROLES, partSchema, reasoningPartSchema, textPartSchema } from '../../src/domain/transcript/message.ts';
import { ACTION_KINDS } from '../../src/domain/transcript/required-action.ts';
import { isSettledCall, TOOL_CALL_STATES } from '../../src/domain/transcript/tool-call.ts';
import { MAX_INLINE_CONTENT_BYTES } from '../../src/domain/tunables.ts';
import { DELIVERY_STATES, DISABLED_REASONS } from '../../src/domain/webhooks/webhook.ts';
import type { Db } from '../../src/store/db/database.ts';
import { createTestDatabase } from '../support/postgres.ts';

/** The values that each CHECK of a table or a domain with a list of values must list. */
const LISTS: Readonly<Record<string, readonly string[]>> = {
  children_mode_check: CHILD_MODES,
  children_state_check: CHILD_STATES,
  compactions_state_check: COMPACTION_STATES,
  inbox_delivery_check: DELIVERIES,
  inbox_origin_check: ['user', 'system'],
  inbox_sent_by_check: MESSAGE_SENDERS,
  message_role_check: MESSAGE_ROLES,
  chunk_type_check: [textPartSchema, reasoningPartSchema].map((schema) => schema.shape.type.value),
  required_action_check: ACTION_KINDS,
  call_state_check: TOOL_CALL_STATES,
  part_type_check: partSchema.options.map((schema) => schema.shape.type.value),
  limit_reason_check: LIMIT_REASONS,
  run_kind_check: RUN_KINDS,
  pending_kind_check: PENDING_KINDS,
  run_status_check: RUN_STATUSES,
  schedule_fires_result_check: FIRE_RESULTS,
  schedules_catchup_check: CATCHUPS,
  schedules_overlap_check: OVERLAPS,
  schedules_session_kind_check: SESSION_KINDS,
  maintenance_kind_check: PENDING_KINDS.filter((kind) => kind !== 'step'),
  session_status_check: SESSION_STATUSES,
  webhook_deliveries_state_check: DELIVERY_STATES,
  webhooks_disabled_for_check: DISABLED_REASONS,
};

/**
 * The values that each partial index and each computed column must list: a row with a left-out value is never found.
 */
const INDEX_LISTS: Readonly<Record<string, readonly string[]>> = {
  events_of_maintenance: ['prune:complete', 'llm:adapted'],
  parts_unsettled: TOOL_CALL_STATES.filter((state) => !isSettledCall(state)),
  // Calls that wait for a person or a client, not for a worker.
  parts_waiting: ['awaiting_approval', 'awaiting_output', 'unknown'],
  runs_leased: ['running', 'cancelling'],
  runs_one_active_per_session: ACTIVE_RUN_STATUSES,
  webhook_deliveries_ended: ['delivered', 'failed'],
  // A run that waits for an answer is due for no worker.
  'runs.due_at': ACTIVE_RUN_STATUSES.filter((status) => status !== 'requires_action'),
};

type Definition = Readonly<{ name: string; definition: string }>;

const readChecks = async (db: Db): Promise<readonly Definition[]> =>
  (
    await sql<Definition>`
      select conname as name, pg_get_constraintdef(oid) as definition from pg_constraint
      where contype = 'c' and connamespace = 'public'::regnamespace`.execute(db)
  ).rows;

const readPredicates = async (db: Db): Promise<readonly Definition[]> =>
  (
    await sql<Definition>`
      select i.relname as name, pg_get_expr(x.indpred, x.indrelid) as definition
      from pg_index x join pg_class i on i.oid = x.indexrelid
      where x.indpred is not null and i.relnamespace = 'public'::regnamespace`.execute(db)
  ).rows;

const readComputedColumns = async (db: Db): Promise<readonly Definition[]> =>
  (
    await sql<Definition>`
      select table_name || '.' || column_name as name, generation_expression as definition
      from information_schema.columns where table_schema = 'public' and is_generated = 'ALWAYS'`.execute(db)
  ).rows;

/** The values of each definition that has an array of them. */
function listsOf(definitions: readonly Definition[]): Record<string, string[]> {
  const lists = definitions.flatMap(({ name, definition }) => {
    const array = /ANY \(ARRAY\[([^\]]+)\]\)/.exec(definition)?.[1];
    return array === undefined ? [] : [[name, Array.from(array.matchAll(/'([^']+)'/g), ([, value = '']) => value)]];
  });
  return Object.fromEntries(lists);
}

const sorted = (lists: Readonly<Record<string, readonly string[]>>): Record<string, string[]> =>
  Object.fromEntries(Object.entries(lists).map(([name, values]) => [name, values.toSorted()]));

describe('the schema and the domain', () => {
  it('allow the same values in every column that has a list of them', async () => {
    await using database = await createTestDatabase();
    expect(sorted(listsOf(await readChecks(database.db)))).toEqual(sorted(LISTS));
  });

  it('agree on the statuses and states that the partial indexes cover', async () => {
    await using database = await createTestDatabase();
    const definitions = [...(await readPredicates(database.db)), ...(await readComputedColumns(database.db))];
    expect(sorted(listsOf(definitions))).toEqual(sorted(INDEX_LISTS));
  });

  it.each([
    ['baton_message_created', /when p_bytes <= (\d+) then/, MAX_INLINE_CONTENT_BYTES],
    ['baton_view', /order by seq limit (\d+)\)/, 2_000],
    ['baton_view', /not m.is_summary\) = (\d+) then/, 2_000],
  ])('agree on what one call of %s works on: %s', async (name, pattern, bound) => {
    await using database = await createTestDatabase();
    const { rows } = await sql<{ source: string }>`
      select prosrc as source from pg_proc where proname = ${name}`.execute(database.db);
    expect(Number(pattern.exec(rows[0]?.source ?? '')?.[1])).toBe(bound);
  });

  it('agree on the runs that no worker may claim', async () => {
    await using database = await createTestDatabase();
    const { rows } = await sql<{ source: string }>`
      select prosrc as source from pg_proc where proname = 'baton_claim_run'`.execute(database.db);
    const list = /status in \(([^)]+)\) then\s[^;]*'gone'/.exec(rows[0]?.source ?? '');
    const values = Array.from(list?.[1]?.matchAll(/'([^']+)'/g) ?? [], ([, value = '']) => value);
    const claimable = RUN_STATUSES.filter((status) => !values.includes(status));
    expect(claimable).toEqual(ACTIVE_RUN_STATUSES.filter((status) => status !== 'requires_action'));
  });
});
