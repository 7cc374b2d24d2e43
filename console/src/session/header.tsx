import type { ListedSession } from '@baton-run/server/client';
import { Link } from '@tanstack/react-router';
import { CornerLeftUp, Ellipsis, Square } from 'lucide-react';
import type { ReactNode } from 'react';
import { cost, count, percent, shortCount } from '../format.ts';
import { waitsForPerson, waitWords } from '../pages/waits-for.ts';
import { Id } from '../ui/copy.tsx';
import { ActionMenu } from '../ui/menu.tsx';
import { State } from '../ui/state.tsx';
import { Since } from '../ui/time.tsx';
import { CompactionNotice } from './compaction-notice.tsx';
import { ContextLine } from './context-meter.tsx';
import type { Origin } from './family-keys.ts';
import type { SessionActions } from './session-actions.tsx';
import { useNewestRun } from './session-context.tsx';

/** Shows the session's name, its state, how full its context is, and its cost. */
export function SessionHeader({
  session,
  origin,
  actions,
}: Readonly<{ session: ListedSession; origin: Origin | null; actions: SessionActions }>): ReactNode {
  const { id, name, agent, overrides } = session;
  const { cancel, menu } = actions;
  return (
    <header className="flex-none border-b border-line">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1 px-3 py-1.5">
        {origin !== null && (
          <Link
            to="/sessions/$sessionId"
            params={{ sessionId: origin.sessionId }}
            search={origin.search}
            className="button small"
            title="Go up to the step that gave this task (u)"
          >
            <CornerLeftUp size={12} aria-hidden="true" /> Parent
          </Link>
        )}
        <h1 className="min-w-0 truncate text-lg" dir="auto" title={name}>
          {name}
        </h1>
        <Id id={id} chars={6} />
        <span className="min-w-0 truncate text-dim" title={`Agent ${agent}`}>
          {agent}
          {overrides.model !== undefined && ` · ${overrides.model}`}
        </span>
        <span className="flex-1" />
        <Doing session={session} />
        <span className="flex items-center gap-1">
          <button
            type="button"
            className="button small"
            disabled={cancel.refused !== undefined}
            title={cancel.refused ?? 'Cancel the run (x)'}
            onClick={cancel.run}
          >
            <Square size={11} aria-hidden="true" /> Cancel
          </button>
          <ActionMenu label="Actions" actions={menu} shortcut=".">
            <Ellipsis size={15} />
          </ActionMenu>
        </span>
      </div>
      <Numbers session={session} />
      <CompactionNotice />
    </header>
  );
}

function Numbers({ session }: Readonly<{ session: ListedSession }>): ReactNode {
  const { usage, costUsd } = session;
  const cached = usage.inputTokens === 0 ? null : usage.cacheReadTokens / usage.inputTokens;
  return (
    <div className="flex flex-wrap items-center gap-x-4 gap-y-0.5 px-3 pb-1.5 text-sm">
      <span className="text-dim">context</span>
      <ContextLine />
      {cached !== null && (
        <span
          title={`${count(usage.cacheReadTokens)} of ${count(usage.inputTokens)} tokens came from the provider's cache`}
        >
          <span className="text-dim">cache</span> {percent(cached)}
        </span>
      )}
      <span title={`${count(usage.inputTokens)} tokens in, ${count(usage.outputTokens)} tokens out`}>
        {shortCount(usage.inputTokens)} <span className="text-dim">tokens in ·</span> {shortCount(usage.outputTokens)}{' '}
        <span className="text-dim">out</span>
      </span>
      <span title={costUsd === null ? 'The price of some call is unknown' : `$${costUsd}`}>{cost(costUsd)}</span>
    </div>
  );
}

/** The state of the session in words: its step or the cause of its wait, and the time since that began. */
function Doing({ session }: Readonly<{ session: ListedSession }>): ReactNode {
  const run = useNewestRun();
  const { status, overview, compactingSince } = session;
  const { waitsFor } = overview;
  if (status === 'idle') {
    const ended = run === undefined || run.status === 'completed' ? 'idle' : run.status;
    return <State state={ended} />;
  }
  if (waitsFor !== null) {
    return (
      <span className="flex min-w-0 items-center gap-1.5">
        <State state={waitsForPerson(waitsFor) ? 'requires_action' : 'queued'}>waits for {waitWords(waitsFor)}</State>
        {waitsFor.since !== null && (
          <span className="text-dim">
            <Since at={waitsFor.since} />
          </span>
        )}
      </span>
    );
  }
  const words = compactingSince !== null ? 'compacting' : `running step ${count((run?.steps ?? 0) + 1)}`;
  const since = compactingSince ?? run?.startedAt ?? null;
  return (
    <span className="flex items-center gap-1.5">
      <State state={run?.status === 'cancelling' ? 'cancelling' : 'running'}>
        {run?.status === 'cancelling' ? 'cancelling' : words}
      </State>
      {since !== null && (
        <span className="text-dim">
          <Since at={since} />
        </span>
      )}
    </span>
  );
}
