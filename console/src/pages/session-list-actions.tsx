import type { ListedSession } from '@baton-run/server/client';
import { type ReactNode, useState } from 'react';
import { act } from '../act.ts';
import { client } from '../api.ts';
import { ACTIONS, type Command, useCommands } from '../commands.ts';
import { clipped } from '../format.ts';
import { useKeys } from '../keys.ts';
import { useRefusal } from '../layout/caller.ts';
import { notify } from '../notices.ts';
import { ActionDialog } from '../ui/dialog.tsx';

const STOPPED: ReadonlySet<string> = new Set(['failed', 'cancelled', 'incomplete']);

/**
 * The actions on the chosen session of a list, which the palette and keys offer.
 * @param again reads the list again
 * @returns the question before an action, if one is asked
 */
export function useListActions(session: ListedSession | undefined, again: () => void): ReactNode {
  const refused = useRefusal('write');
  const [asked, ask] = useState<Readonly<{ kind: 'cancel' | 'delete'; session: ListedSession }> | null>(null);
  const actions = session === undefined ? [] : actionsOn(session, refused, ask, again);
  useCommands(actions);
  const press = (keys: string): void => {
    const action = actions.find((each) => each.keys === keys);
    if (action?.refused !== undefined) notify(action.refused, 'failed');
    else action?.run();
  };
  useKeys('List', {
    x: ['Cancel the run of the chosen session', () => press('x')],
    r: ['Resume the chosen session', () => press('r')],
  });
  if (asked === null) return null;
  const { id } = asked.session;
  const isCancel = asked.kind === 'cancel';
  return (
    <ActionDialog
      isOpen
      close={() => ask(null)}
      title={isCancel ? 'Cancel the run?' : 'Delete the session?'}
      act={isCancel ? 'Cancel the run' : 'Delete'}
      isDangerous
      run={async () => {
        await (isCancel ? client.sessions.cancel(id) : client.sessions.delete(id));
        notify(isCancel ? 'The run is being cancelled' : 'The session is deleted');
        again();
      }}
    >
      <p className="wrap-anywhere">
        <b className="font-semibold">{nameOf(asked.session)}</b>
      </p>
      <p>{isCancel ? 'What it has said so far is kept.' : 'All that was said in it is gone for good.'}</p>
    </ActionDialog>
  );
}

const nameOf = ({ title, externalKey, id }: ListedSession): string => clipped(title ?? externalKey ?? id, 120);

function actionsOn(
  session: ListedSession,
  refused: string | undefined,
  ask: (asked: Readonly<{ kind: 'cancel' | 'delete'; session: ListedSession }>) => void,
  again: () => void,
): readonly Command[] {
  const { id, status, overview } = session;
  const isIdle = status === 'idle';
  const hasStopped = isIdle && (overview.queued > 0 || STOPPED.has(overview.lastRun?.status ?? ''));
  const name = nameOf(session);
  return [
    {
      group: ACTIONS,
      words: `Cancel the run of ${name}`,
      keys: 'x',
      refused: refused ?? (isIdle ? 'No run is active' : undefined),
      run: () => ask({ kind: 'cancel', session }),
    },
    {
      group: ACTIONS,
      words: `Resume ${name}`,
      keys: 'r',
      refused: refused ?? (hasStopped ? undefined : 'Nothing has stopped'),
      run: () => void act(async () => `Resumed with ${(await client.sessions.resume(id)).runId}`).then(again),
    },
    {
      group: ACTIONS,
      words: `Delete ${name}`,
      refused: refused ?? (isIdle ? undefined : 'A run is active: cancel it first'),
      run: () => ask({ kind: 'delete', session }),
    },
  ];
}
