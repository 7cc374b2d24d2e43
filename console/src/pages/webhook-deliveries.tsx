import type { WebhookDelivery } from '@baton-run/server/client';
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { act } from '../act.ts';
import { client } from '../api.ts';
import { clipped, count, duration, plural } from '../format.ts';
import { useRefusal } from '../layout/caller.ts';
import { LongText } from '../session/long-text.tsx';
import { ActionButton } from '../ui/action-button.tsx';
import { Dialog } from '../ui/dialog.tsx';
import { Failure, SkeletonRows } from '../ui/empty.tsx';
import { SessionLink } from '../ui/session-link.tsx';
import { State } from '../ui/state.tsx';
import { Time } from '../ui/time.tsx';
import { Wide } from '../ui/wide.tsx';

const READ_AGAIN_AFTER_MS = 5_000;

/** Lists the deliveries to one webhook or to all, newest first. A person can read the body of each, and send it again. */
export function Deliveries({ webhookId }: Readonly<{ webhookId?: string }>): ReactNode {
  const list = useInfiniteQuery({
    queryKey: ['deliveries', webhookId ?? 'all'],
    queryFn: ({ pageParam, signal }) => client.webhooks.deliveries({ webhookId, cursor: pageParam, limit: 50, signal }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ nextCursor }) => nextCursor ?? undefined,
    refetchInterval: READ_AGAIN_AFTER_MS,
  });
  const deliveries = list.data?.pages.flatMap((page) => page.deliveries) ?? [];
  if (list.isPending) return <SkeletonRows rows={4} height={32} />;
  if (list.isError && deliveries.length === 0) return <Failure error={list.error} retry={() => void list.refetch()} />;
  if (deliveries.length === 0)
    return (
      <p className="text-dim">
        Nothing has been sent yet.{' '}
        {webhookId === undefined ? 'Open a webhook and test it.' : 'Test it, or begin a run.'}
      </p>
    );
  return (
    <Wide label="Deliveries">
      <table className="table">
        <thead>
          <tr>
            <th>Event</th>
            <th>State</th>
            <th>Answer</th>
            <th className="number">Attempts</th>
            <th className="number">Took</th>
            <th>Session</th>
            <th className="number">Created</th>
            <th>
              <span className="sr-only">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {deliveries.map((delivery) => (
            <DeliveryRow key={delivery.id} delivery={delivery} again={() => void list.refetch()} />
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
          Older deliveries
        </button>
      )}
    </Wide>
  );
}

const STATES: Readonly<Record<WebhookDelivery['state'], string>> = {
  waiting: 'waiting',
  sending: 'running',
  delivered: 'completed',
  failed: 'failed',
};

type RowProps = Readonly<{ delivery: WebhookDelivery; again: () => void }>;

function DeliveryRow({ delivery, again }: RowProps): ReactNode {
  const { id, type, state, status, error, attempts, nextAttemptAt, tookMs, sessionId, createdAt, url } = delivery;
  const refused = useRefusal('write');
  const [isShown, show] = useState(false);
  const answer = status === null ? (error ?? '') : String(status);
  const isOpen = state === 'waiting' || state === 'sending';
  return (
    <tr>
      <td title={url === null ? id : `${id}\n${clipped(url, 500)}`}>{type}</td>
      <td>
        <State state={STATES[state]}>{state}</State>
        {nextAttemptAt !== null && attempts > 0 && (
          <span className="ml-2 text-sm text-dim">
            again <Time at={nextAttemptAt} />
          </span>
        )}
      </td>
      <td className="max-w-72 truncate text-dim" title={clipped(error ?? answer, 1_000)} dir="auto">
        {clipped(answer, 200)}
      </td>
      <td className="number" title={plural(attempts, 'attempt')}>
        {count(attempts)}
      </td>
      <td className="number">{tookMs === null ? '' : duration(tookMs)}</td>
      <td>{sessionId === null ? '' : <SessionLink id={sessionId} />}</td>
      <td className="number">
        <Time at={createdAt} />
      </td>
      <td className="number">
        <span className="inline-flex gap-1">
          <ActionButton run={() => show(true)} title="Show the body that was sent">
            Body
          </ActionButton>
          <ActionButton
            refused={refused ?? (isOpen ? 'The delivery is still being sent' : undefined)}
            title="Send the delivery again, with the same id and the same bytes"
            run={() => void act(async () => `Sent again: ${(await client.webhooks.redeliver(id)).id}`).then(again)}
          >
            Send again
          </ActionButton>
        </span>
        <Dialog isOpen={isShown} close={() => show(false)} title={`${type} ${id}`} width="max-w-3xl">
          {isShown && <Body id={id} />}
        </Dialog>
      </td>
    </tr>
  );
}

function Body({ id }: Readonly<{ id: string }>): ReactNode {
  const { data, error, refetch } = useQuery({
    queryKey: ['delivery', id],
    queryFn: ({ signal }) => client.webhooks.delivery(id, { signal }),
  });
  if (error !== null) return <Failure error={error} retry={() => void refetch()} />;
  if (data === undefined) return <p className="text-dim">Reading…</p>;
  return <LongText text={data.body} />;
}
