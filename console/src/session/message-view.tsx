import type { Message, Part } from '@baton-run/server/client';
import { ChevronsDownUp, GitFork, Pencil } from 'lucide-react';
import { memo, type ReactNode } from 'react';
import { clockTime, count, exactTime } from '../format.ts';
import { Id } from '../ui/copy.tsx';
import { FileView } from './file-view.tsx';
import type { LiveMessage } from './live-text.ts';
import { LongText } from './long-text.tsx';
import { Prose } from './markdown.tsx';
import { ProviderError } from './provider-error.tsx';
import { ToolView } from './tool-view.tsx';

export type MessageActions = Readonly<{
  fork: (message: Message) => void;
  editAndSend: (message: Message) => void;
  openStep: (message: Message) => void;
  /** The reason why a fork is refused; undefined: it is not. */
  refusal: string | undefined;
}>;

type Props = Readonly<{ message: Message; live: LiveMessage | null; isChosen: boolean; actions: MessageActions }>;

/** A message of the transcript. While the model writes it, it shows the text that has come so far. */
export const MessageView = memo(function MessageView({ message, live, isChosen, actions }: Props): ReactNode {
  if (message.isSummary) return <SummaryView message={message} />;
  const isOpen = message.role === 'assistant' && message.finishReason === null && message.error === null;
  return (
    <article
      className={`group px-4 py-2 ${isChosen ? 'bg-chosen' : ''}`}
      aria-label={message.role === 'user' ? 'User' : `Agent, step ${message.step}`}
      data-seq={message.seq}
    >
      <MessageHead message={message} actions={actions} />
      <div className="flex flex-col gap-1.5">
        {message.parts.map((part, index) =>
          isOpen && live !== null && (part.type === 'text' || part.type === 'reasoning') ? null : (
            // biome-ignore lint/suspicious/noArrayIndexKey: parts are only appended.
            <PartView key={index} part={part} message={message} />
          ),
        )}
        {isOpen && <LiveView live={live} />}
        {message.error !== null && <ProviderError error={message.error} />}
        {message.finishReason === 'length' && (
          <p className="text-sm text-waiting">Cut off: the answer reached its longest length.</p>
        )}
        {message.finishReason === 'aborted' && <p className="text-sm text-cancelled">Cancelled here.</p>}
      </div>
    </article>
  );
});

function MessageHead({ message, actions }: Readonly<{ message: Message; actions: MessageActions }>): ReactNode {
  const { role, step, createdAt } = message;
  return (
    <header className="flex h-6 items-center gap-2 text-sm text-dim">
      <span className={role === 'user' ? 'font-semibold text-ink' : 'font-semibold text-accent'}>
        {role === 'user' ? 'User' : 'Agent'}
      </span>
      {role === 'assistant' && step !== null && (
        <button type="button" className="bare px-1" title="Show this step" onClick={() => actions.openStep(message)}>
          step {count(step)}
        </button>
      )}
      <time dateTime={createdAt} title={exactTime(createdAt)}>
        {clockTime(createdAt)}
      </time>
      <span className="flex-1" />
      <span className="flex items-center opacity-0 group-focus-within:opacity-100 group-hover:opacity-100">
        <Id id={message.id} chars={6} />
        {role === 'user' && (
          <button
            type="button"
            className="icon-button"
            disabled={actions.refusal !== undefined}
            title={actions.refusal ?? 'Edit, and send it again in a fork'}
            aria-label="Edit and send again"
            onClick={() => actions.editAndSend(message)}
          >
            <Pencil size={12} />
          </button>
        )}
        <button
          type="button"
          className="icon-button"
          disabled={actions.refusal !== undefined}
          title={actions.refusal ?? 'Fork: go on from here in a session of its own'}
          aria-label="Fork from here"
          onClick={() => actions.fork(message)}
        >
          <GitFork size={12} />
        </button>
      </span>
    </header>
  );
}

function PartView({ part, message }: Readonly<{ part: Part; message: Message }>): ReactNode {
  switch (part.type) {
    case 'text':
      return message.role === 'user' ? <UserText text={part.text} no={part.queuedNo} /> : <Prose text={part.text} />;
    case 'reasoning':
      return part.text === '' ? null : <Thoughts text={part.text} />;
    case 'tool':
      return <ToolView part={part} message={message} />;
    case 'file':
      return <FileView file={part} isStripped={part.mediaStrippedAt !== undefined} />;
    case 'source':
      return <SourceView part={part} />;
    case 'compaction':
      return <LongText text={part.text} />;
    case 'step-start':
      return null;
  }
}

const UserText = ({ text, no }: Readonly<{ text: string; no: number | undefined }>): ReactNode => (
  <div dir="auto">
    {no !== undefined && no > 1 && <hr className="my-1.5 border-line" />}
    <LongText text={text} render={(shown) => <div className="whitespace-pre-wrap wrap-anywhere">{shown}</div>} />
  </div>
);

function Thoughts({ text, isLive = false }: Readonly<{ text: string; isLive?: boolean }>): ReactNode {
  return (
    <details className="text-dim" open={isLive}>
      <summary className="w-fit rounded text-sm">
        {isLive ? 'Thinking…' : `Thoughts, ${count(text.length)} characters`}
      </summary>
      <div className="mt-1 border-l-2 border-line pl-3" dir="auto">
        <LongText text={text} render={(shown) => <div className="whitespace-pre-wrap wrap-anywhere">{shown}</div>} />
      </div>
    </details>
  );
}

function SourceView({ part }: Readonly<{ part: Extract<Part, { type: 'source' }> }>): ReactNode {
  const words = part.title ?? part.url ?? part.filename ?? 'Source';
  if (part.url === undefined || !/^https?:/i.test(part.url)) return <p className="text-sm text-dim">Source: {words}</p>;
  return (
    <p className="text-sm text-dim">
      Source:{' '}
      <a
        href={part.url}
        title={part.url}
        className="text-accent underline"
        target="_blank"
        rel="noopener noreferrer nofollow"
      >
        {words}
      </a>
    </p>
  );
}

function LiveView({ live }: Readonly<{ live: LiveMessage | null }>): ReactNode {
  if (live === null) return <p className="text-dim">…</p>;
  return (
    <>
      {live.reasoning !== '' && <Thoughts text={live.reasoning} isLive={live.text === ''} />}
      {live.text !== '' && <Prose text={live.text} />}
      {[...live.inputs].map(([id, { toolName, chars }]) => (
        <p key={id} className="text-sm text-dim">
          <span className="font-mono">{toolName}</span>: {count(chars)} characters of its input so far
        </p>
      ))}
      {live.reasoning === '' && live.text === '' && live.inputs.size === 0 && <p className="text-dim">Thinking…</p>}
    </>
  );
}

function SummaryView({ message }: Readonly<{ message: Message }>): ReactNode {
  const of = message.summaryOf;
  const text = message.parts.map((part) => ('text' in part ? part.text : '')).join('\n');
  return (
    <article className="px-4 py-2" data-seq={message.seq} aria-label="Compaction">
      <details className="rounded border border-dashed border-strong-line px-2 py-1">
        <summary className="rounded">
          <ChevronsDownUp size={12} className="mr-1 inline text-accent" aria-hidden="true" />
          Compaction{of === null ? '' : `, round ${of.round}`}
          <span className="text-dim">
            {of !== null &&
              ` · this summary replaces messages ${count(of.fromSeq)} to ${count(of.uptoSeq)} for the model`}
          </span>
        </summary>
        <div className="mt-1">
          <Prose text={text} />
        </div>
      </details>
    </article>
  );
}
