import { sql } from 'kysely';
import { type OutputFormat, outputFormatSchema } from '../../domain/run/output-format.ts';
import { isTerminalRun } from '../../domain/run/run.ts';
import { type RunOutput, runOutputOf } from '../../domain/run/run-output.ts';
import { type Json, storedPartSchema } from '../../domain/transcript/message.ts';
import type { Db } from '../db/database.ts';
import type { RunRow } from './runs.ts';

/** The answer of a run that has ended. Null: the run is active, or has no whole answer. */
export async function readRunOutput(
  db: Db,
  tenantId: string,
  { id, status }: Pick<RunRow, 'id' | 'status'>,
): Promise<RunOutput | null> {
  if (!isTerminalRun(status)) return null;
  const { rows } = await sql<{ id: string; parts: unknown[]; result: { value: Json } | null }>`
    select messages.id, (select output from runs where id = messages.run_id) as result, (
      select coalesce(json_agg(content order by idx), '[]') from parts
      where session_id = messages.session_id and message_id = messages.id and type in ('text', 'file')) as parts
    from messages
    where run_id = ${id} and tenant_id = ${tenantId} and role = 'assistant' and not superseded
      and finish_reason not in ('error', 'aborted')
    order by step_no desc, attempt desc limit 1`.execute(db);
  const [answer] = rows;
  if (answer === undefined) return null;
  const parts = answer.parts.map((part) => storedPartSchema.parse(part));
  return { ...runOutputOf(answer.id, parts), ...answer.result };
}

/** The result that a run is asked for. Null: none, or it has not begun. */
export async function readOutputFormat(db: Db, tenantId: string, runId: string): Promise<OutputFormat | null> {
  const run = await db
    .selectFrom('runs')
    .select('output_format')
    .where('id', '=', runId)
    .where('tenant_id', '=', tenantId)
    .executeTakeFirst();
  return outputFormatSchema.nullable().parse(run?.output_format ?? null);
}
