import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { client } from '../api.ts';
import { clipped } from '../format.ts';
import { useMay } from '../layout/caller.ts';
import { LacksScope } from '../layout/reach.tsx';
import { Id } from '../ui/copy.tsx';
import { Empty, Failure, SkeletonRows } from '../ui/empty.tsx';
import { Page } from '../ui/page.tsx';
import { Time } from '../ui/time.tsx';
import { Wide } from '../ui/wide.tsx';

const READ_AGAIN_AFTER_MS = 15_000;

/** Which key cancelled, answered, removed and deleted what, newest first. */
export function AuditPage(): ReactNode {
  const mayAdmin = useMay('admin');
  const log = useInfiniteQuery({
    queryKey: ['audit'],
    queryFn: ({ pageParam, signal }) => client.audit({ before: pageParam, signal }),
    initialPageParam: undefined as number | undefined,
    getNextPageParam: ({ next }) => next ?? undefined,
    enabled: mayAdmin,
    refetchInterval: READ_AGAIN_AFTER_MS,
  });
  const nameOf = useKeyNames(mayAdmin);
  const entries = log.data?.pages.flatMap((page) => page.entries) ?? [];
  return (
    <Page title="Audit">
      {!mayAdmin ? (
        <LacksScope scopes="admin" />
      ) : log.isPending ? (
        <SkeletonRows rows={12} height={32} />
      ) : log.isError && entries.length === 0 ? (
        <Failure error={log.error} retry={() => void log.refetch()} />
      ) : entries.length === 0 ? (
        <Empty title="Nothing has been cancelled, answered, removed or deleted yet">
          <p>
            Each such action stands here with the key that did it, and so does each change of keys and of the queues.
          </p>
        </Empty>
      ) : (
        <Wide label="Entries" className="max-w-6xl p-3">
          <table className="table">
            <thead>
              <tr>
                <th>When</th>
                <th>Who</th>
                <th>Did</th>
                <th>To what</th>
              </tr>
            </thead>
            <tbody>
              {entries.map(({ seq, action, target, keyId, createdAt }) => (
                <tr key={seq}>
                  <td>
                    <Time at={createdAt} />
                  </td>
                  <td className="max-w-60 truncate" dir="auto">
                    {keyId === null ? (
                      <span className="text-dim">command line, or no key</span>
                    ) : (
                      <>
                        {nameOf(keyId)} <Id id={keyId} chars={6} />
                      </>
                    )}
                  </td>
                  <td>{action.replace(':', ' ')}</td>
                  <td className="max-w-96 truncate font-mono text-xs" title={clipped(target, 500)}>
                    <Target target={target} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
          {log.hasNextPage && (
            <button
              type="button"
              className="button small mt-3"
              disabled={log.isFetchingNextPage}
              onClick={() => void log.fetchNextPage()}
            >
              Older entries
            </button>
          )}
        </Wide>
      )}
    </Page>
  );
}

/** A path with the session that it names as a link. */
function Target({ target }: Readonly<{ target: string }>): ReactNode {
  const sessionId = /\bses_[0-9a-f]{32}\b/.exec(target)?.[0];
  if (sessionId === undefined) return clipped(target, 200);
  return (
    <Link to="/sessions/$sessionId" params={{ sessionId }} className="text-accent underline underline-offset-2">
      {clipped(target, 200)}
    </Link>
  );
}

/** The names of the newest keys by their ids. */
function useKeyNames(isAllowed: boolean): (keyId: string) => string {
  const { data } = useQuery({
    queryKey: ['key-names'],
    queryFn: async ({ signal }) => (await client.keys.list({ limit: 100, signal })).keys,
    enabled: isAllowed,
    staleTime: 60_000,
  });
  const names = new Map((data ?? []).map(({ id, name }) => [id, clipped(name, 80)]));
  return (keyId) => names.get(keyId) ?? '';
}
