import type { StepRequest, StepRow, StoredFile } from '@baton-run/server/client';
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { client } from '../api.ts';
import { count, percent, plural, shortCount } from '../format.ts';
import { useRefusal } from '../layout/caller.ts';
import { Empty, Failure, SkeletonRows } from '../ui/empty.tsx';
import { breakWords } from './context-strip.tsx';
import { FileView } from './file-view.tsx';
import { jsonText, LongText } from './long-text.tsx';
import { Prose } from './markdown.tsx';
import { useOpened } from './session-context.tsx';
import { CallDetails } from './tool-view.tsx';

const MESSAGES_OF_PAGE = 100;
type Shown = StepRequest['messages'][number];

/** The exact request that the model was shown in a step. */
export function RequestTab({ runId, row }: Readonly<{ runId: string; row: StepRow }>): ReactNode {
  const refusal = useRefusal('admin');
  const { data, error, isPending, refetch, hasNextPage, fetchNextPage, isFetchingNextPage } = useInfiniteQuery({
    queryKey: ['request', runId, row.step, row.attempt],
    queryFn: ({ pageParam, signal }) =>
      client.runs.request(runId, row.step, { attempt: row.attempt, after: pageParam, limit: MESSAGES_OF_PAGE, signal }),
    initialPageParam: 0,
    getNextPageParam: ({ next }) => next ?? undefined,
    enabled: refusal === undefined,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 60_000,
  });
  if (refusal !== undefined) {
    return (
      <Empty title="Your key does not show requests">
        <p>{refusal}: a request holds the agent's instructions. Log in with a key that has it.</p>
      </Empty>
    );
  }
  if (isPending) return <SkeletonRows rows={6} height={32} />;
  if (data === undefined) return <Failure error={error} retry={() => void refetch()} />;
  const [first] = data.pages;
  if (first === undefined) return null;
  const messages = data.pages.flatMap((page) => page.messages);
  return (
    <div className="flex flex-col gap-2">
      <Summary request={first} shown={messages.length} isAll={!hasNextPage} row={row} />
      <ToolList tools={first.tools} />
      {messages.map((message, index) => (
        <ShownMessage key={message.no} message={message} isLast={!hasNextPage && index === messages.length - 1} />
      ))}
      {error !== null && <Failure error={error} retry={() => void refetch()} />}
      {hasNextPage && (
        <button
          type="button"
          className="button small self-start"
          disabled={isFetchingNextPage}
          onClick={() => void fetchNextPage()}
        >
          Show later messages
        </button>
      )}
    </div>
  );
}

function Summary({
  request,
  shown,
  isAll,
  row,
}: Readonly<{ request: StepRequest; shown: number; isAll: boolean; row: StepRow }>): ReactNode {
  const kinds = Object.entries(request.byKind).filter(([, tokens]) => tokens > 0);
  return (
    <div className="flex flex-col gap-1 text-dim">
      <p>
        {isAll ? plural(shown, 'message') : `the first ${plural(shown, 'message')}`} · {count(request.tokens)} tokens ·
        agent {request.agent} · {request.model}
      </p>
      <p className="text-sm">
        Tokens by kind:{' '}
        {kinds
          .map(([kind, tokens]) => `${kind.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)} ${count(tokens)}`)
          .join(' · ')}
      </p>
      <p className="text-sm">
        <Proof request={request} />
      </p>
      {row.cacheBreak !== null && (
        <p className="text-sm text-waiting">The provider's cache broke here: {breakWords(row.cacheBreak)}.</p>
      )}
      {row.cachedShare !== null && (
        <p className="text-sm">{percent(row.cachedShare)} of it came from the provider's cache.</p>
      )}
    </div>
  );
}

function Proof({ request: { verified, toolsVerified } }: Readonly<{ request: StepRequest }>): ReactNode {
  if (verified === null) return 'Recomputed from the transcript; the worker kept no hash to prove it equal.';
  if (!verified)
    return (
      <span className="text-waiting">
        Recomputed, and not equal to what was sent: the agent or its model has changed since.
      </span>
    );
  if (toolsVerified === false)
    return (
      <span className="text-waiting">Proven equal to what was sent, but for its tools: they have changed since.</span>
    );
  return <span className="text-running">Proven equal to what was sent, by its hash.</span>;
}

const ToolList = ({ tools }: Readonly<{ tools: StepRequest['tools'] }>): ReactNode =>
  tools.length === 0 ? null : (
    <details className="rounded border border-line">
      <summary className="rounded px-2 py-1">{plural(tools.length, 'tool')} offered</summary>
      <div className="flex flex-col gap-2 border-t border-line p-2">
        {tools.map(({ name, description, inputSchema }) => (
          <details key={name}>
            <summary className="rounded font-mono text-sm">{name}</summary>
            <p className="text-dim whitespace-pre-wrap">{description}</p>
            <LongText text={jsonText(inputSchema)} />
          </details>
        ))}
      </div>
    </details>
  );

const NAMES: Readonly<Record<Shown['role'], string>> = {
  system: 'instructions',
  user: 'user',
  assistant: 'agent',
  tool: 'tool results',
};

/** A message of the request. At first only the last one is open, and only an open one has its content in the page. */
function ShownMessage({ message, isLast }: Readonly<{ message: Shown; isLast: boolean }>): ReactNode {
  const [isOpen, open] = useState(isLast);
  const { no, role, tokens, content, hidden } = message;
  return (
    <section className="min-w-0 rounded border border-line" aria-label={`Message ${no}, ${NAMES[role]}`}>
      <button
        type="button"
        className="flex w-full min-w-0 items-center gap-2 px-2 py-1 text-left hover:bg-hover"
        aria-expanded={isOpen}
        onClick={() => open(!isOpen)}
      >
        <span className="w-8 flex-none text-right text-sm text-dim">{no}</span>
        <span className="w-20 flex-none truncate">{NAMES[role]}</span>
        <span className="min-w-0 flex-1 truncate text-sm text-dim" dir="auto">
          {firstWords(content)}
        </span>
        {hidden.length > 0 && (
          <span className="flex-none rounded bg-hover px-1 text-xs text-waiting">{hiddenWords(hidden)}</span>
        )}
        <span
          className="flex-none text-sm text-dim"
          title={`${count(tokens)} tokens, estimated; ${count(message.bytes)} bytes`}
        >
          {shortCount(tokens)} tokens
        </span>
      </button>
      {isOpen && (
        <div className="flex flex-col gap-2 border-t border-line p-2">
          {content.map((part, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: a request does not change.
            <ShownPart key={index} part={part} />
          ))}
          {hidden.map((part) => (
            <HiddenPart key={`${part.callId}/${part.kind}/${part.messageId}`} part={part} />
          ))}
        </div>
      )}
    </section>
  );
}

type ShownContent = Shown['content'][number];

function firstWords(content: readonly ShownContent[]): string {
  return content
    .map((part) => {
      if (typeof part['text'] === 'string') return part['text'].slice(0, 200);
      return typeof part['toolName'] === 'string' ? part['toolName'] : part.type;
    })
    .join(' · ')
    .replace(/\s+/g, ' ')
    .slice(0, 200);
}

function ShownPart({ part }: Readonly<{ part: ShownContent }>): ReactNode {
  const text = part['text'];
  if (part.type === 'text' && typeof text === 'string') {
    return <LongText text={text} render={(shown) => <Prose text={shown} />} />;
  }
  const file = fileOf(part);
  if (file !== null) return <FileView file={file} />;
  const output = outputTextOf(part);
  const { type, toolName, ...rest } = part;
  return (
    <div className="min-w-0">
      <p className="text-xs text-dim">
        {type.replaceAll('-', ' ')} {typeof toolName === 'string' && <span className="font-mono">{toolName}</span>}
      </p>
      <LongText text={output ?? (typeof text === 'string' ? text : jsonText(rest))} />
    </div>
  );
}

/** The text of a call's outcome, which JSON would show with every quote and line end escaped. */
function outputTextOf({ type, output }: ShownContent): string | null {
  if (type !== 'tool-result' || typeof output !== 'object' || output === null) return null;
  const { type: kind, value } = output as Readonly<{ type?: unknown; value?: unknown }>;
  return (kind === 'text' || kind === 'error-text') && typeof value === 'string' ? value : null;
}

function fileOf({ type, mediaType, url, filename }: ShownContent): StoredFile | null {
  if (type !== 'file' || typeof mediaType !== 'string' || typeof url !== 'string') return null;
  return { type: 'file', mediaType, url, ...(typeof filename === 'string' && { filename }) };
}

const KINDS: Readonly<Record<Shown['hidden'][number]['kind'], string>> = {
  pruned: 'pruned',
  cut: 'cut',
  media: 'files left out',
};

function hiddenWords(hidden: Shown['hidden']): string {
  const byKind = Map.groupBy(hidden, ({ kind }) => kind);
  return [...byKind].map(([kind, parts]) => `${parts.length} ${KINDS[kind]}`).join(', ');
}

/** A part that the request does not show whole. The original is read on demand. */
function HiddenPart({ part }: Readonly<{ part: Shown['hidden'][number] }>): ReactNode {
  const { sessionId } = useOpened();
  const [isAsked, ask] = useState(false);
  const { data, error, refetch } = useQuery({
    queryKey: ['session', sessionId, 'hidden', part.messageId, part.callId],
    queryFn: async ({ signal }) => {
      const { messages } = await client.messages(sessionId, { after: part.seq - 1, limit: 1, signal });
      return messages.find(({ id }) => id === part.messageId) ?? null;
    },
    enabled: isAsked,
  });
  const call = data?.parts.find((one) => one.type === 'tool' && one.id === part.callId);
  return (
    <div className="rounded border border-dashed border-strong-line p-2">
      <p className="flex flex-wrap items-center gap-2 text-dim">
        <span className="text-waiting">{KINDS[part.kind]}</span>
        {part.toolName !== null && <span className="font-mono text-sm">{part.toolName}</span>}
        {part.tokens !== null && <span>{count(part.tokens)} tokens before</span>}
        {!isAsked && (
          <button type="button" className="button small" onClick={() => ask(true)}>
            Show what it was
          </button>
        )}
      </p>
      {error !== null && <Failure error={error} retry={() => void refetch()} />}
      {data === null && <p className="text-dim">The transcript no longer has this message.</p>}
      {call?.type === 'tool' && <CallDetails part={call} />}
      {data !== undefined && data !== null && call === undefined && <LongText text={jsonText(data.parts)} />}
    </div>
  );
}
