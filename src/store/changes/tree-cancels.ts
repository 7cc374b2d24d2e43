import { sql } from 'kysely';
import { z } from 'zod';
import { callResultEvent } from '../../domain/run/call-events.ts';
import { jobPayloadSchema } from '../../domain/run/job.ts';
import { CANCELLED } from '../../domain/run/next-step.ts';
import { CANCELLED_BEFORE_START } from '../../domain/run/settlement.ts';
import { closeCall } from '../../domain/transcript/required-action.ts';
import { newId } from '../../platform/new-id.ts';
import type { Db } from '../db/database.ts';
import { toJson } from '../db/json.ts';
import { outsideStep } from '../session/end-run.ts';
import { closingOf, type OpenCall, readOpenCalls } from '../transcript/open-calls.ts';

const cancelledSchema = z.object({ runId: z.uuid(), sessionId: z.uuid(), eventSeq: z.number() });
const endedSchema = cancelledSchema.extend({ job: jobPayloadSchema.nullable() });

/**
 * Cancels the runs that a worker has claimed and that have no children, in one round trip: the leaves of a tree. The
 * others are left as they are.
 * @returns those that were cancelled. Their workers must be told
 */
export async function cancelChildless(
  db: Db,
  runIds: readonly string[],
): Promise<readonly Readonly<z.infer<typeof cancelledSchema>>[]> {
  const { rows } = await sql<{ cancelled: unknown }>`
    select baton_cancel_childless(${[...runIds]}::uuid[]) as cancelled`.execute(db);
  return z.array(cancelledSchema).parse(rows[0]?.cancelled);
}

/**
 * Ends the runs that wait for answers, most of them for their own children, in three round trips. The others are left as
 * they are.
 * @returns those that ended, with the job of the run that follows, if one does
 */
export async function cancelWaiting(
  db: Db,
  runIds: readonly string[],
): Promise<readonly Readonly<z.infer<typeof endedSchema>>[]> {
  const waiting = await db
    .selectFrom('runs')
    .select(['id', 'session_id as sessionId'])
    .where('id', 'in', runIds)
    .where('status', '=', 'requires_action')
    .where('cancel_requested_at', 'is', null)
    .execute();
  if (waiting.length === 0) return [];
  const open = Map.groupBy(
    await readOpenCalls(
      db,
      waiting.map(({ id }) => id),
    ),
    ({ runId }) => runId,
  );
  const cancels = waiting.map(({ id: runId, sessionId }) => ({
    runId,
    sessionId,
    nextRunId: newId(),
    ...closingsOf(open.get(runId) ?? []),
  }));
  const { rows } = await sql<{ ended: unknown }>`
    select baton_cancel_waiting(${toJson(cancels)}::jsonb, ${toJson(CANCELLED)}::jsonb) as ended`.execute(db);
  return z.array(endedSchema).parse(rows[0]?.ended);
}

/** The outcomes of calls without an answer, and their events. */
function closingsOf(calls: readonly OpenCall[]) {
  const closings = calls.map((call) => ({ call, outcome: closeCall(closingOf(call), null, CANCELLED_BEFORE_START) }));
  return {
    calls: closings.map(({ call: { messageId, index, part }, outcome }) => ({
      messageId,
      index,
      was: part.state,
      ...outcome,
    })),
    finish: outsideStep(closings.map(({ call, outcome }) => callResultEvent(call.messageId, call, outcome))),
  };
}
