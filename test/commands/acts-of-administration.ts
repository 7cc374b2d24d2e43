import {
  changeSchedule,
  createScheduleIn,
  deleteSchedule,
  setSchedulePaused,
} from '../../src/commands/change-schedule.ts';
import { changeSession, deleteSession } from '../../src/commands/change-session.ts';
import { changeWebhook, createWebhookIn, deleteWebhook } from '../../src/commands/change-webhook.ts';
import { afterFire, fireScheduleNowIn } from '../../src/commands/fire-schedule.ts';
import { issueSessionToken } from '../../src/commands/issue-token.ts';
import { redeliverDelivery, testWebhook } from '../../src/commands/send-delivery.ts';
import { parseId } from '../../src/domain/ids.ts';
import { WEBHOOK_EVENTS } from '../../src/domain/webhooks/webhook.ts';
import { inTransaction } from '../../src/store/db/database.ts';
import { type Act, type Cell, cli, client, type Do, NOWHERE, ONLY_SENDS, placeOf, ses } from './doors.ts';
import { ADMIN, made, making, NO_COMMAND, object, QUIET, request } from './objects.ts';
import { ACTOR, idleSession, newestSession, newSession, type Place, WEBHOOK_SECRET, type World } from './world.ts';

const nowhere = async (): Promise<Place> => NOWHERE;

const named = async (world: World): Promise<Place> => {
  const place = await idleSession(world);
  return { ...place, objectId: ses(place) };
};

export const updateOfSession: Act = {
  name: 'changes a session',
  file: 'change-session',
  leaves: { ...QUIET, audit: ['session:update /v1/sessions/ses'], object: { title: 'Order 7', metadata: {} } },
  prepare: named,
  command: async ({ deps }, { sessionId }) => {
    const change = { title: 'Order 7', metadata: undefined, expiresAt: undefined };
    await changeSession(deps, { actor: ACTOR, sessionId }, change);
  },
  doors: {
    ...{ ...ADMIN, cli: NO_COMMAND },
    route: request('PATCH', (place) => `/v1/sessions/${ses(place)}`, { title: 'Order 7' }),
    client: client((baton, place) => baton.sessions.update(ses(place), { title: 'Order 7' })),
  },
};

/** A session that has a key of its own, by which doors name it. */
const keyed = async (world: World): Promise<Place> => {
  const session = { ...newSession(world.deps), externalKey: world.deps.newId() };
  const { sessions } = world.baton.client;
  const { id } = await sessions.create({ agent: session.agentName, key: session.externalKey });
  return { ...NOWHERE, sessionId: parseId('session', id) ?? '', callId: `key:${session.externalKey}`, objectId: id };
};

export const updateByKey: Act = {
  ...updateOfSession,
  name: 'changes a session that it names by its key',
  prepare: keyed,
  doors: {
    ...updateOfSession.doors,
    route: request('PATCH', (place) => `/v1/sessions/${place.callId}`, { title: 'Order 7' }),
    client: client((baton, place) => baton.sessions.update(place.callId, { title: 'Order 7' })),
  },
};

export const deleteOfSession: Act = {
  name: 'deletes a session',
  file: 'change-session',
  leaves: { ...QUIET, audit: ['session:delete /v1/sessions/ses'], object: 'gone' },
  prepare: named,
  command: async ({ deps }, { sessionId }) => deleteSession(deps, { actor: ACTOR, sessionId }).then(() => undefined),
  doors: {
    ...{ ...ADMIN, cli: NO_COMMAND },
    route: request('DELETE', (place) => `/v1/sessions/${ses(place)}`),
    client: client((baton, place) => baton.sessions.delete(ses(place))),
  },
};

export const token: Act = {
  name: 'makes a token of a session',
  file: 'issue-token',
  leaves: { ...QUIET, audit: ['session:token /v1/sessions/ses/tokens'] },
  prepare: async (world) => ({ ...(await keyed(world)), objectId: undefined }),
  command: async ({ deps }, { sessionId }) => {
    const grant = { limits: {}, allow: [] };
    await issueSessionToken(deps, {
      actor: ACTOR,
      sessionId,
      canWrite: false,
      grant,
      expiresAtMs: Date.now() + 60_000,
    });
  },
  doors: {
    ...{ ...ADMIN, cli: NO_COMMAND },
    route: request('POST', (place) => `/v1/sessions/${place.callId}/tokens`, {}),
    client: client((baton, place) => baton.sessions.createToken(ses(place))),
  },
};

const URL_OF_SHOP = 'https://shop.example.com/';
const WEBHOOK = { url: URL_OF_SHOP, secret: WEBHOOK_SECRET, events: [...WEBHOOK_EVENTS], agent: null };
const WEBHOOK_ROW = {
  key: null,
  ...{ url: URL_OF_SHOP, secret: WEBHOOK_SECRET, events: [...WEBHOOK_EVENTS] },
  ...{ agent_name: null, disabled_for: null },
};
const newWebhook = ({ deps }: World) =>
  inTransaction(deps.db, (tx) => createWebhookIn(tx, deps, { actor: ACTOR, ...WEBHOOK }));
const webhook = made('webhook', newWebhook);
const webhookId = ({ objectId = '' }: Place): string => parseId('webhook', objectId) ?? '';

export const createOfWebhook: Act = {
  name: 'creates a webhook',
  file: 'change-webhook',
  leaves: { ...QUIET, audit: ['webhook:create /v1/webhooks/whk'], object: WEBHOOK_ROW },
  prepare: nowhere,
  command: async (world) => webhook(world),
  doors: {
    ...ADMIN,
    route: making(
      'webhook',
      request('POST', () => '/v1/webhooks', { url: URL_OF_SHOP, secret: WEBHOOK_SECRET }),
    ),
    client: making(
      'webhook',
      client((baton) => baton.webhooks.create({ url: URL_OF_SHOP, secret: WEBHOOK_SECRET })),
    ),
    cli: making(
      'webhook',
      cli(() => ['webhooks', 'create', URL_OF_SHOP]),
    ),
  },
};

export const disableOfWebhook: Act = {
  name: 'disables a webhook',
  file: 'change-webhook',
  leaves: { ...QUIET, audit: ['webhook:update /v1/webhooks/whk'], object: { ...WEBHOOK_ROW, disabled_for: 'request' } },
  prepare: webhook,
  command: async ({ deps }, place) =>
    void (await changeWebhook(deps, { actor: ACTOR, webhookId: webhookId(place) }, { enabled: false })),
  doors: {
    ...ADMIN,
    route: request('PATCH', (place) => `/v1/webhooks/${object(place)}`, { enabled: false }),
    client: client((baton, place) => baton.webhooks.update(object(place), { enabled: false })),
    cli: cli((place) => ['webhooks', 'disable', object(place)]),
  },
};

export const deleteOfWebhook: Act = {
  name: 'deletes a webhook',
  file: 'change-webhook',
  leaves: { ...QUIET, audit: ['webhook:delete /v1/webhooks/whk'], object: 'gone' },
  prepare: webhook,
  command: async ({ deps }, place) =>
    deleteWebhook(deps, { actor: ACTOR, webhookId: webhookId(place) }).then(() => undefined),
  doors: {
    ...ADMIN,
    route: request('DELETE', (place) => `/v1/webhooks/${object(place)}`),
    client: client((baton, place) => baton.webhooks.delete(object(place))),
    cli: cli((place) => ['webhooks', 'delete', object(place)]),
  },
};

export const testOfWebhook: Act = {
  name: 'tests a webhook',
  file: 'send-delivery',
  leaves: { ...QUIET, audit: ['webhook:test /v1/webhooks/whk/test'], object: WEBHOOK_ROW },
  prepare: webhook,
  command: async ({ deps }, place) => void (await testWebhook(deps, { actor: ACTOR, webhookId: webhookId(place) })),
  doors: {
    ...ADMIN,
    route: request('POST', (place) => `/v1/webhooks/${object(place)}/test`),
    client: client((baton, place) => baton.webhooks.test(object(place))),
    cli: cli((place) => ['webhooks', 'test', object(place)]),
  },
};

export const redelivery: Act = {
  name: 'sends a delivery again',
  file: 'send-delivery',
  leaves: {
    ...{ ...QUIET, audit: ['webhook:redeliver /v1/webhook-deliveries/dlv/redeliver'] },
    object: { type: 'webhook:test', state: 'waiting' },
  },
  prepare: made('delivery', async (world) => {
    const { id } = await testWebhook(world.deps, { actor: ACTOR, webhookId: (await newWebhook(world)).id });
    await world.deps.db.updateTable('webhook_deliveries').set({ state: 'failed' }).where('id', '=', id).execute();
    return { id };
  }),
  command: async ({ deps }, { objectId = '' }) =>
    void (await redeliverDelivery(deps, { actor: ACTOR, deliveryId: parseId('delivery', objectId) ?? '' })),
  doors: {
    ...ADMIN,
    route: request('POST', (place) => `/v1/webhook-deliveries/${object(place)}/redeliver`),
    client: client((baton, place) => baton.webhooks.redeliver(object(place))),
    cli: cli((place) => ['webhooks', 'redeliver', object(place)]),
  },
};

const SCHEDULE = { agent: 'tester', cron: '0 0 1 1 *', content: 'Go' };
const COLUMNS = {
  ...{ agent_name: 'tester', cron: '0 0 1 1 *', content: 'Go', title: null, timezone: 'UTC', jitter_ms: 0 },
  ...({ session_kind: 'new', overlap: 'skip', catchup: 'none' } as const),
};
const SCHEDULE_ROW = { key: null, agent_name: 'tester', cron: '0 0 1 1 *', content: 'Go', paused_reason: null };
const newSchedule = ({ deps }: World) =>
  inTransaction(deps.db, (tx) => createScheduleIn(tx, deps, { actor: ACTOR, columns: COLUMNS }));
const schedule = made('schedule', newSchedule);
const ofSchedule = ({ objectId = '' }: Place) => ({ actor: ACTOR, scheduleId: parseId('schedule', objectId) ?? '' });

export const createOfSchedule: Act = {
  name: 'creates a schedule',
  file: 'change-schedule',
  leaves: { ...QUIET, audit: ['schedule:create /v1/schedules/sch'], object: SCHEDULE_ROW },
  prepare: nowhere,
  command: async (world) => schedule(world),
  doors: {
    ...ADMIN,
    route: making(
      'schedule',
      request('POST', () => '/v1/schedules', SCHEDULE),
    ),
    client: making(
      'schedule',
      client((baton) => baton.schedules.create(SCHEDULE)),
    ),
    cli: making(
      'schedule',
      cli(() => ['schedules', 'create', 'tester', '0 0 1 1 *', 'Go']),
    ),
  },
};

export const updateOfSchedule: Act = {
  name: 'changes a schedule',
  file: 'change-schedule',
  leaves: { ...QUIET, audit: ['schedule:update /v1/schedules/sch'], object: { ...SCHEDULE_ROW, content: 'Stay' } },
  prepare: schedule,
  command: async ({ deps }, place) =>
    void (await changeSchedule(deps, ofSchedule(place), async () => ({ ...COLUMNS, content: 'Stay' }))),
  doors: {
    ...{ ...ADMIN, cli: NO_COMMAND },
    route: request('PATCH', (place) => `/v1/schedules/${object(place)}`, { content: 'Stay' }),
    client: client((baton, place) => baton.schedules.update(object(place), { content: 'Stay' })),
  },
};

export const pauseOfSchedule: Act = {
  name: 'pauses a schedule',
  file: 'change-schedule',
  leaves: {
    ...{ ...QUIET, audit: ['schedule:pause /v1/schedules/sch/pause'] },
    object: { ...SCHEDULE_ROW, paused_reason: 'request' },
  },
  prepare: schedule,
  command: async ({ deps }, place) => void (await setSchedulePaused(deps, { ...ofSchedule(place), reason: 'request' })),
  doors: {
    ...ADMIN,
    route: request('POST', (place) => `/v1/schedules/${object(place)}/pause`, {}),
    client: client((baton, place) => baton.schedules.pause(object(place))),
    cli: cli((place) => ['schedules', 'pause', object(place)]),
  },
};

export const resumeOfSchedule: Act = {
  name: 'lets a schedule fire again',
  file: 'change-schedule',
  leaves: { ...QUIET, audit: ['schedule:resume /v1/schedules/sch/resume'], object: SCHEDULE_ROW },
  prepare: async (world) => {
    const place = await schedule(world);
    await setSchedulePaused(world.deps, { ...ofSchedule(place), reason: 'request' });
    return place;
  },
  command: async ({ deps }, place) => void (await setSchedulePaused(deps, { ...ofSchedule(place), reason: null })),
  doors: {
    ...ADMIN,
    route: request('POST', (place) => `/v1/schedules/${object(place)}/resume`),
    client: client((baton, place) => baton.schedules.resume(object(place))),
    cli: cli((place) => ['schedules', 'resume', object(place)]),
  },
};

export const deleteOfSchedule: Act = {
  name: 'deletes a schedule',
  file: 'change-schedule',
  leaves: { ...QUIET, audit: ['schedule:delete /v1/schedules/sch'], object: 'gone' },
  prepare: schedule,
  command: async ({ deps }, place) => deleteSchedule(deps, ofSchedule(place)).then(() => undefined),
  doors: {
    ...ADMIN,
    route: request('DELETE', (place) => `/v1/schedules/${object(place)}`),
    client: client((baton, place) => baton.schedules.delete(object(place))),
    cli: cli((place) => ['schedules', 'delete', object(place)]),
  },
};

/** The place of an act that has begun a session. */
const began =
  ({ act }: Cell): Do =>
  async (world, place) => {
    await act(world, place);
    return { ...(await placeOf(world, await newestSession(world))), objectId: object(place) };
  };

export const fireOfSchedule: Act = {
  name: 'fires a schedule now',
  file: 'fire-schedule',
  leaves: { audit: ['schedule:run /v1/schedules/sch/run'], events: ['run:queued'], jobs: 1, object: SCHEDULE_ROW },
  prepare: schedule,
  command: began({
    act: async ({ deps }, place) => {
      const fire = { ...ofSchedule(place), newSession: newSession(deps) };
      const fired = await inTransaction(deps.db, (tx) => fireScheduleNowIn(tx, deps, fire));
      await afterFire(deps, fire.scheduleId, fired);
    },
  }),
  doors: {
    ...{ ...ADMIN, schedule: ONLY_SENDS },
    route: { act: began(request('POST', (place) => `/v1/schedules/${object(place)}/run`)) },
    client: { act: began(client((baton, place) => baton.schedules.run(object(place)))) },
    cli: { act: began(cli((place) => ['schedules', 'run', object(place)])) },
  },
};

/** The place of the run that a fire replaces. `callId`: the schedule by which it is replaced. */
const busySchedule = async (world: World): Promise<Place> => {
  const { id } = await world.baton.client.schedules.create({ ...SCHEDULE, overlap: 'replace' });
  await world.baton.client.schedules.run(id);
  return { ...(await placeOf(world, await newestSession(world))), callId: id };
};

export const replaceByFire: Act = {
  name: 'fires a schedule now that replaces its last run',
  file: 'fire-schedule',
  leaves: { audit: ['run:cancel /v1/runs/run/cancel'], events: ['run:cancelled'], ended: 1 },
  prepare: busySchedule,
  command: async ({ baton }, { callId }) => void (await baton.client.schedules.run(callId)),
  doors: {
    ...{ ...ADMIN, schedule: { without: 'see the act "cancels a run"' } },
    route: request('POST', ({ callId }) => `/v1/schedules/${callId}/run`),
    client: client((baton, { callId }) => baton.schedules.run(callId)),
    cli: cli(({ callId }) => ['schedules', 'run', callId]),
  },
};
