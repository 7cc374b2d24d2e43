import type { Json, WaitingMessage } from '@baton-run/server/client';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { ChevronsUp, Clock, Pencil, Trash2 } from 'lucide-react';
import { type FormEvent, type ReactNode, useState } from 'react';
import { client } from '../api.ts';
import { failureWords, plural } from '../format.ts';
import { useRefusal } from '../layout/caller.ts';
import { notify } from '../notices.ts';
import { Time } from '../ui/time.tsx';
import { useHead, useOpened } from './session-context.tsx';

const SHOWN = 100;

/** The messages that wait for the agent: to edit, to promote, to remove. */
export function QueuedMessages(): ReactNode {
  const { sessionId } = useOpened();
  const cache = useQueryClient();
  const isIdle = useHead()?.status === 'idle';
  const { data } = useQuery({
    queryKey: ['session', sessionId, 'queue'],
    queryFn: ({ signal }) => client.queue.list(sessionId, { limit: SHOWN, signal }),
  });
  const [edited, edit] = useState<string | null>(null);
  const refusal = useRefusal('write');
  const renew = (): Promise<void> => cache.invalidateQueries({ queryKey: ['session', sessionId, 'queue'] });
  const { mutate } = useMutation({
    mutationFn: (act: () => Promise<unknown>) => act(),
    onError: (error) => notify(failureWords(error), 'failed'),
    onSettled: renew,
  });
  const messages = data?.messages ?? [];
  if (messages.length === 0) return null;
  return (
    <section
      aria-label="Queued messages"
      className="max-h-48 overflow-auto border-b border-line px-3 py-1"
      data-scroller=""
    >
      <p className="flex items-center gap-2 text-sm text-dim">
        <Clock size={12} aria-hidden="true" />
        {plural(messages.length, 'message')}
        {data?.nextCursor !== null && ' and more'}{' '}
        {isIdle ? 'parked: they go along with the next message, or with Resume' : 'queued'}
        <span className="flex-1" />
        <button
          type="button"
          className="bare px-1"
          disabled={refusal !== undefined}
          title={refusal}
          onClick={() => mutate(() => client.queue.clear(sessionId))}
        >
          remove all
        </button>
      </p>
      <ul>
        {messages.map((message) =>
          edited === message.id ? (
            <EditForm key={message.id} message={message} close={() => edit(null)} renew={renew} />
          ) : (
            <QueuedMessage
              key={message.id}
              message={message}
              refusal={refusal}
              edit={() => edit(message.id)}
              promote={() => mutate(() => client.queue.change(sessionId, message.id, { delivery: 'steer' }))}
              remove={() => mutate(() => client.queue.remove(sessionId, message.id))}
            />
          ),
        )}
      </ul>
    </section>
  );
}

type Field = Readonly<Record<string, Json>>;
const isText = (part: Json): part is Field & Readonly<{ text: string }> =>
  typeof part === 'object' && part !== null && !Array.isArray(part) && (part as Field)['type'] === 'text';
const textOf = ({ content }: WaitingMessage): string =>
  content
    .filter(isText)
    .map(({ text }) => text)
    .join('\n');

type ItemProps = Readonly<{
  message: WaitingMessage;
  refusal: string | undefined;
  edit: () => void;
  promote: () => void;
  remove: () => void;
}>;

function QueuedMessage({ message, refusal, edit, promote, remove }: ItemProps): ReactNode {
  const { position, delivery, content, enqueuedAt } = message;
  const files = content.filter((part) => !isText(part)).length;
  const isOff = refusal !== undefined;
  return (
    <li className="flex items-center gap-2" data-queued={message.id}>
      <span className="w-4 flex-none text-right text-sm text-dim">{position}</span>
      <span className="min-w-0 flex-1 truncate" title={textOf(message).slice(0, 1_000)} dir="auto">
        {textOf(message).slice(0, 300)}
        {files > 0 && <span className="text-dim"> + {plural(files, 'file')}</span>}
      </span>
      <span className="flex-none text-sm text-dim">
        {delivery === 'followup' ? 'follow up' : delivery} · <Time at={enqueuedAt} />
      </span>
      <span className="flex flex-none">
        <button
          type="button"
          className="icon-button"
          disabled={isOff || files > 0}
          title={refusal ?? (files > 0 ? 'It has files: remove it and send it anew' : 'Edit')}
          aria-label="Edit the queued message"
          onClick={edit}
        >
          <Pencil size={12} />
        </button>
        {delivery === 'followup' && (
          <button
            type="button"
            className="icon-button"
            disabled={isOff}
            title={refusal ?? 'Promote: the agent reads it before its next step'}
            aria-label="Promote the queued message"
            onClick={promote}
          >
            <ChevronsUp size={13} />
          </button>
        )}
        <button
          type="button"
          className="icon-button"
          disabled={isOff}
          title={refusal ?? 'Remove'}
          aria-label="Remove the queued message"
          onClick={remove}
        >
          <Trash2 size={12} />
        </button>
      </span>
    </li>
  );
}

type EditProps = Readonly<{ message: WaitingMessage; close: () => void; renew: () => Promise<void> }>;

function EditForm({ message, close, renew }: EditProps): ReactNode {
  const { sessionId } = useOpened();
  const [text, setText] = useState(textOf(message));
  const { mutate, isPending, error } = useMutation({
    mutationFn: () => client.queue.change(sessionId, message.id, { content: text }),
    onSuccess: async () => {
      await renew();
      close();
    },
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    mutate();
  };
  return (
    <li>
      <form className="flex flex-col gap-1 py-1" onSubmit={submit}>
        <textarea
          aria-label="Queued message"
          className="field field-sizing-content max-h-40"
          // biome-ignore lint/a11y/noAutofocus: the person has just opened this form.
          autoFocus={true}
          value={text}
          onChange={(event) => setText(event.target.value)}
          onKeyDown={(event) => {
            if (event.key === 'Escape') close();
            if (event.key === 'Enter' && !event.shiftKey) submit(event);
          }}
        />
        {error !== null && (
          <p role="alert" className="text-failed">
            {failureWords(error)}
          </p>
        )}
        <span className="flex gap-2">
          <button type="submit" className="button small main" disabled={isPending || text.trim() === ''}>
            Save
          </button>
          <button type="button" className="button small" onClick={close}>
            Keep as it is
          </button>
        </span>
      </form>
    </li>
  );
}
