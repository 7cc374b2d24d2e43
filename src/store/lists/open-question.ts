import { formatId } from '../../domain/ids.ts';
import type { RequiredAction } from '../../domain/transcript/required-action.ts';
import type { Db } from '../db/database.ts';
import { findAskingRun } from '../session/asking-runs.ts';
import type { SessionRow } from '../session/sessions.ts';
import { findWait } from '../transcript/events.ts';

/** A required action of a run, or of a run below it, with the number of the event that asked for it. */
export type OpenAction = RequiredAction & Readonly<{ askedSeq: number }>;

/** A run with required actions, or one that had some. */
export type OpenQuestion = Readonly<{
  runId: string;
  /** The event with which the run began to wait. */
  afterSeq: number;
  actions: readonly OpenAction[];
}>;

/**
 * The required actions of the session's active run, and of those below it. Null: there is no such run, or it has never
 * waited.
 */
export async function readQuestion(
  db: Db,
  tenantId: string,
  { active_run_id: runId, id: sessionId }: Pick<SessionRow, 'active_run_id' | 'id'>,
): Promise<OpenQuestion | null> {
  if (runId === null) return null;
  const { requiredActions: actions } = await findAskingRun(db, tenantId, runId);
  const askerOf = ({ child }: RequiredAction): string => child?.runId ?? formatId('run', runId);
  const askers = [...new Set(actions.map(askerOf))];
  const { beganSeq, lastAsks } = await findWait(db, { tenantId, sessionId, runId }, askers);
  const asked = actions.flatMap((action): OpenAction[] => {
    const askedSeq = lastAsks[askers.indexOf(askerOf(action))] ?? null;
    return askedSeq === null ? [] : [{ ...action, askedSeq }];
  });
  return beganSeq === null ? null : { runId, afterSeq: beganSeq, actions: asked };
}
