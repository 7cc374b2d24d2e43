import type { ApiKey } from '@baton-run/server/client';
import { useInfiniteQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { client } from '../api.ts';
import { useNow } from '../clock.ts';
import { clipped } from '../format.ts';
import { useCaller, useMay } from '../layout/caller.ts';
import { LacksScope } from '../layout/reach.tsx';
import { Id } from '../ui/copy.tsx';
import { Empty, Failure, SkeletonRows } from '../ui/empty.tsx';
import { Page } from '../ui/page.tsx';
import { Time } from '../ui/time.tsx';
import { Wide } from '../ui/wide.tsx';

/** The keys of the tenant. They are made and revoked on the command line. */
export function KeysPage(): ReactNode {
  const mayAdmin = useMay('admin');
  const list = useInfiniteQuery({
    queryKey: ['keys'],
    queryFn: ({ pageParam, signal }) => client.keys({ cursor: pageParam, signal }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ nextCursor }) => nextCursor ?? undefined,
    enabled: mayAdmin,
  });
  const keys = list.data?.pages.flatMap((page) => page.keys) ?? [];
  return (
    <Page title="Keys">
      {!mayAdmin ? (
        <LacksScope scopes="admin" />
      ) : list.isPending ? (
        <SkeletonRows rows={6} height={32} />
      ) : list.isError && keys.length === 0 ? (
        <Failure error={list.error} retry={() => void list.refetch()} />
      ) : keys.length === 0 ? (
        <NoKeys />
      ) : (
        <Wide label="Keys" className="max-w-6xl p-3">
          <table className="table">
            <thead>
              <tr>
                <th>Name</th>
                <th>Key</th>
                <th>Scopes</th>
                <th>State</th>
                <th className="number">Last used</th>
                <th className="number">Created</th>
              </tr>
            </thead>
            <tbody>
              {keys.map((key) => (
                <KeyRow key={key.id} apiKey={key} />
              ))}
            </tbody>
          </table>
          {list.hasNextPage && (
            <button
              type="button"
              className="button small mt-3"
              disabled={list.isFetchingNextPage}
              onClick={() => void list.fetchNextPage()}
            >
              Older keys
            </button>
          )}
          <p className="pt-3 text-sm text-dim">
            <code className="font-mono">npm run keys -- create --name NAME</code> makes a key,{' '}
            <code className="font-mono">npm run keys -- revoke ID</code> revokes one: its next request is refused.
          </p>
        </Wide>
      )}
    </Page>
  );
}

function KeyRow({ apiKey }: Readonly<{ apiKey: ApiKey }>): ReactNode {
  const own = useCaller()?.keyId === apiKey.id;
  const { id, name, shown, scopes, createdAt, lastUsedAt } = apiKey;
  return (
    <tr>
      <td className="max-w-72 truncate" dir="auto" title={clipped(name, 300)}>
        {clipped(name, 200)} {own && <span className="text-dim">(yours)</span>}
      </td>
      <td>
        <span className="font-mono text-xs text-dim">{shown}…</span> <Id id={id} />
      </td>
      <td>{scopes.join(', ')}</td>
      <td>
        <KeyState apiKey={apiKey} />
      </td>
      <td className="number">
        {lastUsedAt === null ? <span className="text-dim">never</span> : <Time at={lastUsedAt} />}
      </td>
      <td className="number">
        <Time at={createdAt} />
      </td>
    </tr>
  );
}

function KeyState({ apiKey: { revokedAt, expiresAt } }: Readonly<{ apiKey: ApiKey }>): ReactNode {
  const nowMs = useNow();
  if (revokedAt !== null) {
    return (
      <span className="text-cancelled">
        revoked <Time at={revokedAt} />
      </span>
    );
  }
  if (expiresAt === null) return 'valid';
  const isExpired = Date.parse(expiresAt) <= nowMs;
  return (
    <span className={isExpired ? 'text-cancelled' : ''}>
      {isExpired ? 'expired' : 'expires'} <Time at={expiresAt} />
    </span>
  );
}

function NoKeys(): ReactNode {
  return (
    <Empty title="There is no key: the service takes requests from anybody who reaches it">
      <p>
        Baton listens on this machine alone until there is a key. As soon as there is one, every request needs a key,
        also from this console:
      </p>
      <pre className="plain rounded border border-line bg-panel px-3 py-2 text-ink">
        npm run keys -- create --name console --scopes read,write,admin,operator
      </pre>
    </Empty>
  );
}
