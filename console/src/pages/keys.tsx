import type { ApiKey } from '@baton-run/server/client';
import { useInfiniteQuery } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { client } from '../api.ts';
import { useNow } from '../clock.ts';
import { ACTIONS, useCommands } from '../commands.ts';
import { clipped } from '../format.ts';
import { useKeys } from '../keys.ts';
import { useCaller, useMay } from '../layout/caller.ts';
import { LacksScope } from '../layout/reach.tsx';
import { readLoginPlace } from '../login-place.ts';
import { notify } from '../notices.ts';
import { ActionButton } from '../ui/action-button.tsx';
import { Id } from '../ui/copy.tsx';
import { ActionDialog } from '../ui/dialog.tsx';
import { Empty, Failure, SkeletonRows } from '../ui/empty.tsx';
import { Page } from '../ui/page.tsx';
import { Time } from '../ui/time.tsx';
import { Wide } from '../ui/wide.tsx';
import { KeyForm, MadeKey } from './key-form.tsx';

/** The keys of the tenant: who has one, what it may, when it was used. */
export function KeysPage(): ReactNode {
  const mayAdmin = useMay('admin');
  const list = useInfiniteQuery({
    queryKey: ['keys'],
    queryFn: ({ pageParam, signal }) => client.keys.list({ cursor: pageParam, signal }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ nextCursor }) => nextCursor ?? undefined,
    enabled: mayAdmin,
  });
  const keys = list.data?.pages.flatMap((page) => page.keys) ?? [];
  const isFirst = list.isSuccess && keys.length === 0 && !readLoginPlace().isMounted;
  const form = useKeyForm(mayAdmin && list.isSuccess, isFirst);
  return (
    <Page title="API keys" tools={form.button}>
      {form.dialog}
      {!mayAdmin ? (
        <LacksScope scopes="admin" />
      ) : list.isPending ? (
        <SkeletonRows rows={6} height={32} />
      ) : list.isError && keys.length === 0 ? (
        <Failure error={list.error} retry={() => void list.refetch()} />
      ) : keys.length === 0 ? (
        <NoKeys isFirst={isFirst} />
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
                <th>
                  <span className="sr-only">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {keys.map((key) => (
                <KeyRow key={key.id} apiKey={key} again={() => void list.refetch()} />
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
          <p className="max-w-3xl pt-3 text-sm whitespace-normal text-dim">
            A revoked key is refused at once, with its logins and the tokens of sessions that it has made. A token
            cannot be revoked alone: the service does not store tokens. Each lasts at most a day.
          </p>
        </Wide>
      )}
    </Page>
  );
}

/** The form for a new key, and its secret afterwards, with the button, the key and the command that open it. */
function useKeyForm(isPossible: boolean, isFirst: boolean) {
  const [isOpen, setOpen] = useState(false);
  const [secret, setSecret] = useState<string | null>(null);
  const open = (): void => setOpen(true);
  useKeys('List', isPossible ? { n: ['New API key', open] } : {});
  useCommands(isPossible ? [{ group: ACTIONS, words: 'New API key', keys: 'n', run: open }] : []);
  const button = isPossible ? (
    <span className="ml-auto">
      <ActionButton run={open} keys="n">
        New key
      </ActionButton>
    </span>
  ) : null;
  const dialog =
    secret !== null ? (
      <MadeKey secret={secret} close={() => setSecret(null)} />
    ) : isOpen ? (
      <KeyForm isFirst={isFirst} close={() => setOpen(false)} made={setSecret} />
    ) : null;
  return { button, dialog };
}

function KeyRow({ apiKey, again }: Readonly<{ apiKey: ApiKey; again: () => void }>): ReactNode {
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
      <td className="number">{apiKey.revokedAt === null && <Revoke apiKey={apiKey} isOwn={own} again={again} />}</td>
    </tr>
  );
}

function Revoke({ apiKey, isOwn, again }: Readonly<{ apiKey: ApiKey; isOwn: boolean; again: () => void }>): ReactNode {
  const { id, name, shown, lastUsedAt } = apiKey;
  const [isAsked, ask] = useState(false);
  const revoke = async (): Promise<void> => {
    await client.keys.revoke(id);
    notify(`The key ${clipped(name, 60)} is revoked`);
    again();
  };
  return (
    <>
      <ActionButton
        look="danger"
        refused={isOwn ? 'You are logged in with this key: revoke it with another one' : undefined}
        run={() => ask(true)}
      >
        Revoke…
      </ActionButton>
      <ActionDialog
        isOpen={isAsked}
        close={() => ask(false)}
        title="Revoke the key?"
        act="Revoke"
        isDangerous
        run={revoke}
      >
        <p className="text-left whitespace-normal wrap-anywhere">
          <b className="font-semibold">{clipped(name, 120)}</b> <span className="font-mono text-xs">{shown}…</span>
        </p>
        <p className="text-left whitespace-normal">
          The next request with it is refused, and its logins and tokens end. It cannot be made valid again.{' '}
          {lastUsedAt === null ? (
            'It was never used.'
          ) : (
            <>
              It was last used <Time at={lastUsedAt} />.
            </>
          )}
        </p>
      </ActionDialog>
    </>
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

/** @param isFirst the service is open; else a program that has mounted it decides who calls */
function NoKeys({ isFirst }: Readonly<{ isFirst: boolean }>): ReactNode {
  if (!isFirst) {
    return (
      <Empty title="There is no key">
        <p>
          The program that serves this console decides who may call. A key lets a service or a person in besides its own
          login. Make one here, or in the program with
        </p>
        <pre className="plain rounded border border-line bg-panel px-3 py-2 text-ink">
          await baton.keys.create({'{'} name: 'NAME' {'}'})
        </pre>
      </Empty>
    );
  }
  return (
    <Empty title="There is no key: the service takes requests from anybody who reaches it">
      <p>
        Baton listens on this machine alone until there is a key. As soon as there is one, every request needs a key,
        also from this console. Make one here, or with
      </p>
      <pre className="plain rounded border border-line bg-panel px-3 py-2 text-ink">
        npm run keys -- create --name console --scopes read,write,admin,operator
      </pre>
    </Empty>
  );
}
