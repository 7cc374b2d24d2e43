import type { OperatorRun, Run } from '@baton-run/server/client';
import { Link, useNavigate, useSearch } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { act } from '../act.ts';
import { client } from '../api.ts';
import { useNow } from '../clock.ts';
import { ACTIONS, useCommands } from '../commands.ts';
import { clipped, cost, duration, plural, shortCount } from '../format.ts';
import { useRefusal } from '../layout/caller.ts';
import { LacksScope, ReachSwitch, useReach } from '../layout/reach.tsx';
import { useNarrow } from '../session/use-narrow.ts';
import { Choice } from '../ui/choice.tsx';
import { Id } from '../ui/copy.tsx';
import { Empty, Failure, SkeletonRows } from '../ui/empty.tsx';
import { State } from '../ui/state.tsx';
import { Time } from '../ui/time.tsx';
import { VirtualRows } from '../ui/virtual-rows.tsx';
import { RUN_STATUSES, type RunFilter } from './run-filter.ts';
import { useLiveList } from './use-live-list.ts';
import { waitWords } from './waits-for.ts';

const ROW_PX = 36;
const NARROW_ROW_PX = 64;
const OF_TENANT =
  'grid grid-cols-[minmax(200px,1fr)_110px_minmax(220px,1fr)_92px_48px_112px_70px_92px_84px_100px] items-center gap-x-3 px-3';
const OF_ALL =
  'grid grid-cols-[100px_100px_minmax(200px,1fr)_110px_110px_48px_124px_64px_90px_84px] items-center gap-x-3 px-3';

type ListedRun = (Run & Readonly<{ tenant?: undefined }>) | OperatorRun;

/** All runs, newest first. The runs of the tenant are live; those of all tenants come without the texts of messages. */
export function RunsPage(): ReactNode {
  const filter = useSearch({ from: '/runs' });
  const navigate = useNavigate({ from: '/runs' });
  const { reach } = useReach(filter.all);
  const [chosen, choose] = useState(0);
  const list = useRuns(filter, reach);
  const refused = useRefusal('write');
  const run = list.rows[chosen];
  useCommands(run === undefined || reach !== 'tenant' ? [] : actionsOn(run, refused, () => void list.refetch()));
  const change = (next: RunFilter): void => {
    choose(0);
    void navigate({ search: next, replace: true });
  };
  const open = ({ sessionId }: ListedRun): void =>
    void (reach === 'tenant' && navigate({ to: '/sessions/$sessionId', params: { sessionId } }));
  if (reach === null) return <LacksScope scopes="read or operator" />;
  return (
    <div className="flex h-full flex-col">
      <div className="flex flex-none flex-wrap items-center gap-2 border-b border-line px-3 py-1.5">
        <h1 className="mr-2 leading-6">Runs</h1>
        <Choice
          label="Status"
          value={filter.status}
          values={RUN_STATUSES}
          change={(status) =>
            change({ ...without(filter, 'status'), ...(status !== undefined && { status: status as Run['status'] }) })
          }
        />
        <ReachSwitch all={filter.all} change={(all) => change({ ...without(filter, 'all'), ...(all && { all }) })} />
      </div>
      <div className="min-h-0 flex-1">
        {list.isPending ? (
          <SkeletonRows rows={16} height={ROW_PX} />
        ) : list.isError && list.rows.length === 0 ? (
          <Failure error={list.error} retry={() => void list.refetch()} />
        ) : list.rows.length === 0 ? (
          <NoRuns isFiltered={filter.status !== undefined} clear={() => change({})} />
        ) : (
          <Rows list={list} isAll={reach === 'all'} chosen={chosen} choose={choose} open={open} />
        )}
      </div>
    </div>
  );
}

type RowsProps = Readonly<{
  list: ReturnType<typeof useRuns>;
  isAll: boolean;
  chosen: number;
  choose: (index: number) => void;
  open: (run: ListedRun) => void;
}>;

function Rows({ list, isAll, chosen, choose, open }: RowsProps): ReactNode {
  const columns = isAll ? OF_ALL : OF_TENANT;
  const isNarrow = useNarrow();
  const more = (): void => void list.fetchNextPage();
  return (
    <VirtualRows<ListedRun>
      key={String(isNarrow)}
      label="Runs"
      rows={list.rows}
      height={isNarrow ? NARROW_ROW_PX : ROW_PX}
      keyOf={({ id }) => id}
      chosen={chosen}
      choose={choose}
      open={open}
      minWidth={isNarrow ? 0 : 1_180}
      onEnd={list.hasNextPage && !list.isFetchingNextPage ? more : undefined}
      head={isNarrow ? undefined : <Head columns={columns} isAll={isAll} />}
      foot={list.isFetchNextPageError ? <Failure error={list.error} retry={more} /> : null}
      render={(run, isChosen) =>
        isNarrow ? <NarrowRow run={run} isChosen={isChosen} /> : <Row run={run} isChosen={isChosen} columns={columns} />
      }
    />
  );
}

function without(filter: RunFilter, name: keyof RunFilter): RunFilter {
  const { [name]: _, ...others } = filter;
  return others;
}

const useRuns = ({ status }: RunFilter, reach: 'tenant' | 'all' | null) => {
  const filter = status === undefined ? {} : { status };
  return useLiveList<ListedRun>({
    key: ['runs', reach ?? 'none', filter],
    read: async (request) => {
      const { runs, nextCursor } = await (reach === 'all'
        ? client.operator.runs({ ...filter, ...request })
        : client.runs.list({ ...filter, ...request }));
      return { rows: runs, nextCursor };
    },
    live:
      reach === 'all'
        ? null
        : {
            changed: ({ runs }) => runs,
            readAgain: async (ids) => (await client.runs.list({ ids, limit: ids.length })).runs,
          },
    enabled: reach !== null,
  });
};

const RESUMED: ReadonlySet<string> = new Set(['failed', 'cancelled', 'incomplete']);

function actionsOn({ id, sessionId, status }: ListedRun, refused: string | undefined, again: () => void) {
  const isActive = ['queued', 'running', 'requires_action'].includes(status);
  return [
    {
      group: ACTIONS,
      words: `Cancel the run ${id}`,
      refused: refused ?? (isActive ? undefined : `It is ${status}`),
      run: () =>
        void act(async () => `The run is ${(await client.runs.cancel(id)).status.replaceAll('_', ' ')}.`).then(again),
    },
    {
      group: ACTIONS,
      words: `Resume the session of the run ${id}`,
      refused: refused ?? (RESUMED.has(status) ? undefined : `The run is ${status}`),
      run: () =>
        void act(async () => `The session goes on with ${(await client.sessions.resume(sessionId)).runId}.`).then(
          again,
        ),
    },
  ];
}

function Head({ columns, isAll }: Readonly<{ columns: string; isAll: boolean }>): ReactNode {
  return (
    <div className={`table-head h-7 border-b border-line ${columns}`}>
      {isAll && <span>Run</span>}
      <span>Session</span>
      {!isAll && <span>Agent</span>}
      <span>Status and cause</span>
      {isAll ? <span>Tenant</span> : <span>Began by</span>}
      {isAll && <span>Agent</span>}
      <span className="text-right">Steps</span>
      <span className="text-right">Tokens in · out</span>
      <span className="text-right">Cost</span>
      <span className="text-right">Took</span>
      <span className="text-right">Created</span>
      {!isAll && <span className="text-right">Run</span>}
    </div>
  );
}

function Row({ run, isChosen, columns }: Readonly<{ run: ListedRun; isChosen: boolean; columns: string }>): ReactNode {
  const { id, status, steps, usage, costUsd, createdAt } = run;
  const cause = causeOf(run);
  return (
    <div
      className={`h-full border-b border-line hover:bg-hover ${columns} ${isChosen ? 'bg-chosen' : ''}`}
      aria-current={isChosen}
    >
      {run.tenant !== undefined && <Id id={id} />}
      <SessionOf run={run} />
      {run.tenant === undefined && (
        <span className="truncate" title={clipped(run.agent, 300)}>
          {clipped(run.agent, 300)}
        </span>
      )}
      <span className="flex min-w-0 items-center gap-2">
        <span className="flex-none">
          <State state={status} />
        </span>
        <span className="truncate text-dim" title={clipped(cause, 1_000)} dir="auto">
          {clipped(cause, 300)}
        </span>
      </span>
      {run.tenant === undefined ? (
        <span className="truncate text-dim">{TRIGGERS[run.trigger]}</span>
      ) : (
        <span className="truncate">{run.tenant}</span>
      )}
      {run.tenant !== undefined && <span className="truncate">{run.agent}</span>}
      <span className="text-right" title={plural(steps, 'step')}>
        {steps}
      </span>
      <span className="text-right" title={`${usage.inputTokens} tokens in, ${usage.outputTokens} out`}>
        {usage.totalTokens === 0 ? '' : `${shortCount(usage.inputTokens)} · ${shortCount(usage.outputTokens)}`}
      </span>
      <span className="text-right" title={costUsd === null ? 'The price of some call is unknown' : `$${costUsd}`}>
        {cost(costUsd)}
      </span>
      <span className="text-right text-dim">
        <Took run={run} />
      </span>
      <span className="text-right text-dim">
        <Time at={createdAt} />
      </span>
      {run.tenant === undefined && (
        <span className="flex justify-end">
          <Id id={id} chars={6} />
        </span>
      )}
    </div>
  );
}

const TRIGGERS: Readonly<Record<Run['trigger'], string>> = {
  message: 'a message',
  schedule: 'a schedule',
  hook: 'a hook',
  parent: 'another agent',
  notice: 'a notice',
  resume: 'a resume',
  maintenance: 'maintenance',
};

const SessionOf = ({ run }: Readonly<{ run: ListedRun }>): ReactNode =>
  run.tenant === undefined ? (
    <Link
      to="/sessions/$sessionId"
      params={{ sessionId: run.sessionId }}
      className="min-w-0 truncate text-accent underline underline-offset-4"
      title={run.sessionId}
      dir="auto"
    >
      {clipped(run.sessionName, 200)}
    </Link>
  ) : (
    <Id id={run.sessionId} />
  );

/** A row for a screen without room for columns. */
function NarrowRow({ run, isChosen }: Readonly<{ run: ListedRun; isChosen: boolean }>): ReactNode {
  const { status, steps, costUsd, createdAt } = run;
  const cause = clipped(causeOf(run), 300);
  const whose = run.tenant === undefined ? [run.agent] : [run.tenant, run.agent];
  return (
    <div
      className={`flex h-full flex-col justify-center border-b border-line px-3 ${isChosen ? 'bg-chosen' : ''}`}
      aria-current={isChosen}
    >
      <span className="flex items-center gap-2">
        <span className="flex min-w-0 flex-1">
          <SessionOf run={run} />
        </span>
        <span className="flex-none text-sm text-dim">
          <Time at={createdAt} />
        </span>
      </span>
      <span className="flex items-center gap-2 text-sm">
        <span className="flex-none">
          <State state={status} />
        </span>
        <span className="min-w-0 truncate text-dim" dir="auto" title={cause}>
          {cause}
        </span>
      </span>
      <span className="flex items-center gap-2 text-sm text-dim">
        <span className="min-w-0 flex-1 truncate">{[...whose, plural(steps, 'step')].join(' · ')}</span>
        <span className="flex-none">
          <Took run={run} />
        </span>
        <span className="flex-none">{cost(costUsd)}</span>
      </span>
    </div>
  );
}

function causeOf(run: ListedRun): string {
  if ('waitsFor' in run) {
    const { waitsFor, errorCode, reason } = run;
    if (waitsFor !== null) return `waits for ${waitWords(waitsFor)}`;
    return (errorCode ?? reason ?? '').replaceAll('_', ' ');
  }
  const { error, reason, requiredActions } = run;
  if (requiredActions.length > 0) return `waits for ${requiredActions.map(({ toolName }) => toolName).join(', ')}`;
  return error?.message ?? reason?.replaceAll('_', ' ') ?? '';
}

function Took({ run: { startedAt, finishedAt } }: Readonly<{ run: ListedRun }>): ReactNode {
  const nowMs = useNow();
  if (startedAt === null) return null;
  const endMs = finishedAt === null ? nowMs : Date.parse(finishedAt);
  return duration(Math.max(0, endMs - Date.parse(startedAt)));
}

function NoRuns({ isFiltered, clear }: Readonly<{ isFiltered: boolean; clear: () => void }>): ReactNode {
  return isFiltered ? (
    <Empty title="No run has this status">
      <button type="button" className="button" onClick={clear}>
        Show all runs
      </button>
    </Empty>
  ) : (
    <Empty title="There is no run yet">
      <p>A run begins when a session gets a message, and ends with its answer.</p>
      <Link to="/playground" className="button main">
        Open the Playground
      </Link>
    </Empty>
  );
}
