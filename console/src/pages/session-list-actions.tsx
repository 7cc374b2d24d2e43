import type { ListedSession } from '@baton-run/server/client';
import { type ReactNode, useEffect, useState } from 'react';
import { client } from '../api.ts';
import { ACTIONS, type Command, useCommands } from '../commands.ts';
import { clipped } from '../format.ts';
import { useKeys } from '../keys.ts';
import { useRefusal } from '../layout/caller.ts';
import { notify } from '../notices.ts';
import { ActionDialog } from '../ui/dialog.tsx';

type Kind = 'cancel' | 'resume' | 'delete';
type Asked = Readonly<{ kind: Kind; session: ListedSession }>;

type Question = Readonly<{ title: string; act: string; text: string; run: (id: string) => Promise<string> }>;

const QUESTIONS: Readonly<Record<Kind, Question>> = {
  cancel: {
    title: 'Cancel the run?',
    act: 'Cancel the run',
    text: 'What it has said so far is kept.',
    run: async (id) => client.sessions.cancel(id).then(() => 'The run is being cancelled'),
  },
  resume: {
    title: 'Resume the session?',
    act: 'Resume',
    text: 'The agent goes on where it stopped, with the queued messages. Its model calls are billed.',
    run: async (id) => `Resumed with ${(await client.sessions.resume(id)).runId}`,
  },
  delete: {
    title: 'Delete the session?',
    act: 'Delete',
    text: 'All that was said in it is gone for good.',
    run: async (id) => client.sessions.delete(id).then(() => 'The session is deleted'),
  },
};

const STOPPED: ReadonlySet<string> = new Set(['failed', 'cancelled', 'incomplete']);

/**
 * The actions on the chosen session of a list, which the palette and keys offer.
 * @param again reads the list again
 * @returns the question before an action, if one is asked
 */
export function useListActions(session: ListedSession | undefined, again: () => void): ReactNode {
  const refused = useRefusal('write');
  const [asked, ask] = useState<Asked | null>(null);
  const actions = session === undefined ? [] : actionsOn(session, refused, ask);
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
  const isOver = asked?.kind === 'cancel' && session?.id === asked.session.id && session.status === 'idle';
  useEffect(() => {
    if (isOver) ask(null);
  }, [isOver]);
  if (asked === null) return null;
  const { title, act, text, run } = QUESTIONS[asked.kind];
  return (
    <ActionDialog
      isOpen
      close={() => ask(null)}
      title={title}
      act={act}
      isDangerous={asked.kind !== 'resume'}
      run={async () => {
        notify(await run(asked.session.id));
        again();
      }}
    >
      <p className="wrap-anywhere">
        <b className="font-semibold">{nameOf(asked.session)}</b>
      </p>
      <p>{text}</p>
    </ActionDialog>
  );
}

const nameOf = ({ name }: ListedSession): string => clipped(name, 120);

function actionsOn(
  session: ListedSession,
  refused: string | undefined,
  ask: (asked: Asked) => void,
): readonly Command[] {
  const { status, overview } = session;
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
      run: () => ask({ kind: 'resume', session }),
    },
    {
      group: ACTIONS,
      words: `Delete ${name}`,
      refused: refused ?? (isIdle ? undefined : 'A run is active: cancel it first'),
      run: () => ask({ kind: 'delete', session }),
    },
  ];
}
