import { formatId } from '../../domain/ids.ts';
import type { NewEvent } from '../../domain/run/events.ts';
import type { Tx } from '../db/database.ts';
import { type Child, noteAnnouncedAsks } from '../session/children.ts';
import type { LockedSession } from '../session/sessions.ts';
import { appendEvents } from '../transcript/events.ts';
import { readRequiredActions } from '../transcript/open-calls.ts';

/**
 * Tells the root of a tree, where people look, which calls of a child wait for them, and whether any of the tree still
 * do. The caller holds the locks of the root's session and of the child.
 * @returns the number of the event; null: the root knows it already
 */
export async function tellAsksAt(tx: Tx, child: Child, root: LockedSession): Promise<number | null> {
  if (child.asks === child.asksTold) return null;
  const open = await noteAnnouncedAsks(tx, child, root);
  const { active_run_id: rootRun } = root;
  const run = { id: child.runId, status: 'requires_action' };
  const calls = child.asks === 0 ? [] : ((await readRequiredActions(tx, [run])).get(child.runId) ?? []);
  const asks: NewEvent = {
    type: 'child:requires-action',
    data: {
      runId: rootRun === null ? null : formatId('run', rootRun),
      ...{ sessionId: formatId('session', child.sessionId), childRunId: formatId('run', child.runId) },
      ...{ calls: [...calls], open },
    },
  };
  return appendEvents(tx, root.id, rootRun, [asks]);
}
