import { type InfiniteData, type QueryClient, useInfiniteQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useMemo, useRef } from 'react';
import { type Change, onActivity } from '../layout/activity.ts';

const PAGE_SIZE = 50;
const MAX_READ_AGAIN = 50;

type ListRow = Readonly<{ id: string; createdAt: string }>;
type Page<Row> = Readonly<{ rows: readonly Row[]; nextCursor: string | null }>;
type PageRequest = Readonly<{ limit: number; cursor?: string | undefined; signal?: AbortSignal }>;

export type ListSource<Row extends ListRow> = Readonly<{
  /** Of the cache. The filter is its last part. */
  key: readonly [name: string, kind: string, filter: object];
  /** Newest first. */
  read: (request: PageRequest) => Promise<Page<Row>>;
  /** Null: the rows have no activity, and the list is read again every few seconds. */
  live: Readonly<{
    changed: (change: Exclude<Change, 'all'>) => readonly string[];
    readAgain: (ids: readonly string[]) => Promise<readonly Row[]>;
    /** The new row with those fields of the old one that only the list gives. Absent: there are none. */
    keep?: (before: Row, now: Row) => Row;
  }> | null;
  enabled?: boolean;
}>;

const READ_AGAIN_AFTER_MS = 5_000;

/** A list page by page. Rows are read again when their state has changed. */
export function useLiveList<Row extends ListRow>(source: ListSource<Row>) {
  const cache = useQueryClient();
  const { key, live, enabled = true } = source;
  const query = useInfiniteQuery({
    queryKey: key,
    queryFn: ({ pageParam, signal }) => source.read({ limit: PAGE_SIZE, cursor: pageParam, signal }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ nextCursor }) => nextCursor ?? undefined,
    staleTime: 10_000,
    // All pages at once would be much for a long list: rows are renewed one by one below.
    refetchOnWindowFocus: false,
    refetchInterval: live === null ? READ_AGAIN_AFTER_MS : false,
    enabled,
  });
  const current = useRef(source);
  current.current = source;
  const name = JSON.stringify(key);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the name stands for the key.
  useEffect(() => {
    if (!enabled) return;
    return onActivity((change) => {
      if (change === 'all') return void cache.invalidateQueries({ queryKey: current.current.key });
      // The next change tries again.
      renewRows(cache, current.current, change).catch(() => undefined);
    });
  }, [cache, name, enabled]);
  const rows = useMemo(() => query.data?.pages.flatMap((page) => page.rows) ?? [], [query.data]);
  return { ...query, rows };
}

type Pages<Row> = InfiniteData<Page<Row>>;

/** Reads those of the listed rows again that have changed. */
async function renewRows<Row extends ListRow>(
  cache: QueryClient,
  source: ListSource<Row>,
  change: Exclude<Change, 'all'>,
): Promise<void> {
  const { key, live } = source;
  const data = cache.getQueryData<Pages<Row>>(key);
  if (data === undefined || live === null) return;
  const known = new Set(data.pages.flatMap(({ rows }) => rows.map(({ id }) => id)));
  const changed = live.changed(change);
  const isFiltered = Object.keys(key[2]).length > 0;
  // A row that is new, or that a filter may let in or out now, changes the first page.
  if (isFiltered || changed.some((id) => !known.has(id))) await renewFirstPage(cache, source);
  const ids = changed.filter((id) => known.has(id)).slice(0, MAX_READ_AGAIN);
  if (ids.length === 0) return;
  const read = new Map((await live.readAgain(ids)).map((row) => [row.id, row]));
  const renewed = (row: Row): Row => {
    const now = read.get(row.id);
    return now === undefined ? row : (live.keep?.(row, now) ?? now);
  };
  cache.setQueryData<Pages<Row>>(key, (before) =>
    before === undefined
      ? before
      : {
          ...before,
          pages: before.pages.map((page) => ({ ...page, rows: page.rows.map(renewed) })),
        },
  );
}

async function renewFirstPage<Row extends ListRow>(cache: QueryClient, { key, read }: ListSource<Row>): Promise<void> {
  const { rows, nextCursor } = await read({ limit: PAGE_SIZE });
  cache.setQueryData<Pages<Row>>(key, (data) => {
    const [first, ...others] = data?.pages ?? [];
    if (data === undefined || first === undefined) return data;
    if (nextCursor === null) return { pages: [{ rows, nextCursor }], pageParams: [undefined] };
    const fresh = new Set(rows.map(({ id }) => id));
    const oldest = rows.at(-1)?.createdAt ?? '';
    const older = first.rows.filter(({ id, createdAt }) => !fresh.has(id) && createdAt <= oldest);
    return { ...data, pages: [{ ...first, rows: [...rows, ...older] }, ...others] };
  });
}
