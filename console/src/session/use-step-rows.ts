import type { Run, StepPage } from '@baton-run/server/client';
import { useInfiniteQuery, useQueries } from '@tanstack/react-query';
import { useEffect, useMemo, useState } from 'react';
import { client } from '../api.ts';
import type { ChildrenOfCalls } from './children.ts';
import { runsQuery, useOpened } from './session-context.tsx';
import { hasEnded, type LoadedPage, pageKey, pagesOf, type Row, STEPS_OF_PAGE, toRows } from './step-rows.ts';
import { useChildren } from './use-children.ts';

type Wanted = Readonly<{ run: Run; page: number }>;

export type StepRows = Readonly<{
  rows: readonly Row[];
  /** Of the runs whose steps have been read. */
  children: ChildrenOfCalls;
  isPending: boolean;
  /** Steps are being read. */
  isReading: boolean;
  error: unknown;
  retry: () => void;
  /** Names the rows in sight, whose steps are then read. */
  show: (rows: readonly Row[]) => void;
  /** Reads older runs. Undefined: there are none, or they are being read. */
  more: (() => void) | undefined;
}>;

/** All rows of the session's waterfall. Steps are read as they come into sight. */
export function useStepRows(chosenRunId: string | undefined, chosenStep: number | undefined): StepRows {
  const { sessionId } = useOpened();
  const runs = useInfiniteQuery(runsQuery(sessionId));
  const listed = useMemo(() => runs.data?.pages.flatMap((page) => page.runs) ?? [], [runs.data]);
  const [shown, setShown] = useState<ReadonlySet<string>>(new Set());
  const wanted = useMemo(
    () => listed.flatMap((run, index) => pagesWanted(run, index === 0, shown, chosenRunId, chosenStep)),
    [listed, shown, chosenRunId, chosenStep],
  );
  const pages = useQueries({ queries: wanted.map((one) => stepsQuery(sessionId, one)), combine });
  const loaded = useMemo(() => {
    const byKey = new Map<string, LoadedPage>();
    wanted.forEach(({ run, page }, index) => {
      const rows = pages.data[index]?.rows;
      if (rows !== undefined) byKey.set(pageKey(run.id, page), rows);
    });
    return byKey;
  }, [wanted, pages.data]);
  useEarlierPages(listed[0], loaded, wanted.length > loaded.size, setShown);
  const children = useChildren([...new Set(wanted.map(({ run }) => run))]);
  const rows = useMemo(() => toRows(listed, loaded, children), [listed, loaded, children]);
  return {
    rows,
    children,
    isPending: runs.isPending,
    isReading: runs.isPending || (wanted.length > loaded.size && pages.error === null),
    error: runs.error ?? pages.error,
    retry: () => {
      void runs.refetch();
      pages.retry();
    },
    show(inSight) {
      const keys = inSight.flatMap((row) => (row.kind === 'missing' ? [pageKey(row.run.id, row.page)] : []));
      if (keys.some((key) => !shown.has(key))) setShown(new Set([...shown, ...keys]));
    },
    more: runs.hasNextPage && !runs.isFetching ? () => void runs.fetchNextPage() : undefined,
  };
}

/** Of a longer run the earliest steps are read when they come into sight. */
const MAX_PAGES_AHEAD = 20;

/** Reads the earlier steps of the newest run, page after page: its chart and its list of jumps then know all of them. */
function useEarlierPages(
  newest: Run | undefined,
  loaded: ReadonlyMap<string, LoadedPage>,
  isReading: boolean,
  want: (change: (shown: ReadonlySet<string>) => ReadonlySet<string>) => void,
): void {
  useEffect(() => {
    if (newest === undefined || isReading) return;
    const last = pagesOf(newest) - 1;
    const keys = Array.from({ length: Math.min(last, MAX_PAGES_AHEAD) }, (_, no) => pageKey(newest.id, last - 1 - no));
    const next = keys.find((key) => !loaded.has(key));
    if (next !== undefined) want((shown) => (shown.has(next) ? shown : new Set([...shown, next])));
  }, [newest, loaded, isReading, want]);
}

function pagesWanted(
  run: Run,
  isNewest: boolean,
  shown: ReadonlySet<string>,
  chosenRunId: string | undefined,
  chosenStep: number | undefined,
): Wanted[] {
  const isChosen = chosenRunId === undefined ? isNewest : run.id === chosenRunId;
  const chosenPage = isChosen && chosenStep !== undefined ? Math.floor((chosenStep - 1) / STEPS_OF_PAGE) : null;
  const last = pagesOf(run) - 1;
  return Array.from({ length: last + 1 }, (_, page) => ({ run, page })).filter(
    ({ page }) => shown.has(pageKey(run.id, page)) || page === chosenPage || (isNewest && page === last),
  );
}

const stepsQuery = (sessionId: string, { run, page }: Wanted) => ({
  queryKey: ['session', sessionId, 'steps', run.id, page],
  queryFn: ({ signal }: Readonly<{ signal: AbortSignal }>): Promise<StepPage> =>
    client.runs.steps(run.id, { after: page * STEPS_OF_PAGE, limit: STEPS_OF_PAGE, signal }),
  staleTime: hasEnded(run) ? Number.POSITIVE_INFINITY : 1_000,
  meta: { isLive: !hasEnded(run) && page === pagesOf(run) - 1 },
});

type Result = Readonly<{ data: StepPage | undefined; error: unknown; refetch: () => unknown }>;

function combine(results: readonly Result[]) {
  return {
    data: results.map(({ data }) => data),
    error: results.find(({ error, data }) => error !== null && data === undefined)?.error ?? null,
    retry: () => {
      for (const { error, refetch } of results) if (error !== null) refetch();
    },
  };
}
