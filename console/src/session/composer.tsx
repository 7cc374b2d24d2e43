import type { Delivery, UserPart } from '@baton-run/server/client';
import { useMutation } from '@tanstack/react-query';
import { Paperclip, Send, X } from 'lucide-react';
import { type KeyboardEvent, type ReactNode, useRef, useState } from 'react';
import { client } from '../api.ts';
import { useLostConnection } from '../connection.ts';
import { failureWords, isUnreachable } from '../format.ts';
import { useKeys } from '../keys.ts';
import { useRefusal } from '../layout/caller.ts';
import { notify } from '../notices.ts';
import { useSendOnce } from '../send-once.ts';
import { type Attachment, useAttachments } from './attachments.ts';
import { QueuedMessages } from './queued-messages.tsx';
import { useHead, useOpened } from './session-context.tsx';

type Chosen = Exclude<Delivery, 'reject'>;
const DELIVERIES: Readonly<Record<Chosen, Readonly<{ words: string; title: string }>>> = {
  steer: { words: 'steer', title: 'The agent reads the message before its next step' },
  followup: { words: 'follow up', title: 'The message gets a run of its own when the active run has ended' },
  interrupt: { words: 'interrupt', title: 'The run is cancelled, and the message comes next' },
};

const draftKey = (sessionId: string): string => `baton-draft-${sessionId}`;

function storedDraft(sessionId: string): string {
  try {
    return sessionStorage.getItem(draftKey(sessionId)) ?? '';
  } catch {
    return '';
  }
}

function storeDraft(sessionId: string, text: string): void {
  try {
    if (text === '') sessionStorage.removeItem(draftKey(sessionId));
    else sessionStorage.setItem(draftKey(sessionId), text);
  } catch {
    // The browser may refuse storage, or the storage may be full. Then the draft lives as long as the page.
  }
}

type Sent = Readonly<{
  content: string | readonly UserPart[];
  /** A run was active when it was sent. */
  isQueued: boolean;
  text: string;
  files: readonly Attachment[];
}>;

/** The queued messages, and the field for the next one. */
export function Composer(): ReactNode {
  const { sessionId } = useOpened();
  const head = useHead();
  const refusal = useRefusal('write');
  const [text, setText] = useState(() => storedDraft(sessionId));
  const [delivery, setDelivery] = useState<Chosen>('steer');
  const attached = useAttachments();
  const field = useRef<HTMLTextAreaElement>(null);
  const newest = useRef(text);
  const sendOnce = useSendOnce();
  const isBusy = head !== undefined && head.status !== 'idle';
  useKeys('Session', { m: ['Write a message', () => field.current?.focus()] });
  const change = (next: string): void => {
    newest.current = next;
    setText(next);
    storeDraft(sessionId, next);
  };
  const { mutate, error, reset } = useMutation({
    // The messages are sent one after another, so that they keep their order.
    scope: { id: `send-${sessionId}` },
    mutationFn: ({ content, isQueued }: Sent) =>
      // The content alone identifies the message: a run may have begun or ended before the person tries again.
      sendOnce(JSON.stringify(content), isQueued ? { delivery } : {}, (options, idempotencyKey) =>
        client.send(sessionId, content, { ...options, idempotencyKey }),
      ),
    onSuccess: ({ queued }) => {
      // The list above the field shows the other queued messages.
      if (queued && delivery === 'interrupt') notify('Sent: the run is cancelled, this message comes next');
    },
    // The text goes back into the field, in front of the text that the person has written since.
    onError: (_, sent) => {
      change([sent.text, newest.current].filter((words) => words !== '').join('\n'));
      attached.restore(sent.files);
    },
  });
  const parts = attached.files.flatMap(({ part }) => part ?? []);
  const isUploading = attached.files.some(({ state }) => state === 'sending');
  const hasFailed = attached.files.some(({ state }) => state === 'failed');
  const isEmpty = text.trim() === '' && parts.length === 0;
  const why =
    refusal ??
    (isUploading
      ? 'A file is being uploaded'
      : hasFailed
        ? 'A file could not be uploaded: remove it first'
        : undefined);
  const send = (): void => {
    if (why !== undefined || isEmpty) return;
    const content =
      parts.length === 0 ? text : [...(text.trim() === '' ? [] : [{ type: 'text' as const, text }]), ...parts];
    mutate({ content, isQueued: isBusy, text, files: attached.files });
    change('');
    attached.clear();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === 'Escape') field.current?.blur();
    if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    send();
  };
  return (
    <div className="flex-none border-t border-line bg-panel">
      <QueuedMessages />
      <form
        className="flex flex-col gap-2 p-3"
        onSubmit={(event) => {
          event.preventDefault();
          send();
        }}
        onDragOver={(event) => event.preventDefault()}
        onDrop={(event) => {
          event.preventDefault();
          if (refusal === undefined) attached.add(event.dataTransfer.files);
        }}
      >
        {attached.files.length > 0 && <AttachedFiles files={attached.files} remove={attached.remove} />}
        <textarea
          ref={field}
          aria-label="Message"
          className="field max-h-[30vh] resize-none field-sizing-content"
          rows={2}
          placeholder={
            refusal === undefined
              ? 'Message the agent…   Enter sends, Shift+Enter begins a line'
              : `${refusal}: you can read, not write`
          }
          disabled={refusal !== undefined}
          value={text}
          onChange={(event) => {
            change(event.target.value);
            if (error !== null) reset();
          }}
          onKeyDown={onKeyDown}
          onPaste={(event) => {
            if (event.clipboardData.files.length === 0) return;
            event.preventDefault();
            attached.add(event.clipboardData.files);
          }}
        />
        {error !== null && <NotSent error={error} canSend={why === undefined && !isEmpty} />}
        <div className="flex items-center gap-2">
          <AttachButton isOff={refusal !== undefined} add={attached.add} />
          <span className="flex-1" />
          {isBusy && (
            <select
              aria-label="While the run is active"
              className="field text-sm"
              title={DELIVERIES[delivery].title}
              value={delivery}
              disabled={refusal !== undefined}
              onChange={(event) => setDelivery(event.target.value as Chosen)}
            >
              {Object.entries(DELIVERIES).map(([name, { words, title }]) => (
                <option key={name} value={name} title={title}>
                  {words}
                </option>
              ))}
            </select>
          )}
          <button
            type="submit"
            className="button main"
            disabled={why !== undefined || isEmpty}
            title={why ?? (isBusy ? DELIVERIES[delivery].title : undefined)}
          >
            <Send size={13} aria-hidden="true" /> Send
          </button>
        </div>
      </form>
    </div>
  );
}

/** Why the message is still in the field, and a way to send it once the service is back. */
function NotSent({ error, canSend }: Readonly<{ error: unknown; canSend: boolean }>): ReactNode {
  const isAway = useLostConnection() !== null;
  if (!isUnreachable(error) || isAway) {
    return (
      <p role="alert" className="text-failed wrap-anywhere">
        {failureWords(error)}
        {isUnreachable(error) && ': the message is not sent by itself. It stays here.'}
      </p>
    );
  }
  return (
    <p role="status" className="flex flex-wrap items-center gap-2">
      The service is back. It may not have got the message: sent again, it counts once.
      <button type="submit" className="button small" disabled={!canSend}>
        Send now
      </button>
    </p>
  );
}

function AttachButton({ isOff, add }: Readonly<{ isOff: boolean; add: (files: Iterable<File>) => void }>): ReactNode {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <button
        type="button"
        className="icon-button"
        aria-label="Attach files"
        title="Attach files: also by paste or drop"
        disabled={isOff}
        onClick={() => input.current?.click()}
      >
        <Paperclip size={14} />
      </button>
      <input
        ref={input}
        type="file"
        multiple={true}
        hidden={true}
        aria-label="Files"
        onChange={(event) => {
          add([...(event.target.files ?? [])]);
          event.target.value = '';
        }}
      />
    </>
  );
}

const AttachedFiles = ({
  files,
  remove,
}: Readonly<{ files: readonly Attachment[]; remove: (no: number) => void }>): ReactNode => (
  <ul className="flex flex-wrap gap-1">
    {files.map(({ no, name, state, words }) => (
      <li
        key={no}
        className={`flex max-w-full items-center gap-1 rounded border border-line px-1.5 text-sm ${state === 'failed' ? 'text-failed' : ''}`}
      >
        <span className="truncate" dir="auto">
          {name}
        </span>
        {words !== '' && <span className="truncate text-dim">{words}</span>}
        <button
          type="button"
          className="icon-button h-5! w-5!"
          aria-label={`Remove ${name}`}
          onClick={() => remove(no)}
        >
          <X size={12} />
        </button>
      </li>
    ))}
  </ul>
);
