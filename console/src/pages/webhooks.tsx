import type { Webhook } from '@baton-run/server/client';
import { useQuery } from '@tanstack/react-query';
import { useNavigate, useSearch } from '@tanstack/react-router';
import { ChevronDown, ChevronRight } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import { act } from '../act.ts';
import { client } from '../api.ts';
import { clipped } from '../format.ts';
import { useMay, useRefusal } from '../layout/caller.ts';
import { LacksScope } from '../layout/reach.tsx';
import { ActionButton } from '../ui/action-button.tsx';
import { ActionDialog } from '../ui/dialog.tsx';
import { Empty, Failure, SkeletonRows } from '../ui/empty.tsx';
import { Page } from '../ui/page.tsx';
import { State } from '../ui/state.tsx';
import { Time } from '../ui/time.tsx';
import { NameLine, WebhookNotice } from './declared.tsx';
import { useForms } from './use-forms.tsx';
import { Deliveries } from './webhook-deliveries.tsx';
import { WebhookForm } from './webhook-form.tsx';

const READ_AGAIN_AFTER_MS = 10_000;

/** The webhooks to which the service reports runs, and the deliveries of these reports. */
export function WebhooksPage(): ReactNode {
  const mayRead = useMay('read');
  const { open } = useSearch({ from: '/webhooks' });
  const navigate = useNavigate({ from: '/webhooks' });
  const list = useQuery({
    queryKey: ['webhooks'],
    queryFn: ({ signal }) => client.webhooks.list({ signal }),
    enabled: mayRead,
    refetchInterval: READ_AGAIN_AFTER_MS,
  });
  const webhooks = list.data?.webhooks ?? [];
  const form = useWebhookForm(
    webhooks.find(({ id }) => id === open),
    (saved) => {
      void navigate({ search: { open: saved.id }, replace: true });
      void list.refetch();
    },
  );
  if (!mayRead) return <LacksScope scopes="read" />;
  return (
    <Page title="Webhooks" tools={form.create}>
      {form.dialog}
      {list.isPending ? (
        <SkeletonRows rows={6} height={56} />
      ) : list.isError && list.data === undefined ? (
        <Failure error={list.error} retry={() => void list.refetch()} />
      ) : (
        <>
          {webhooks.length === 0 ? (
            <Empty title="There is no webhook">
              <p>A webhook tells another service when a run ends or waits. Make one here, or with</p>
              <code className="plain rounded border border-line bg-panel p-2">
                BATON_WEBHOOK_SECRET=whsec_… npm run -s baton -- webhooks create URL
              </code>
            </Empty>
          ) : (
            <ul>
              {webhooks.map((webhook) => (
                <WebhookItem
                  key={webhook.id}
                  webhook={webhook}
                  isOpen={webhook.id === open}
                  toggle={() =>
                    void navigate({ search: webhook.id === open ? {} : { open: webhook.id }, replace: true })
                  }
                  edit={form.edit}
                  again={() => void list.refetch()}
                  removed={() => {
                    void navigate({ search: {}, replace: true });
                    void list.refetch();
                  }}
                />
              ))}
            </ul>
          )}
          {open === undefined && (
            <section className="p-3">
              <h2 className="mb-1">Deliveries of all webhooks, and of those of messages</h2>
              <Deliveries />
            </section>
          )}
        </>
      )}
    </Page>
  );
}

/** The form for a new webhook and for the unfolded one, with the button, the keys and the commands that open it. */
function useWebhookForm(opened: Webhook | undefined, saved: (webhook: Webhook) => void) {
  const [form, show] = useState<Readonly<{ of: Webhook | null }> | null>(null);
  const { create, edit } = useForms({
    noun: 'webhook',
    opened: opened === undefined ? undefined : clipped(opened.url, 60),
    create: () => show({ of: null }),
    edit: () => opened !== undefined && show({ of: opened }),
  });
  const close = (): void => show(null);
  const dialog = form === null ? null : <WebhookForm webhook={form.of} close={close} saved={saved} />;
  return { create, edit, dialog };
}

type ItemProps = Readonly<{
  webhook: Webhook;
  isOpen: boolean;
  toggle: () => void;
  /** Shows the form of the unfolded webhook; undefined: the key of the page may not change it. */
  edit: (() => void) | undefined;
  again: () => void;
  removed: () => void;
}>;

function WebhookItem({ webhook, isOpen, toggle, edit, again, removed }: ItemProps): ReactNode {
  const { id, url, events, agent, failingSince } = webhook;
  const Chevron = isOpen ? ChevronDown : ChevronRight;
  return (
    <li className="border-b border-line">
      <button
        type="button"
        aria-expanded={isOpen}
        className={`flex w-full flex-wrap items-center gap-x-4 gap-y-1 px-3 py-2 text-left hover:bg-hover ${isOpen ? 'bg-chosen' : ''}`}
        onClick={toggle}
      >
        <Chevron size={14} className="flex-none text-dim" aria-hidden="true" />
        <span className="flex min-w-0 basis-72 grow flex-col">
          <span className="truncate font-mono text-sm" title={clipped(url, 500)}>
            {clipped(url, 200)}
          </span>
          <span className="truncate text-sm text-dim">
            {agent === null ? 'runs of all agents' : `runs of ${clipped(agent, 100)}`} · {events.join(', ')}
          </span>
          <NameLine named={webhook} />
        </span>
        <span className="flex flex-none flex-col items-end text-sm max-sm:pl-7.5">
          <StateOf webhook={webhook} />
          {failingSince !== null && (
            <span className="text-dim">
              failing since <Time at={failingSince} />
            </span>
          )}
        </span>
      </button>
      {isOpen && (
        <div className="flex flex-col gap-3 bg-panel px-3 py-3">
          <Actions webhook={webhook} edit={edit} again={again} removed={removed} />
          <WebhookNotice webhook={webhook} />
          <Deliveries webhookId={id} />
        </div>
      )}
    </li>
  );
}

const DISABLED: Readonly<Record<NonNullable<Webhook['disabledFor']>, string>> = {
  request: 'disabled',
  gone: 'disabled: its receiver said that it is gone',
  failing: 'disabled: every attempt of three days failed',
  undeclared: 'disabled: no longer declared',
};

const StateOf = ({ webhook: { enabled, disabledFor, failingSince } }: Readonly<{ webhook: Webhook }>): ReactNode =>
  enabled ? (
    <State state={failingSince === null ? 'alive' : 'retried'}>{failingSince === null ? 'enabled' : 'failing'}</State>
  ) : (
    <State state={disabledFor === 'request' ? 'cancelled' : 'failed'}>{DISABLED[disabledFor ?? 'request']}</State>
  );

type ActionProps = Pick<ItemProps, 'webhook' | 'edit' | 'again' | 'removed'>;

function Actions({ webhook, edit, again, removed }: ActionProps): ReactNode {
  const { id, url, enabled } = webhook;
  const refused = useRefusal('write');
  const [isAsked, ask] = useState(false);
  const toggle = async (): Promise<string> => {
    await client.webhooks.update(id, { enabled: !enabled });
    return enabled ? 'Disabled: what still waited is given up' : 'Enabled';
  };
  const test = async (): Promise<string> => `Sent as ${(await client.webhooks.test(id)).id}`;
  return (
    <div className="flex flex-wrap gap-2">
      <ActionButton
        refused={refused ?? (enabled ? undefined : 'It is disabled')}
        title="Send a delivery of the type webhook:test"
        run={() => void act(test).then(again)}
      >
        Test
      </ActionButton>
      <ActionButton refused={refused} run={() => void act(toggle).then(again)}>
        {enabled ? 'Disable' : 'Enable'}
      </ActionButton>
      {edit !== undefined && (
        <ActionButton run={edit} keys="e">
          Change…
        </ActionButton>
      )}
      <ActionButton refused={refused} look="danger" run={() => ask(true)}>
        Delete…
      </ActionButton>
      <ActionDialog
        isOpen={isAsked}
        close={() => ask(false)}
        title="Delete the webhook?"
        act="Delete"
        isDangerous
        run={() => client.webhooks.delete(id).then(removed)}
      >
        <p className="font-mono text-sm wrap-anywhere">{clipped(url, 300)}</p>
        <p>The deliveries of the webhook are deleted, too.</p>
        <WebhookNotice webhook={webhook} />
      </ActionDialog>
    </div>
  );
}
