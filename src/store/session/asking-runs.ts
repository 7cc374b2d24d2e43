import { toldStatus } from '../../domain/run/run.ts';
import type { RequiredAction } from '../../domain/transcript/required-action.ts';
import { type Db, inSnapshot } from '../db/database.ts';
import { readActionsOfTrees } from '../transcript/open-calls.ts';
import { findRun, listRuns, type RunFilter, type RunRow, readRuns } from './runs.ts';

/** A run with what it requires of people and clients at the same moment. */
export type AskingRun = RunRow & Readonly<{ requiredActions: readonly RequiredAction[] }>;

/** @throws BatonError `not_found` */
export async function findAskingRun(db: Db, tenantId: string, id: string): Promise<AskingRun> {
  const run = await findRun(db, tenantId, id);
  // Only one that waits has calls to read. An answer may come between two reads, so both are of one snapshot.
  if (run.status !== 'requires_action') return { ...run, requiredActions: [] };
  return inSnapshot(db, async (tx) => {
    const again = await findRun(tx, tenantId, id);
    return toAsking(again, await readActionsOfTrees(tx, [again]));
  });
}

/** Newest first. */
export const listAskingRuns = (db: Db, filter: RunFilter): Promise<AskingRun[]> =>
  inSnapshot(db, async (tx) => withActions(tx, await listRuns(tx, filter)));

/** The tenant's runs among these, in the order of the ids. */
export const readAskingRuns = (db: Db, tenantId: string, ids: readonly string[]): Promise<AskingRun[]> =>
  inSnapshot(db, async (tx) => withActions(tx, await readRuns(tx, tenantId, ids)));

async function withActions(tx: Db, runs: readonly RunRow[]): Promise<AskingRun[]> {
  const actions = await readActionsOfTrees(tx, runs);
  return runs.map((run) => toAsking(run, actions));
}

function toAsking(run: RunRow, actions: Awaited<ReturnType<typeof readActionsOfTrees>>): AskingRun {
  const requiredActions = actions.get(run.id) ?? [];
  return { ...run, status: toldStatus(run.status, requiredActions.length), requiredActions };
}
