import type { NewWebhook, Webhook, WebhookEvent } from '@baton-run/server/client';
import { type ReactNode, useState } from 'react';
import { client } from '../api.ts';
import { useSendOnce } from '../send-once.ts';
import { CopyButton } from '../ui/copy.tsx';
import { AgentSelect, FormDialog, FormField, type Problems } from '../ui/form-dialog.tsx';
import { useAgentNames } from './agent-names.ts';
import { WebhookNotice } from './declared.tsx';

const NAMES = ['url', 'secret', 'events', 'agent'] as const;
const EVENTS: Readonly<Record<WebhookEvent, string>> = {
  'run:completed': 'completes',
  'run:failed': 'fails',
  'run:cancelled': 'is cancelled',
  'run:incomplete': 'ends incomplete',
  'run:requires-action': 'waits for a person or a client',
};
const ALL = Object.keys(EVENTS) as WebhookEvent[];

/** `secret`: empty for a webhook that keeps its own. `agent`: empty for all. */
type Fields = Readonly<{ url: string; secret: string; events: readonly WebhookEvent[]; agent: string }>;

type Props = Readonly<{ webhook: Webhook | null; close: () => void; saved: (webhook: Webhook) => void }>;

/** Makes a webhook (null), or changes one. */
export function WebhookForm({ webhook, close, saved }: Props): ReactNode {
  const [before] = useState<Fields>(() =>
    webhook === null
      ? { url: '', secret: newSecret(), events: ALL, agent: '' }
      : { url: webhook.url, secret: '', events: webhook.events, agent: webhook.agent ?? '' },
  );
  const [fields, set] = useState(before);
  const sendOnce = useSendOnce();
  const save = async (): Promise<void> => {
    if (webhook !== null) return saved(await client.webhooks.update(webhook.id, changesOf(before, fields)));
    const given = { ...fields, agent: agentOf(fields) };
    const create = (request: typeof given, idempotencyKey: string) =>
      client.webhooks.create(request, { idempotencyKey });
    saved(await sendOnce(JSON.stringify(given), given, create));
  };
  const change = (part: Partial<Fields>): void => set({ ...fields, ...part });
  return (
    <FormDialog
      title={webhook === null ? 'New webhook' : 'Change the webhook'}
      act={webhook === null ? 'Create' : 'Save'}
      fields={NAMES}
      submit={save}
      close={close}
    >
      {(problems) => (
        <>
          {webhook !== null && <WebhookNotice webhook={webhook} />}
          <FormField label="URL" problem={problems('url')}>
            {(control) => (
              <input
                {...control}
                className="field font-mono text-sm"
                spellCheck={false}
                placeholder="https://shop.example.com/baton"
                value={fields.url}
                onChange={(event) => change({ url: event.target.value })}
              />
            )}
          </FormField>
          <Secret isNew={webhook === null} fields={fields} change={change} problems={problems} />
          <Which fields={fields} change={change} problems={problems} />
        </>
      )}
    </FormDialog>
  );
}

const agentOf = ({ agent }: Fields): string | null => (agent === '' ? null : agent);

/** The changed fields alone: another person may have changed the others meanwhile. */
function changesOf(before: Fields, after: Fields): Partial<NewWebhook> {
  const changed = NAMES.filter((name) => after[name] !== before[name]);
  return Object.fromEntries(changed.map((name) => [name, name === 'agent' ? agentOf(after) : after[name]]));
}

const SECRET_BYTES = 32;

/** A random secret in the format of Standard Webhooks. */
function newSecret(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(SECRET_BYTES));
  return `whsec_${btoa(String.fromCharCode(...bytes))}`;
}

type PartProps = Readonly<{ fields: Fields; change: (part: Partial<Fields>) => void; problems: Problems }>;

const Secret = ({ isNew, fields, change, problems }: PartProps & Readonly<{ isNew: boolean }>): ReactNode => (
  <FormField
    label={isNew ? 'Secret' : 'New secret: empty keeps the present one'}
    problem={problems('secret')}
    hint="Signs each delivery. Give the secret to the receiver now: the service does not show it again."
  >
    {(control) => (
      <div className="flex items-center gap-1">
        <input
          {...control}
          className="field min-w-0 flex-1 font-mono text-sm"
          spellCheck={false}
          autoComplete="off"
          value={fields.secret}
          onChange={(event) => change({ secret: event.target.value })}
        />
        {fields.secret !== '' && <CopyButton text={fields.secret} label="Copy the secret" />}
        <button type="button" className="button small" onClick={() => change({ secret: newSecret() })}>
          Make one
        </button>
      </div>
    )}
  </FormField>
);

function Which({ fields, change, problems }: PartProps): ReactNode {
  const agents = useAgentNames();
  const problem = problems('events');
  const { events } = fields;
  return (
    <>
      <FormField label="Runs" problem={problems('agent')}>
        {(control) => (
          <AgentSelect
            control={control}
            none="All agents"
            names={agents}
            value={fields.agent}
            change={(agent) => change({ agent })}
          />
        )}
      </FormField>
      <fieldset className="flex flex-col gap-1">
        <legend className="mb-1">Deliver when a run</legend>
        {ALL.map((name) => (
          <label key={name} className="flex items-center gap-1.5">
            <input
              type="checkbox"
              checked={events.includes(name)}
              aria-invalid={problem !== undefined}
              onChange={({ target }) =>
                change({ events: ALL.filter((each) => (each === name ? target.checked : events.includes(each))) })
              }
            />
            {EVENTS[name]} <span className="font-mono text-xs text-dim">{name}</span>
          </label>
        ))}
        {problem !== undefined && (
          <p role="alert" className="text-failed wrap-anywhere">
            {problem}
          </p>
        )}
      </fieldset>
    </>
  );
}
