import type { ListedSession, Message } from '@baton-run/server/client';
import { useNavigate } from '@tanstack/react-router';
import { type ReactNode, useCallback, useId, useState } from 'react';
import { act } from '../act.ts';
import { client, queries } from '../api.ts';
import { ACTIONS, useCommands } from '../commands.ts';
import { failureWords } from '../format.ts';
import { useKeys } from '../keys.ts';
import { useRefusal } from '../layout/caller.ts';
import { notify } from '../notices.ts';
import { ActionDialog } from '../ui/dialog.tsx';
import type { MenuAction } from '../ui/menu.tsx';
import { TextField } from '../ui/text-field.tsx';
import { ConfirmDialog, type Costly } from './confirm-dialog.tsx';
import { useNewestRun, useOpened } from './session-context.tsx';
import { SwitchDialog } from './switch-dialog.tsx';

type Asked =
  | Readonly<{ kind: 'fork' | 'edit'; message: Message }>
  | Readonly<{ kind: 'rename' | 'model' | 'delete' | Costly }>;

export type SessionActions = Readonly<{
  menu: readonly MenuAction[];
  cancel: MenuAction;
  fork: (message: Message) => void;
  editAndSend: (message: Message) => void;
  refusal: string | undefined;
  dialogs: ReactNode;
}>;

/** All that can be done with the session: in its menu, in the palette and by keys. */
export function useSessionActions(session: ListedSession): SessionActions {
  const { sessionId, transcript } = useOpened();
  const refusal = useRefusal('write');
  const run = useNewestRun();
  const [asked, ask] = useState<Asked | null>(null);
  const close = useCallback(() => ask(null), []);
  const isIdle = session.status === 'idle';
  const hasStopped = isIdle && run !== undefined && ['failed', 'cancelled', 'incomplete'].includes(run.status);
  const cancel: MenuAction = {
    words: 'Cancel the run',
    keys: 'x',
    refused: refusal ?? (isIdle ? 'No run is active' : undefined),
    run: () => ask({ kind: 'cancel' }),
  };
  const resume: MenuAction = {
    words: 'Resume',
    keys: 'r',
    refused: refusal ?? (hasStopped || session.overview.queued > 0 ? undefined : 'Nothing has stopped'),
    run: () => ask({ kind: 'resume' }),
  };
  const edit = (): void => {
    const message = lastOfUser(transcript.lastSeq() ?? 0, transcript.at);
    if (message !== null) ask({ kind: 'edit', message });
  };
  const menu: MenuAction[] = [
    cancel,
    resume,
    {
      words: 'Compact the context',
      keys: 'c',
      refused: refusal,
      run: () => ask({ kind: 'compact' }),
    },
    {
      words: 'Prune old tool outputs',
      keys: 'p',
      refused: refusal,
      run: () => ask({ kind: 'prune' }),
    },
    { words: 'Edit the last message and send it again', keys: 'e', refused: refusal, run: edit },
    { words: 'Fork at the end', keys: 'f', refused: refusal, run: () => void forkAtEnd() },
    { words: 'Rename', refused: refusal, run: () => ask({ kind: 'rename' }) },
    { words: 'Switch agent or model', refused: refusal, run: () => ask({ kind: 'model' }) },
    {
      words: "Take the tools' new definitions",
      refused: refusal,
      run: () => void act(async () => client.sessions.repin(sessionId).then(() => 'Taken')),
    },
    {
      words: 'Delete the session',
      isDangerous: true,
      refused: refusal ?? (isIdle ? undefined : 'A run is active: cancel it first'),
      run: () => ask({ kind: 'delete' }),
    },
  ];
  const openFork = useOpenFork();
  const forkAtEnd = async (): Promise<void> => {
    try {
      openFork((await client.sessions.fork(sessionId)).id);
    } catch (error) {
      notify(failureWords(error), 'failed');
    }
  };
  useActionKeys(menu);
  return {
    menu,
    cancel,
    refusal,
    fork: (message) => ask({ kind: 'fork', message }),
    editAndSend: (message) => ask({ kind: 'edit', message }),
    dialogs: asked !== null && <Dialogs asked={asked} session={session} close={close} />,
  };
}

function useActionKeys(menu: readonly MenuAction[]): void {
  const press = ({ refused, run }: MenuAction): void => (refused === undefined ? run() : notify(refused, 'failed'));
  useCommands(menu.map(({ words, keys, refused, run }) => ({ group: ACTIONS, words, keys, refused, run })));
  useKeys(
    'Session',
    Object.fromEntries(
      menu.flatMap((action) => (action.keys === undefined ? [] : [[action.keys, [action.words, () => press(action)]]])),
    ),
  );
}

function lastOfUser(last: number, at: (seq: number) => Message | null | undefined): Message | null {
  for (let seq = last; seq > 0; seq--) {
    const message = at(seq);
    if (message === undefined) break;
    if (message?.role === 'user' && !message.isSummary) return message;
  }
  notify('The last message of a user is far up: scroll to it, and use its pencil', 'failed');
  return null;
}

function useOpenFork(): (sessionId: string) => void {
  const navigate = useNavigate();
  return (sessionId) => {
    notify('This is the fork. The other session stays as it was');
    void navigate({ to: '/sessions/$sessionId', params: { sessionId }, search: {} });
  };
}

type DialogProps = Readonly<{ asked: Asked; session: ListedSession; close: () => void }>;

function Dialogs({ asked, session, close }: DialogProps): ReactNode {
  switch (asked.kind) {
    case 'fork':
      return <ForkDialog message={asked.message} session={session} close={close} />;
    case 'edit':
      return <EditDialog message={asked.message} session={session} close={close} />;
    case 'rename':
      return <RenameDialog session={session} close={close} />;
    case 'model':
      return <SwitchDialog session={session} close={close} />;
    case 'delete':
      return <DeleteDialog session={session} close={close} />;
    default:
      return <ConfirmDialog what={asked.kind} session={session} close={close} />;
  }
}

type Props = Readonly<{ session: ListedSession; close: () => void }>;

function DeleteDialog({ session, close }: Props): ReactNode {
  const navigate = useNavigate();
  const remove = async (): Promise<void> => {
    await client.sessions.delete(session.id);
    notify('Deleted');
    void queries.invalidateQueries({ queryKey: ['sessions'] });
    await navigate({ to: '/sessions' });
  };
  return (
    <ActionDialog
      isOpen={true}
      close={close}
      title="Delete this session?"
      act="Delete for good"
      isDangerous={true}
      run={remove}
    >
      <p>Messages, runs, events and files of the session are removed for good.</p>
    </ActionDialog>
  );
}

function ForkDialog({ message, session, close }: Props & Readonly<{ message: Message }>): ReactNode {
  const openFork = useOpenFork();
  const [title, setTitle] = useState(session.title ?? '');
  const fork = async (): Promise<void> => {
    const made = await client.sessions.fork(session.id, {
      atMessage: message.id,
      title: title.trim() === '' ? null : title.trim(),
    });
    openFork(made.id);
  };
  return (
    <ActionDialog isOpen={true} close={close} title="Fork from this message" act="Fork" run={fork}>
      <p>A new session gets everything up to and including this message. This one stays as it is.</p>
      <TextField label="Title" value={title} change={setTitle} />
    </ActionDialog>
  );
}

function EditDialog({ message, session, close }: Props & Readonly<{ message: Message }>): ReactNode {
  const openFork = useOpenFork();
  const [text, setText] = useState(
    message.parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n'),
  );
  const field = useId();
  const files = message.parts.flatMap((part) => (part.type === 'file' ? [part] : []));
  const send = async (): Promise<void> => {
    const { messages } = await client.messages(session.id, { before: message.seq, limit: 1 });
    const before = messages.at(-1);
    const made =
      before === undefined
        ? await client.sessions.create({ agent: session.agent, title: session.title, overrides: session.overrides })
        : await client.sessions.fork(session.id, { atMessage: before.id });
    const kept = files.map(({ url, mediaType, filename }) => ({
      type: 'file' as const,
      mediaType,
      ...(filename !== undefined && { filename }),
      ...(url.startsWith('@blob:') ? { blobId: url.slice('@blob:'.length) } : { url }),
    }));
    await client.send(made.id, [{ type: 'text', text }, ...kept]);
    openFork(made.id);
  };
  return (
    <ActionDialog isOpen={true} close={close} title="Edit and send again" act="Send in a fork" run={send}>
      <p className="text-dim">
        A new session gets everything before this message, and then your new words
        {files.length > 0 && ' with the same files'}. This one stays as it is.
      </p>
      <label htmlFor={field} className="sr-only">
        New words
      </label>
      <textarea
        id={field}
        className="field field-sizing-content max-h-[40vh] min-h-24"
        value={text}
        required={true}
        onChange={(event) => setText(event.target.value)}
      />
    </ActionDialog>
  );
}

function RenameDialog({ session, close }: Props): ReactNode {
  const [title, setTitle] = useState(session.title ?? '');
  const rename = async (): Promise<void> => {
    await client.sessions.update(session.id, { title: title.trim() === '' ? null : title.trim() });
    await queries.invalidateQueries({ queryKey: ['session', session.id, 'head'] });
  };
  return (
    <ActionDialog isOpen={true} close={close} title="Rename the session" act="Rename" run={rename}>
      <TextField label="Title" value={title} change={setTitle} />
    </ActionDialog>
  );
}
