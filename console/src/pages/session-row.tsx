import type { ListedSession } from '@baton-run/server/client';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { clipped, cost, count, percent, plainWords, plural, shortCount } from '../format.ts';
import { atHit } from '../session/search.ts';
import { Id } from '../ui/copy.tsx';
import { State } from '../ui/state.tsx';
import { Time } from '../ui/time.tsx';
import { FoundWords } from './found-words.tsx';
import { waitsForPerson, waitWords } from './waits-for.ts';

const COLUMNS = 'grid grid-cols-[minmax(260px,1fr)_130px_210px_64px_150px_70px_104px_86px] items-center gap-x-3 px-3';

/** Characters of a name that a list shows. The name itself may be of any length. */
const MAX_NAME_CHARS = 300;

export function SessionHead(): ReactNode {
  return (
    <div className={`table-head h-7 border-b border-line ${COLUMNS}`}>
      <span>Session and last words</span>
      <span>Agent</span>
      <span>Status and what it waits for</span>
      <span className="text-right">Steps</span>
      <span className="text-right">Tokens in · out</span>
      <span className="text-right">Cost</span>
      <span>Context</span>
      <span className="text-right">Created</span>
    </div>
  );
}

type RowProps = Readonly<{
  session: ListedSession;
  isChosen: boolean;
  /** The words that were searched. */
  q: string;
}>;

export function SessionRow({ session, isChosen, q }: RowProps): ReactNode {
  const { id, agent, steps, usage, costUsd, createdAt, overview } = session;
  return (
    <Link
      to="/sessions/$sessionId"
      params={{ sessionId: id }}
      search={atHit(session.hit)}
      className={`h-full border-b border-line hover:bg-hover ${COLUMNS} ${isChosen ? 'bg-chosen' : ''}`}
      aria-current={isChosen}
    >
      <span className="flex min-w-0 flex-col">
        <span className="flex items-center gap-2">
          <span className="truncate font-medium" dir="auto">
            <Name session={session} />
          </span>
          <Id id={id} chars={6} />
        </span>
        <span className="truncate text-sm text-dim" dir="auto">
          {session.hit === null ? lastWords(session) : <FoundWords hit={session.hit} q={q} />}
        </span>
      </span>
      <span className="truncate" title={clipped(agent, MAX_NAME_CHARS)}>
        {clipped(agent, MAX_NAME_CHARS)}
      </span>
      <StatusOf session={session} />
      <span className="text-right" title="Steps of all runs">
        {steps === 0 ? '' : count(steps)}
      </span>
      <span className="text-right" title={`${usage.inputTokens} tokens in, ${usage.outputTokens} out`}>
        {usage.totalTokens === 0 ? '' : `${shortCount(usage.inputTokens)} · ${shortCount(usage.outputTokens)}`}
      </span>
      <span className="text-right" title={costUsd === null ? 'The price of some call is unknown' : `$${costUsd}`}>
        {cost(costUsd)}
      </span>
      <Fill context={overview.context} />
      <span className="text-right text-dim">
        <Time at={createdAt} />
      </span>
    </Link>
  );
}

/** The same for a screen without room for columns. */
export function NarrowSessionRow({ session, isChosen, q }: RowProps): ReactNode {
  return (
    <Link
      to="/sessions/$sessionId"
      params={{ sessionId: session.id }}
      search={atHit(session.hit)}
      className={`flex h-full flex-col justify-center border-b border-line px-3 hover:bg-hover ${isChosen ? 'bg-chosen' : ''}`}
      aria-current={isChosen}
    >
      <span className="flex items-center gap-2">
        <span className="min-w-0 flex-1 truncate font-medium" dir="auto">
          <Name session={session} />
        </span>
        <span className="flex-none text-sm text-dim">
          <Time at={session.createdAt} />
        </span>
      </span>
      <span className="truncate text-sm text-dim" dir="auto">
        {session.hit === null ? lastWords(session) : <FoundWords hit={session.hit} q={q} />}
      </span>
      <span className="flex items-center gap-2 text-sm">
        <StateOf session={session} />
        <span className="min-w-0 flex-1 truncate text-dim">{detailOf(session)}</span>
        <span className="flex-none text-dim">{cost(session.costUsd)}</span>
      </span>
    </Link>
  );
}

const Name = ({ session: { name } }: Readonly<{ session: ListedSession }>): ReactNode => clipped(name, MAX_NAME_CHARS);

function lastWords({ overview: { lastWords: words } }: ListedSession): string {
  if (words === null) return 'No message yet';
  return words.role === 'user' ? `User: ${words.text || '…'}` : plainWords(words.text) || '…';
}

function StatusOf({ session }: Readonly<{ session: ListedSession }>): ReactNode {
  const detail = detailOf(session);
  return (
    <span className="flex min-w-0 flex-col">
      <StateOf session={session} />
      <span className="truncate text-sm text-dim" title={detail}>
        {detail}
      </span>
    </span>
  );
}

const STOPPED: ReadonlySet<string> = new Set(['failed', 'cancelled', 'incomplete']);

/** The last run of an idle session that did not end with an answer. */
const stoppedRun = ({ status, overview: { lastRun } }: ListedSession) =>
  status === 'idle' && lastRun !== null && STOPPED.has(lastRun.status) ? lastRun : null;

function StateOf({ session }: Readonly<{ session: ListedSession }>): ReactNode {
  const { waitsFor } = session.overview;
  // Its children are at work.
  if (waitsFor?.kind === 'child') return <State state="running" />;
  if (waitsFor !== null && !waitsForPerson(waitsFor)) return <State state="queued" />;
  return <State state={stoppedRun(session)?.status ?? session.status} />;
}

function detailOf(session: ListedSession): string {
  const { waitsFor, queued } = session.overview;
  const stopped = stoppedRun(session);
  const words = [
    waitsFor !== null && `waits for ${waitWords(waitsFor)}`,
    waitsFor === null && stopped !== null && (stopped.errorCode ?? stopped.reason ?? '').replaceAll('_', ' '),
    session.compactingSince !== null && 'compacting',
    queued > 0 && `${plural(queued, 'message')} queued`,
  ];
  return words.filter((word) => typeof word === 'string' && word !== '').join(' · ');
}

function Fill({ context }: Readonly<{ context: ListedSession['overview']['context'] }>): ReactNode {
  if (context === null) return <span />;
  const { usedTokens, usableTokens, share } = context;
  return (
    <span className="flex items-center gap-2" title={`${usedTokens} of ${usableTokens} usable tokens`}>
      <span className="h-1.5 flex-1 overflow-hidden rounded-sm bg-bar-wait">
        <span className="block h-full bg-bar-own" style={{ width: `${Math.min(100, share * 100)}%` }} />
      </span>
      <span className="w-10 text-right text-sm text-dim">{percent(share)}</span>
    </span>
  );
}
