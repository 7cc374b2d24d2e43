import type { ListedSession } from '@baton-run/server/client';
import { Link, useNavigate, useSearch } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { useCommands } from '../commands.ts';
import { useMay } from '../layout/caller.ts';
import { atHit } from '../session/search.ts';
import { useNarrow } from '../session/use-narrow.ts';
import { Empty, Failure, SkeletonRows } from '../ui/empty.tsx';
import { VirtualRows } from '../ui/virtual-rows.tsx';
import type { SessionFilter } from './session-filter.ts';
import { SessionFilters } from './session-filters.tsx';
import { useListActions } from './session-list-actions.tsx';
import { NarrowSessionRow, SessionHead, SessionRow } from './session-row.tsx';
import { useSessionList } from './use-session-list.ts';

const ROW_PX = 44;
const NARROW_ROW_PX = 64;

/** All sessions, newest first, live. */
export function SessionsPage(): ReactNode {
  const filter = useSearch({ from: '/sessions' });
  const navigate = useNavigate({ from: '/sessions' });
  const [chosen, choose] = useState(0);
  const mayRead = useMay('read');
  const list = useSessionList(filter, mayRead);
  const height = useNarrow() ? NARROW_ROW_PX : ROW_PX;
  const dialogs = useListActions(list.rows[chosen], () => void list.refetch());
  const change = (next: SessionFilter): void => {
    choose(0);
    void navigate({ search: next, replace: true });
  };
  useCommands([
    { group: 'Filter', words: 'Sessions that wait for a person', run: () => change({ waiting: true }) },
    { group: 'Filter', words: 'Sessions whose last run failed', run: () => change({ failed: true }) },
    { group: 'Filter', words: 'All sessions', run: () => change({}) },
  ]);
  if (!mayRead) return <OperatorHint />;
  return (
    <div className="flex h-full flex-col">
      <h1 className="sr-only">Sessions</h1>
      <SessionFilters filter={filter} change={change} />
      <div className="min-h-0 flex-1">
        {list.isPending ? (
          <SkeletonRows rows={14} height={height} />
        ) : list.isError && list.rows.length === 0 ? (
          <Failure error={list.error} retry={() => void list.refetch()} />
        ) : list.rows.length === 0 && !list.hasNextPage ? (
          <NoSessions filter={filter} clear={() => change({})} />
        ) : (
          <Rows list={list} chosen={chosen} choose={choose} q={filter.q ?? ''} />
        )}
      </div>
      {dialogs}
    </div>
  );
}

type RowsProps = Readonly<{
  list: ReturnType<typeof useSessionList>;
  chosen: number;
  choose: (index: number) => void;
  q: string;
}>;

function Rows({ list, chosen, choose, q }: RowsProps): ReactNode {
  const navigate = useNavigate();
  const isNarrow = useNarrow();
  const Row = isNarrow ? NarrowSessionRow : SessionRow;
  return (
    <VirtualRows<ListedSession>
      key={String(isNarrow)}
      label="Sessions"
      rows={list.rows}
      height={isNarrow ? NARROW_ROW_PX : ROW_PX}
      keyOf={({ id }) => id}
      chosen={chosen}
      choose={choose}
      open={({ id, hit }) =>
        void navigate({ to: '/sessions/$sessionId', params: { sessionId: id }, search: atHit(hit) })
      }
      minWidth={isNarrow ? 0 : 1_120}
      onEnd={list.hasNextPage && !list.isFetchingNextPage ? () => void list.fetchNextPage() : undefined}
      head={isNarrow ? undefined : <SessionHead />}
      foot={<Foot list={list} />}
      render={(session, isChosen) => <Row session={session} isChosen={isChosen} q={q} />}
    />
  );
}

function Foot({ list }: Pick<RowsProps, 'list'>): ReactNode {
  if (list.isFetchNextPageError) return <Failure error={list.error} retry={() => void list.fetchNextPage()} />;
  if (list.isFetchingNextPage) return <SkeletonRows rows={3} height={ROW_PX} />;
  return null;
}

function NoSessions({ filter, clear }: Readonly<{ filter: SessionFilter; clear: () => void }>): ReactNode {
  if (Object.keys(filter).length > 0) {
    return (
      <Empty title="No session fits these filters">
        <button type="button" className="button" onClick={clear}>
          Show all sessions
        </button>
      </Empty>
    );
  }
  return (
    <Empty title="There is no session yet">
      <p>A session is one long conversation with an agent. Begin one here, by the API, or on the command line:</p>
      <Link to="/playground" className="button main">
        Open the Playground
      </Link>
      <pre className="plain rounded border border-line bg-panel px-3 py-2 text-ink">
        npm run -s baton -- submit --follow "Which files are here?"
      </pre>
    </Empty>
  );
}

function OperatorHint(): ReactNode {
  return (
    <Empty title="Your key does not show sessions">
      <p>The key lacks the scope read. Pages of states and causes of all tenants are open, without conversations:</p>
      <p className="flex flex-wrap gap-2">
        <Link to="/runs" className="button">
          Runs
        </Link>
        <Link to="/errors" className="button">
          Errors
        </Link>
        <Link to="/usage" className="button">
          Usage
        </Link>
        <Link to="/workers" className="button">
          Workers
        </Link>
      </p>
    </Empty>
  );
}
