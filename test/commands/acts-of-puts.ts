import { putSchedule } from '../../src/commands/put-schedule.ts';
import { putWebhook } from '../../src/commands/put-webhook.ts';
import { readDeclarations } from '../../src/declarations/declarations.ts';
import { declare } from '../../src/declarations/declare.ts';
import { formatId } from '../../src/domain/ids.ts';
import { WEBHOOK_EVENTS } from '../../src/domain/webhooks/webhook.ts';
import { webhookPolicyOf } from '../../src/webhooks/check-webhook.ts';
import { type Act, type Cell, cli, client, type Do, NOWHERE } from './doors.ts';
import { ADMIN, making, QUIET, request } from './objects.ts';
import { ACTOR, type Place, WEBHOOK_SECRET, type World } from './world.ts';

const url = 'https://shop.example.com/';
const FIELDS = { url, secret: WEBHOOK_SECRET };
const ROW = { key: 'shop', ...FIELDS, events: [...WEBHOOK_EVENTS], agent_name: null, disabled_for: null };

const withoutKeyed = async ({ deps: { db } }: World): Promise<Place> => {
  await db.deleteFrom('webhooks').execute();
  await db.deleteFrom('schedules').execute();
  return NOWHERE;
};

const putShop: Do = async ({ deps }) => {
  const fields = { ...FIELDS, events: WEBHOOK_EVENTS, agent: null, declaredBy: null };
  const { row } = await putWebhook(deps, { actor: ACTOR, key: 'shop', ...fields });
  return { ...NOWHERE, objectId: formatId('webhook', row.id) };
};

const declaring = (lists: Parameters<typeof readDeclarations>[0]): Cell => ({
  act: async ({ deps }) => {
    await declare({ ...deps, webhookPolicy: webhookPolicyOf(deps.config) }, readDeclarations(lists));
    return undefined;
  },
});

export const putOfNewWebhook: Act = {
  name: 'puts a webhook that is new',
  file: 'put-webhook',
  leaves: { ...QUIET, audit: ['webhook:create /v1/webhooks/whk'], object: ROW },
  prepare: withoutKeyed,
  command: putShop,
  doors: {
    ...ADMIN,
    route: making(
      'webhook',
      request('PUT', () => '/v1/webhooks/key:shop', FIELDS),
    ),
    client: making(
      'webhook',
      client((baton) => baton.webhooks.put('shop', FIELDS)),
    ),
    cli: making(
      'webhook',
      cli(() => ['webhooks', 'put', 'shop', url]),
    ),
    declaration: making('webhook', declaring({ webhooks: [{ key: 'shop', ...FIELDS }] })),
  },
};

/** The webhook as a start has declared it, or as a request has put it. */
const putBefore =
  (put: Do): Act['prepare'] =>
  async (world) => {
    await withoutKeyed(world);
    return (await put(world, NOWHERE)) ?? NOWHERE;
  };

export const putOfEqualWebhook: Act = {
  ...putOfNewWebhook,
  name: 'puts a webhook that is equal',
  leaves: { ...QUIET, object: ROW },
  prepare: putBefore(putShop),
  doors: {
    ...putOfNewWebhook.doors,
    declaration: {
      ...putOfNewWebhook.doors.declaration,
      prepare: putBefore(making('webhook', declaring({ webhooks: [{ key: 'shop', ...FIELDS }] })).act),
    } as Cell,
  },
};

const SETTINGS = { agent: 'tester', cron: '0 0 1 1 *', content: 'Go' };
const COLUMNS = {
  ...{ agent_name: 'tester', cron: '0 0 1 1 *', content: 'Go', title: null, timezone: 'UTC', jitter_ms: 0 },
  ...({ session_kind: 'new', overlap: 'skip', catchup: 'none' } as const),
};
const SCHEDULE_ROW = { key: 'daily', agent_name: 'tester', cron: '0 0 1 1 *', content: 'Go', paused_reason: null };

const putDaily: Do = async ({ deps }) => {
  const { row } = await putSchedule(deps, { actor: ACTOR, key: 'daily', columns: COLUMNS, declaredBy: null });
  return { ...NOWHERE, objectId: formatId('schedule', row.id) };
};

export const putOfNewSchedule: Act = {
  name: 'puts a schedule that is new',
  file: 'put-schedule',
  leaves: { ...QUIET, audit: ['schedule:create /v1/schedules/sch'], object: SCHEDULE_ROW },
  prepare: withoutKeyed,
  command: putDaily,
  doors: {
    ...ADMIN,
    route: making(
      'schedule',
      request('PUT', () => '/v1/schedules/key:daily', SETTINGS),
    ),
    client: making(
      'schedule',
      client((baton) => baton.schedules.put('daily', SETTINGS)),
    ),
    cli: making(
      'schedule',
      cli(() => ['schedules', 'put', 'daily', 'tester', '0 0 1 1 *', 'Go']),
    ),
    declaration: making('schedule', declaring({ schedules: [{ key: 'daily', ...SETTINGS }] })),
  },
};

export const putOfEqualSchedule: Act = {
  ...putOfNewSchedule,
  name: 'puts a schedule that is equal',
  leaves: { ...QUIET, object: SCHEDULE_ROW },
  prepare: putBefore(putDaily),
  doors: {
    ...putOfNewSchedule.doors,
    declaration: {
      ...putOfNewSchedule.doors.declaration,
      prepare: putBefore(making('schedule', declaring({ schedules: [{ key: 'daily', ...SETTINGS }] })).act),
    } as Cell,
  },
};
