import type { WaitingCall } from '@baton-run/server/client';
import { useInfiniteQuery, useQueryClient } from '@tanstack/react-query';
import { useNavigate, useSearch } from '@tanstack/react-router';
import { ChevronLeft } from 'lucide-react';
import type { ReactNode } from 'react';
import { client } from '../api.ts';
import { clipped } from '../format.ts';
import { useMay } from '../layout/caller.ts';
import { LacksScope } from '../layout/reach.tsx';
import { Empty, Failure, SkeletonRows } from '../ui/empty.tsx';
import { State } from '../ui/state.tsx';
import { Time } from '../ui/time.tsx';
import { VirtualRows } from '../ui/virtual-rows.tsx';
import { InboxCall } from './inbox-call.tsx';

const ROW_PX = 64;
const PAGE_SIZE = 50;

/** The calls of all sessions that wait for a person or a client, oldest first. */
export function InboxPage(): ReactNode {
  const mayRead = useMay('read');
  const { call: asked } = useSearch({ from: '/inbox' });
  const navigate = useNavigate({ from: '/inbox' });
  const list = useWaitingCalls(mayRead);
  const { calls } = list;
  const show = (call: string | undefined): void =>
    void navigate({ search: call === undefined ? {} : { call }, replace: true });
  const forget = useForgetCall();
  const leave = (index: number): void => {
    const next = calls[index + 1] ?? calls[index - 1];
    show(asked === undefined ? undefined : next?.id);
    forget(calls[index]?.id);
  };
  if (!mayRead) return <LacksScope scopes="read" />;
  const at = Math.max(
    0,
    calls.findIndex(({ id }) => id === asked),
  );
  const chosen = calls[at];
  const isGone = asked !== undefined && !list.isPending && chosen?.id !== asked;
  return (
    <div className="flex h-full">
      <h1 className="sr-only">Inbox</h1>
      <div
        className={`h-full min-w-0 flex-1 border-line lg:block lg:max-w-md lg:border-r ${asked === undefined ? '' : 'hidden'}`}
      >
        {list.isPending ? (
          <SkeletonRows rows={10} height={ROW_PX} />
        ) : list.isError && calls.length === 0 ? (
          <Failure error={list.error} retry={() => void list.refetch()} />
        ) : calls.length === 0 ? (
          <NothingWaits />
        ) : (
          <VirtualRows
            label="Calls that wait"
            rows={calls}
            height={ROW_PX}
            keyOf={({ id }) => id}
            chosen={at}
            choose={(index) => show(calls[index]?.id)}
            open={({ id }) => show(id)}
            onEnd={list.hasNextPage && !list.isFetchingNextPage ? () => void list.fetchNextPage() : undefined}
            render={(call, isChosen) => <Row call={call} isChosen={isChosen} choose={() => show(call.id)} />}
          />
        )}
      </div>
      {chosen !== undefined && (
        <section
          aria-label="The chosen call"
          className={`h-full min-w-0 flex-1 flex-col lg:flex ${asked === undefined ? 'hidden' : 'flex'}`}
        >
          <button type="button" className="bare m-2 h-6 self-start px-1 lg:hidden" onClick={() => show(undefined)}>
            <ChevronLeft size={14} /> All calls
          </button>
          {isGone && (
            <p role="status" className="border-b border-line px-4 py-2 text-dim">
              The call of this address waits no longer. This is the {at === 0 ? 'oldest one' : 'next one'} that does.
            </p>
          )}
          <InboxCall key={chosen.id} call={chosen} done={() => leave(at)} />
        </section>
      )}
    </div>
  );
}

function Row({
  call,
  isChosen,
  choose,
}: Readonly<{ call: WaitingCall; isChosen: boolean; choose: () => void }>): ReactNode {
  return (
    <button
      type="button"
      tabIndex={-1}
      className={`flex h-full w-full flex-col justify-center border-b border-line px-3 text-left hover:bg-hover ${isChosen ? 'bg-chosen' : ''}`}
      aria-current={isChosen}
      onClick={choose}
    >
      <span className="flex w-full items-center gap-2">
        <span className="truncate font-mono text-sm">{clipped(call.toolName, 100)}</span>
        <span className="flex-none text-sm">
          <State state={call.kind} />
        </span>
        <span className="flex-1" />
        <span className="flex-none text-sm text-dim">
          <Time at={call.askedAt} />
        </span>
      </span>
      <span className="w-full truncate text-sm" dir="auto">
        {clipped(call.sessionName, 200)}
        <span className="text-dim"> · {call.agent}</span>
      </span>
      <span className="w-full truncate text-sm text-dim" dir="auto">
        {call.userWords === null ? 'No message of a user' : clipped(call.userWords.text, 200) || '…'}
      </span>
    </button>
  );
}

function NothingWaits(): ReactNode {
  return (
    <Empty title="No call waits for anybody">
      <p>
        Calls of tools that need an approval, tools that a client runs, and calls whose worker died in between stand
        here until they are answered. A tool needs an approval where its agent says so under{' '}
        <code className="font-mono">tools</code>.
      </p>
    </Empty>
  );
}

function useWaitingCalls(isAllowed: boolean) {
  const query = useInfiniteQuery({
    queryKey: ['inbox', 'list'],
    queryFn: ({ pageParam, signal }) => client.inbox({ limit: PAGE_SIZE, cursor: pageParam, signal }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ nextCursor }) => nextCursor ?? undefined,
    enabled: isAllowed,
  });
  return { ...query, calls: query.data?.pages.flatMap(({ calls }) => calls) ?? [] };
}

/** Takes an answered call off the lists at once; the service is asked afterwards. */
function useForgetCall(): (id: string | undefined) => void {
  const cache = useQueryClient();
  return (id) => {
    cache.setQueryData<ReturnType<typeof useWaitingCalls>['data']>(['inbox', 'list'], (data) =>
      data === undefined
        ? data
        : {
            ...data,
            pages: data.pages.map((page) => ({ ...page, calls: page.calls.filter((call) => call.id !== id) })),
          },
    );
    void cache.invalidateQueries({ queryKey: ['inbox'] });
  };
}
