import type { ListedSession } from '@baton-run/server/client';
import { type ReactNode, useEffect, useRef } from 'react';
import { client } from '../api.ts';
import { notify } from '../notices.ts';
import { ActionDialog } from '../ui/dialog.tsx';

/** An act that costs money or stops work, and waits until the person confirms it. */
export type Costly = 'cancel' | 'resume' | 'compact' | 'prune';

type Question = Readonly<{
  title: string;
  act: string;
  isDangerous?: true;
  text: string;
  run: (sessionId: string) => Promise<unknown>;
  /** The sentence afterwards; null: the page shows it anyway. */
  done: string | null;
}>;

const QUESTIONS: Readonly<Record<Costly, Question>> = {
  cancel: {
    title: 'Cancel the run?',
    act: 'Cancel the run',
    isDangerous: true,
    text: 'Everything that the agent has said and done stays. Queued messages are parked until the next message or a resume.',
    run: (id) => client.sessions.cancel(id),
    done: null,
  },
  resume: {
    title: 'Resume the session?',
    act: 'Resume',
    text: 'The agent goes on where it stopped, with the queued messages. Its model calls are billed.',
    run: (id) => client.sessions.resume(id),
    done: 'Resumed',
  },
  compact: {
    title: 'Compact the context?',
    act: 'Compact',
    text: 'A model summarizes the older messages, and the agent reads the summary in their place. The provider bills that call. The messages stay in the transcript.',
    run: (id) => client.sessions.compact(id),
    done: 'Compaction asked for',
  },
  prune: {
    title: 'Prune old tool outputs?',
    act: 'Prune',
    text: 'The agent reads short notes in place of old outputs of tools. The next request is billed at the full price once, because the provider has to read it anew. The outputs stay in the transcript.',
    run: (id) => client.sessions.prune(id),
    done: 'Prune asked for',
  },
};

type Props = Readonly<{ what: Costly; session: ListedSession; close: () => void }>;

/** Asks before something is done that costs money or stops work. */
export function ConfirmDialog({ what, session, close }: Props): ReactNode {
  const { title, act, isDangerous = false, text, run, done } = QUESTIONS[what];
  const isIdle = session.status === 'idle';
  const isOver = what === 'cancel' && isIdle;
  const isConfirmed = useRef(false);
  useEffect(() => {
    if (!isOver) return;
    close();
    if (!isConfirmed.current) notify('The run has ended by itself');
  }, [isOver, close]);
  const confirm = async (): Promise<void> => {
    isConfirmed.current = true;
    await run(session.id);
    const isLater = !isIdle && (what === 'compact' || what === 'prune');
    if (done !== null) notify(isLater ? `${done}: it is done before the next step` : done);
  };
  return (
    <ActionDialog isOpen={true} close={close} title={title} act={act} isDangerous={isDangerous} run={confirm}>
      <p>{text}</p>
    </ActionDialog>
  );
}
