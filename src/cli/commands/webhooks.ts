import { z } from 'zod';
import type { BatonClient, Webhook, WebhookDelivery, WebhookEvent } from '../../client/client.ts';
import { EXIT, UsageError } from '../exit-codes.ts';
import { oneOf, REMOTE_USAGE, readRemote, takeArguments, writeJson, writeLine } from '../remote.ts';
import { oneLine } from '../terminal/words.ts';

const ACTIONS = ['list', 'create', 'put', 'enable', 'disable', 'delete', 'test', 'deliveries', 'redeliver'] as const;
type Action = (typeof ACTIONS)[number];

const EVENTS = [
  'run:completed',
  'run:failed',
  'run:cancelled',
  'run:incomplete',
  'run:requires-action',
] as const satisfies readonly WebhookEvent[];

export const usage = `baton webhooks [options] [list]
baton webhooks [options] create URL [--agent NAME] [--events ${EVENTS[0]},…]
baton webhooks [options] put KEY URL [--agent NAME] [--events ${EVENTS[0]},…]
baton webhooks [options] enable|disable|delete|test WEBHOOK
baton webhooks [options] deliveries [WEBHOOK]
baton webhooks [options] redeliver DELIVERY

Manages webhooks: URLs that are told of runs which end or wait. "put" creates or changes the webhook of a key; elsewhere
key:KEY stands for its id. BATON_WEBHOOK_SECRET holds the secret that signs
deliveries: whsec_ and Base64, or visible ASCII, of 24 to 64 bytes.

  --agent NAME      only runs of the agent's sessions
  --events LIST     only events of the list: ${EVENTS.join(', ')}
${REMOTE_USAGE}`;

type Options = Readonly<{ agent?: string | undefined; events?: string | undefined; secret: string | undefined }>;

export async function run(args: readonly string[], environment: NodeJS.ProcessEnv): Promise<number> {
  const { positionals, values, client, isJson } = readRemote(args, environment, {
    agent: { type: 'string' },
    events: { type: 'string' },
  });
  const [action = 'list', ...rest] = positionals;
  const options = { agent: values.agent, events: values.events, secret: environment['BATON_WEBHOOK_SECRET'] };
  const { value, lines } = await perform(client, oneOf('the action', ACTIONS, action), rest, options);
  if (isJson) writeJson(value);
  else for (const line of lines) writeLine(line);
  return EXIT.done;
}

type Outcome = Readonly<{ value: unknown; lines: readonly string[] }>;

async function perform(
  client: BatonClient,
  action: Action,
  rest: readonly string[],
  options: Options,
): Promise<Outcome> {
  const { webhooks } = client;
  switch (action) {
    case 'list': {
      takeArguments(rest);
      const page = await webhooks.list();
      const lines = page.webhooks.map(describe);
      return { value: page, lines: lines.length === 0 ? ['There are no webhooks.'] : lines };
    }
    case 'create':
      return one(await webhooks.create({ ...readNew(options), url: takeArguments(rest, 'url').url }));
    case 'put': {
      const { key, url } = takeArguments(rest, 'key', 'url');
      return one(await webhooks.put(key, { ...readFields(options), url, secret: options.secret || undefined }));
    }
    case 'enable':
    case 'disable': {
      const enabled = action === 'enable';
      return one(await webhooks.update(takeArguments(rest, 'webhook').webhook, { enabled }));
    }
    case 'delete': {
      const { webhook } = takeArguments(rest, 'webhook');
      await webhooks.delete(webhook);
      return { value: { id: webhook }, lines: [`${webhook} is deleted.`] };
    }
    case 'test':
      return oneDelivery(await webhooks.test(takeArguments(rest, 'webhook').webhook));
    case 'deliveries': {
      const webhookId = rest.length === 0 ? undefined : takeArguments(rest, 'webhook').webhook;
      const page = await webhooks.deliveries({ webhookId });
      const lines = page.deliveries.map(describeDelivery);
      return { value: page, lines: lines.length === 0 ? ['Nothing was sent.'] : lines };
    }
    case 'redeliver':
      return oneDelivery(await webhooks.redeliver(takeArguments(rest, 'delivery').delivery));
  }
}

/** @throws UsageError without a secret, or for an unknown event */
function readNew({ secret, ...options }: Options) {
  if (secret === undefined || secret === '') throw new UsageError('BATON_WEBHOOK_SECRET is not set.');
  return { ...readFields(options), secret };
}

/** @throws UsageError for an unknown event */
function readFields({ agent, events }: Pick<Options, 'agent' | 'events'>) {
  const listed = z.array(z.enum(EVENTS)).safeParse(events?.split(',') ?? [...EVENTS]);
  if (!listed.success) throw new UsageError(`--events takes some of ${EVENTS.join(', ')}, with commas between them.`);
  return { events: listed.data, agent: agent ?? null };
}

const one = (webhook: Webhook): Outcome => ({ value: webhook, lines: [describe(webhook)] });
const oneDelivery = (delivery: WebhookDelivery): Outcome => ({ value: delivery, lines: [describeDelivery(delivery)] });

function describe({ id, key, url, events, agent, disabledFor, failingSince }: Webhook): string {
  const failing = failingSince === null ? 'enabled' : `failing since ${failingSince.slice(0, 16)}Z`;
  const state = disabledFor === null ? failing : `disabled (${disabledFor})`;
  const what = events.length === EVENTS.length ? 'all events' : events.join(',');
  const name = key === null ? [] : [`key:${oneLine(key, 60)}`];
  return [id, ...name, state, agent ?? 'all agents', what, oneLine(url, 120)].join('  ');
}

function describeDelivery(delivery: WebhookDelivery): string {
  const { id, type, state, attempts, status, error, nextAttemptAt, createdAt } = delivery;
  const answer = error ?? (status === null ? '' : `HTTP ${status}`);
  const next = nextAttemptAt === null ? '' : `next ${nextAttemptAt.slice(0, 19)}Z`;
  const facts = [id, `${createdAt.slice(0, 16)}Z`, type, state, `${attempts} tried`, oneLine(answer, 80), next];
  return facts.filter((fact) => fact !== '').join('  ');
}
