import { sql } from 'kysely';
import type { EndBranch } from '../../domain/run/branch.ts';
import type { NewEvent } from '../../domain/run/events.ts';
import { NO_USAGE } from '../../domain/usage.ts';
import type { Tx } from '../db/database.ts';
import { toWrittenJson } from '../db/json.ts';

/**
 * Ends a run outside a step, and makes its session idle. The caller holds the locks of session and run.
 * @param before events that come before those of the end
 * @returns the number of the session's last event
 */
export async function endRun(tx: Tx, runId: string, end: EndBranch, before: readonly NewEvent[] = []): Promise<number> {
  const finish = outsideStep(before);
  const { rows } = await sql<{ seq: number }>`
    select last_event_seq as seq from baton_write_branch(${runId}, ${toWrittenJson(end)}::jsonb, ${toWrittenJson(finish)}::jsonb)`.execute(
    tx,
  );
  const [row] = rows;
  if (row === undefined) throw new Error('baton_write_branch returned no row');
  return row.seq;
}

/** The input of baton_write_branch for an end that no step belongs to. */
export const outsideStep = (events: readonly NewEvent[]) => ({ usage: NO_USAGE, costUsd: 0, events }) as const;
