import { sql } from 'kysely';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { toldWebhookBody } from '../../src/api/told-webhook.ts';
import { parseExactly } from '../../src/domain/exact-json.ts';
import { formatId } from '../../src/domain/ids.ts';
import type { Json } from '../../src/domain/transcript/message.ts';
import {
  DELIVERIES_PER_ENDPOINT,
  DELIVERIES_TO_SILENT_ENDPOINTS,
  DELIVERY_ENDPOINTS_PER_LOOK,
  MAX_KEPT_DELIVERIES,
} from '../../src/domain/tunables.ts';
import { MAX_WEBHOOKS_PER_TENANT, WEBHOOK_EVENTS } from '../../src/domain/webhooks/webhook.ts';
import { newId } from '../../src/platform/new-id.ts';
import { listAudit } from '../../src/store/around/audit.ts';
import {
  type ClaimedDelivery,
  claimDelivery,
  dispatchDeliveries,
  endAttempt,
  findDelivery,
  handBackDelivery,
  listDeliveries,
  redeliver,
} from '../../src/store/around/webhook-deliveries.ts';
import { changeWebhook, createWebhook, findWebhook, testWebhook } from '../../src/store/around/webhooks.ts';
import { requestCancel } from '../../src/store/changes/cancels.ts';
import { requestMaintenance } from '../../src/store/changes/maintenance.ts';
import { answerStep, askStep, claimJob, failStep } from '../http/play-worker.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { acceptMessage } from '../support/unlimited.ts';
import { finishCleanUp, openRace } from './race.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
  await addWorker(WORKER);
});
afterAll(() => database[Symbol.asyncDispose]());
beforeEach(async () => {
  await sql`truncate webhooks, webhook_deliveries, silent_endpoints, delivery_cursors`.execute(database.db);
});

const WORKER = 'sender';
/** Deliveries that it sends at the same time. */
const SLOTS = 40;
const dispatch = () => dispatchDeliveries(database.db, SLOTS);

const addWorker = (id: string) =>
  sql`insert into workers (id, kinds, lock_key) values (${id}, '{delivery}', nextval('worker_lock_keys'))`.execute(
    database.db,
  );

const tenantId = 'default';
const secret = 's'.repeat(32);

async function addWebhook(more: Partial<Parameters<typeof createWebhook>[1]> = {}): Promise<string> {
  const webhook = { id: newId(), tenantId, url: 'https://hooks.example.com/', secret, events: WEBHOOK_EVENTS };
  const row = await database.db.transaction().execute((tx) => createWebhook(tx, { agent: null, ...webhook, ...more }));
  return row.id;
}

const list = () => listDeliveries(database.db, { tenantId, limit: 100 });
const types = async () => (await list()).map(({ type }) => type).toSorted();

const { data } = toldWebhookBody.shape;
const run = data.shape.run.strict();
const closed = toldWebhookBody.extend({ data: data.extend({ run }).strict() }).strict();

async function bodies() {
  const rows = await list();
  const whole = await Promise.all(rows.map(({ id }) => findDelivery(database.db, tenantId, id)));
  return whole.map(({ body }) => {
    const told = JSON.parse(body.toString());
    // As the OpenAPI document describes it, and nothing else.
    if (told.type !== 'webhook:test') expect(closed.parse(told)).toEqual(told);
    return told;
  });
}

describe('the outbox of webhooks', () => {
  it('tells of a run that has completed, with its answer', async () => {
    const webhookId = await addWebhook();
    const race = await openRace(database.db);
    const { fence } = await race.begin().then(async (claimed) => {
      await answerStep(database.db, claimed, 'Done — ✓');
      return claimed;
    });
    const [row] = await list();
    expect(row).toMatchObject({ webhook_id: webhookId, run_id: fence.runId, state: 'waiting', type: 'run:completed' });
    expect(await bodies()).toEqual([
      {
        id: formatId('delivery', row?.id ?? ''),
        type: 'run:completed',
        timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
        data: {
          sessionId: formatId('session', race.sessionId),
          ...{ key: null, title: null, name: 'Go' },
          agent: 'tester',
          metadata: {},
          run: {
            id: formatId('run', fence.runId),
            status: 'completed',
            reason: null,
            steps: 1,
            costUsd: 0,
            error: null,
          },
          output: 'Done — ✓',
          value: null,
          isOutputCut: false,
          requiredActions: [],
        },
      },
    ]);
  });

  it('tells of a run that waits what it waits for, and later of its cancel', async () => {
    await addWebhook();
    const race = await openRace(database.db);
    const claimed = await race.begin();
    const [call] = await askStep(database.db, claimed, [{ kind: 'approval', toolName: 'deploy' }]);
    expect((await bodies())[0]?.data).toMatchObject({
      run: { status: 'requires_action' },
      output: null,
      requiredActions: [{ id: call?.id, kind: 'approval', toolName: 'deploy', args: { by: 'deploy' } }],
    });
    await requestCancel(database.db, tenantId, claimed.fence.runId);
    expect(await types()).toEqual(['run:cancelled', 'run:requires-action']);
  });

  it('tells arguments as the model wrote them', async () => {
    await addWebhook();
    const race = await openRace(database.db);
    const input = parseExactly('{"zone":"b","id":12345678901234567890,"7":1.10}') as Json;
    await askStep(database.db, await race.begin(), [{ kind: 'approval', toolName: 'deploy', input }]);
    const [row] = await list();
    const { body } = await findDelivery(database.db, tenantId, row?.id ?? '');
    expect(body.toString()).toContain(`"args" : ${JSON.stringify(input)}`);
  });

  it('tells of a failure, and of a promised run that is cancelled before it begins', async () => {
    await addWebhook();
    const race = await openRace(database.db);
    const claimed = await race.begin();
    const promised = await race.send('Later', 'followup');
    await requestCancel(database.db, tenantId, promised.runId);
    await failStep(database.db, claimed, { code: 'auth', message: 'No key.' });
    expect(await types()).toEqual(['run:cancelled', 'run:failed']);
    const failure = (await bodies()).find(({ type }) => type === 'run:failed');
    expect(failure.data.run.error).toEqual({ code: 'auth', message: 'No key.' });
  });

  it('tells nobody of what was not asked for: other events, other agents, other tenants, disabled, maintenance', async () => {
    await addWebhook({ events: ['run:failed'] });
    await addWebhook({ agent: 'somebody' });
    await addWebhook({ tenantId: 'other' });
    const off = await addWebhook();
    await database.db.transaction().execute((tx) => changeWebhook(tx, tenantId, off, { enabled: false }));
    const race = await openRace(database.db);
    await answerStep(database.db, await race.begin(), 'Done.');
    await addWebhook({ agent: 'tester', events: ['run:completed'] });
    const asked = await requestMaintenance(database.db, { ...race.ref, kind: 'prune', runId: newId() });
    if (asked.job === null) throw new Error('the prune has no job');
    await finishCleanUp(database.db, await claimJob(database.db, asked.job));
    expect(await list()).toEqual([]);
    await answerStep(database.db, await race.begin(), 'Again.');
    expect(await types()).toEqual(['run:completed']);
  });

  it('tells the webhook of a message of the run that takes the message up, and of no other', async () => {
    const race = await openRace(database.db);
    const webhook = { url: 'https://one.example.com/a', secret, origin: 'https://one.example.com' };
    const message = { ...race.ref, messageId: newId(), content: [{ type: 'text' as const, text: 'Go' }], webhook };
    const { job } = await acceptMessage(database.db, { ...message, runId: newId() });
    await answerStep(database.db, await claimJob(database.db, job ?? undefined), 'Done.');
    await answerStep(database.db, await race.begin(), 'Another.');
    expect(await list()).toMatchObject([
      { webhook_id: null, url: webhook.url, endpoint: 'default https://one.example.com', run_id: job?.runId },
    ]);
  });

  it('writes nothing of a transaction that is rolled back', async () => {
    await addWebhook();
    const race = await openRace(database.db);
    const claimed = await race.begin();
    const undone = database.db.transaction().execute(async (tx) => {
      await answerStep(tx, claimed, 'Done.');
      throw new Error('rolled back');
    });
    await expect(undone).rejects.toThrow('rolled back');
    expect(await list()).toEqual([]);
  });

  it('tells the result of a run with a schema, unless it is large', async () => {
    await addWebhook();
    for (const [value, told] of [
      [{ total: 12 }, { value: { total: 12 }, isOutputCut: false }],
      ['x'.repeat(32_768), { value: null, isOutputCut: true }],
    ] as const) {
      const race = await openRace(database.db);
      const claimed = await race.begin();
      await sql`update runs set output = ${JSON.stringify({ value })}::jsonb where id = ${claimed.fence.runId}`.execute(
        database.db,
      );
      await answerStep(database.db, claimed, 'Done.');
      const [newest] = (await bodies()).filter(
        ({ data: { run: of } }) => of.id === formatId('run', claimed.fence.runId),
      );
      expect(newest?.data).toMatchObject({ output: 'Done.', ...told });
    }
  });

  it('bounds the answer that it tells', async () => {
    await addWebhook();
    const race = await openRace(database.db);
    await answerStep(database.db, await race.begin(), 'é'.repeat(40_000));
    expect((await bodies())[0]?.data).toMatchObject({ output: 'é'.repeat(32_768), isOutputCut: true });
  });
});

/** As many deliveries of a test, due now. */
async function addDeliveries(webhookId: string, count: number): Promise<void> {
  for (let left = count; left > 0; left--) {
    await database.db.transaction().execute((tx) => testWebhook(tx, tenantId, webhookId, newId()));
  }
}

async function claimOne(): Promise<ClaimedDelivery> {
  const [job] = await dispatch();
  const delivery = job === undefined ? null : await claimDelivery(database.db, job, WORKER);
  if (delivery === null) throw new Error('nothing is due');
  return delivery;
}

const OK = { status: 204, error: null, isSilent: false, tookMs: 3 };
const REFUSED = { ...OK, status: 500 };
const SILENT = { status: null, error: 'no answer', isSilent: true, tookMs: 10_000 };
const stateOf = async ({ id }: Readonly<{ id: string }>) => findDelivery(database.db, tenantId, id);
const pass = (row: Readonly<{ id: string }>) =>
  sql`update webhook_deliveries set due_at = clock_timestamp() where id = ${row.id}`.execute(database.db);

describe('a delivery', () => {
  it('is given to the queue once, claimed once, and ended once', async () => {
    await addDeliveries(await addWebhook(), 1);
    const [job] = await dispatch();
    if (job === undefined) throw new Error('nothing is due');
    expect(await dispatch()).toEqual([]);
    const delivery = await claimDelivery(database.db, job, WORKER);
    expect(delivery).toMatchObject({ attemptNo: 1, secret, url: 'https://hooks.example.com/' });
    expect(await claimDelivery(database.db, job, WORKER)).toBeNull();
    if (delivery === null) return;
    expect(await endAttempt(database.db, delivery, OK, { kind: 'delivered' })).toBe(true);
    expect(await endAttempt(database.db, delivery, REFUSED, { kind: 'failed' })).toBe(false);
    expect(await stateOf(delivery)).toMatchObject({ state: 'delivered', attempts: 1, last_status: 204 });
    expect(await dispatch()).toEqual([]);
  });

  it('whose worker dies is given again under another number, and the dead worker writes nothing', async () => {
    await addDeliveries(await addWebhook(), 1);
    const lost = await claimOne();
    await pass(lost);
    const again = await claimOne();
    expect(again.id).toBe(lost.id);
    expect(again.body).toEqual(lost.body);
    expect(await endAttempt(database.db, lost, OK, { kind: 'delivered' })).toBe(false);
    expect(await stateOf(lost)).toMatchObject({ state: 'sending', attempts: 2, dispatch: 2 });
  });

  it('that no worker has taken keeps its number, so that a queue which still has its job ignores it', async () => {
    await addDeliveries(await addWebhook(), 1);
    const [first] = await dispatch();
    await sql`update webhook_deliveries set due_at = clock_timestamp()`.execute(database.db);
    expect(await dispatch()).toEqual([first]);
  });

  it('waits for its next attempt, which has the same bytes', async () => {
    await addDeliveries(await addWebhook(), 1);
    const first = await claimOne();
    await endAttempt(database.db, first, REFUSED, { kind: 'retry', delayMs: 5_000 });
    expect(await stateOf(first)).toMatchObject({ state: 'waiting', attempts: 1, last_status: 500 });
    expect(await dispatch()).toEqual([]);
    await pass(first);
    const second = await claimOne();
    expect(second).toMatchObject({ id: first.id, attemptNo: 2 });
    expect(second.body).toEqual(first.body);
  });

  it('goes back untried when its worker ends before it is sent', async () => {
    await addDeliveries(await addWebhook(), 1);
    const first = await claimOne();
    await handBackDelivery(database.db, first, { wasSent: false });
    expect(await claimOne()).toMatchObject({ id: first.id, attemptNo: 1 });
  });

  it('goes back with its attempt counted when its worker ends while the receiver has it', async () => {
    await addDeliveries(await addWebhook(), 1);
    const first = await claimOne();
    await handBackDelivery(database.db, first, { wasSent: true });
    expect(await claimOne()).toMatchObject({ id: first.id, attemptNo: 2 });
  });

  it('waits while as many are sent to its endpoint as may be; others go on', async () => {
    const [slow, well] = [await addWebhook(), await addWebhook()];
    await addDeliveries(slow, DELIVERIES_PER_ENDPOINT + 3);
    expect(await dispatch()).toHaveLength(DELIVERIES_PER_ENDPOINT);
    await addDeliveries(well, 2);
    expect(await dispatch()).toHaveLength(2);
    const [sent] = (await list()).filter(({ endpoint, state }) => endpoint === slow && state === 'sending');
    const job = { deliveryId: sent?.id ?? '', dispatch: 1 };
    const delivery = await claimDelivery(database.db, job, WORKER);
    if (delivery === null) throw new Error('not claimed');
    await endAttempt(database.db, delivery, OK, { kind: 'delivered' });
    expect(await dispatch()).toHaveLength(1);
  });

  it('whose worker is gone is due again at once', async () => {
    await addWorker('gone');
    await addDeliveries(await addWebhook(), 1);
    const [job] = await dispatch();
    if (job === undefined) throw new Error('nothing is due');
    await claimDelivery(database.db, job, 'gone');
    expect(await dispatch()).toEqual([]);
    await sql`delete from workers where id = 'gone'`.execute(database.db);
    expect(await dispatch()).toEqual([{ ...job, dispatch: 2 }]);
  });

  it('is sent again when asked for, with all its attempts, but not while it is being sent', async () => {
    await addDeliveries(await addWebhook(), 1);
    const delivery = await claimOne();
    const again = () => database.db.transaction().execute((tx) => redeliver(tx, tenantId, delivery.id));
    await expect(again()).rejects.toMatchObject({ code: 'conflict' });
    await endAttempt(database.db, delivery, REFUSED, { kind: 'failed' });
    expect(await again()).toMatchObject({ state: 'waiting', attempts: 0, finished_at: null });
    const second = await claimOne();
    expect(second).toMatchObject({ id: delivery.id, attemptNo: 1 });
    expect(second.body).toEqual(delivery.body);
  });

  it('of an endpoint is kept only while it is among the newest that have ended', async () => {
    const webhookId = await addWebhook();
    await sql`
      insert into webhook_deliveries (id, webhook_id, endpoint, type, body, state, created_at)
      select gen_random_uuid(), ${webhookId}, ${webhookId}, 'webhook:test', '', 'delivered',
        clock_timestamp() - make_interval(secs => n) from generate_series(1, ${MAX_KEPT_DELIVERIES}) as n`.execute(
      database.db,
    );
    await addDeliveries(webhookId, 1);
    await endAttempt(database.db, await claimOne(), OK, { kind: 'delivered' });
    const { rows } = await sql`select id from webhook_deliveries`.execute(database.db);
    expect(rows).toHaveLength(MAX_KEPT_DELIVERIES);
  });
});

/** Deliveries of a tenant that are due now, one to each of as many endpoints of its messages. */
const addToHosts = (of: string, count: number) =>
  sql`
    insert into webhook_deliveries (id, tenant_id, url, secret, endpoint, type, body)
    select gen_random_uuid(), ${of}::text, 'https://' || n || '.example', 's', ${of} || ' https://' || lpad(n::text, 6, '0'),
      'run:completed', '{}' from generate_series(1, ${count}::integer) n`.execute(database.db);

/** Claims and ends what was given to the queue. */
async function endAll(jobs: Awaited<ReturnType<typeof dispatch>>, result: typeof OK | typeof SILENT): Promise<void> {
  for (const job of jobs) {
    const delivery = await claimDelivery(database.db, job, WORKER);
    if (delivery === null) throw new Error('not claimed');
    const next = result.isSilent ? ({ kind: 'retry', delayMs: 0 } as const) : ({ kind: 'delivered' } as const);
    await endAttempt(database.db, delivery, result, next);
  }
}

async function tenantsOf(jobs: Awaited<ReturnType<typeof dispatch>>): Promise<Record<string, number>> {
  const { rows } = await sql<{ tenant: string }>`
    select tenant_id as tenant from webhook_deliveries
    where id = any(${jobs.map(({ deliveryId }) => deliveryId)}::uuid[])`.execute(database.db);
  return Object.fromEntries(
    [...Map.groupBy(rows, ({ tenant }) => tenant)].map(([tenant, { length }]) => [tenant, length]),
  );
}

describe('deliveries of several tenants', () => {
  const share = SLOTS / 4;

  it('are at most a quarter of the slots for each, to however many endpoints', async () => {
    await addToHosts('evil', 200);
    expect(await dispatch()).toHaveLength(share);
    await addToHosts('acme', 3);
    expect(await tenantsOf(await dispatch())).toEqual({ acme: 3 });
  });

  it('take turns for the slots: the tenant with the fewest under way is first', async () => {
    for (const of of ['a', 'b', 'c']) await addToHosts(of, 100);
    expect(await tenantsOf(await dispatch())).toEqual({ a: share, b: share, c: share });
    await addToHosts('d', 4);
    await addToHosts('e', 100);
    expect(await tenantsOf(await dispatch())).toEqual({ d: 4, e: 6 });
    expect(await dispatch()).toEqual([]);
  });

  it('are eight to all endpoints that did not answer last time, until they do', async () => {
    await addToHosts('evil', share);
    await endAll(await dispatch(), SILENT);
    await addToHosts('evil', share);
    await sql`update webhook_deliveries set due_at = clock_timestamp()`.execute(database.db);
    const again = await dispatch();
    expect(again).toHaveLength(DELIVERIES_TO_SILENT_ENDPOINTS);
    await endAll(again, OK);
    expect(await dispatch()).toHaveLength(share);
  });

  it('are sent in slots that nobody wants, to endpoints that took the last one at once, but for a quarter', async () => {
    await addToHosts('large', share);
    await endAll(await dispatch(), OK);
    for (let round = 0; round < 8; round++) await addToHosts('large', share);
    expect(await dispatch()).toHaveLength(SLOTS - share);
    await addToHosts('acme', 3);
    expect(await tenantsOf(await dispatch())).toEqual({ acme: 3 });
  });

  it('come round to each endpoint of a tenant that has more of them than one look goes through', async () => {
    await addToHosts('evil', 3 * DELIVERY_ENDPOINTS_PER_LOOK);
    const hosts = async () => {
      const { rows } = await sql<{ of: number }>`
        select count(distinct endpoint) as of from webhook_deliveries where state <> 'waiting'`.execute(database.db);
      return rows[0]?.of;
    };
    for (let look = 0; look < 60; look++) await endAll(await dispatch(), OK);
    expect(await hosts()).toBe(3 * DELIVERY_ENDPOINTS_PER_LOOK);
  });
});

describe('a webhook', () => {
  it('is failing from the first failure to the next success', async () => {
    const webhookId = await addWebhook();
    await addDeliveries(webhookId, 2);
    const [first, second] = await dispatch();
    if (first === undefined || second === undefined) throw new Error('nothing is due');
    const claim = async (job: typeof first) => {
      const delivery = await claimDelivery(database.db, job, WORKER);
      if (delivery === null) throw new Error('not claimed');
      return delivery;
    };
    await endAttempt(database.db, await claim(first), REFUSED, { kind: 'retry', delayMs: 0 });
    await sql`update webhooks set failing_since = failing_since - interval '1 hour'`.execute(database.db);
    const later = await claim(second);
    expect(later.failingForMs).toBeGreaterThan(3_599_000);
    await endAttempt(database.db, later, OK, { kind: 'delivered' });
    expect(await findWebhook(database.db, tenantId, webhookId)).toMatchObject({ failing_since: null });
  });

  it.each(['gone', 'failing'] as const)(
    'that is %s is disabled and audited, and what waits for it is given up',
    async (reason) => {
      const webhookId = await addWebhook();
      await addDeliveries(webhookId, DELIVERIES_PER_ENDPOINT + 2);
      const delivery = await claimOne();
      await endAttempt(database.db, delivery, { ...REFUSED, status: 410 }, { kind: 'disable', reason });
      expect(await findWebhook(database.db, tenantId, webhookId)).toMatchObject({ disabled_for: reason });
      expect(await list()).not.toContainEqual(expect.objectContaining({ state: 'waiting' }));
      const [entry] = await listAudit(database.db, { tenantId, limit: 1 });
      expect(entry).toMatchObject({
        action: 'webhook:disable',
        target: `/v1/webhooks/${formatId('webhook', webhookId)}`,
        keyId: null,
      });
      const again = database.db.transaction().execute((tx) => redeliver(tx, tenantId, delivery.id));
      await expect(again).rejects.toMatchObject({ code: 'conflict' });
    },
  );

  it('that is enabled again has forgotten its failures', async () => {
    const webhookId = await addWebhook();
    await sql`update webhooks set disabled_for = 'failing', failing_since = clock_timestamp()`.execute(database.db);
    const enabled = await database.db
      .transaction()
      .execute((tx) => changeWebhook(tx, tenantId, webhookId, { enabled: true }));
    expect(enabled).toMatchObject({ disabled_for: null, failing_since: null });
  });

  it('is one of at most so many of its tenant, also when they are created at the same time', async () => {
    for (let left = MAX_WEBHOOKS_PER_TENANT - 1; left > 0; left--) await addWebhook();
    const both = await Promise.allSettled([addWebhook(), addWebhook()]);
    expect(both.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected']);
  });
});
