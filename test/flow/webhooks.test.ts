import { createHmac } from 'node:crypto';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import { describe, expect, it } from 'vitest';
import { formatId } from '../../src/domain/ids.ts';
import { MAX_WEBHOOKS_PER_TENANT, WEBHOOK_EVENTS } from '../../src/domain/webhooks/webhook.ts';
import { findDelivery, listDeliveries, redeliver } from '../../src/store/around/webhook-deliveries.ts';
import { createWebhook, findWebhook, testWebhook } from '../../src/store/around/webhooks.ts';
import { availableBackends } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import { startTestService, type TestService } from '../support/service.ts';
import { acceptMessage } from '../support/unlimited.ts';

type Received = Readonly<{ headers: IncomingHttpHeaders; body: string }>;

/** @param answer the status for the nth request, from 1; null: it never answers */
async function startReceiver(
  answer: (no: number) => number | null | Promise<number>,
  headers: Record<string, string> = {},
) {
  const received: Received[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk) => chunks.push(chunk));
    request.on('end', async () => {
      received.push({ headers: request.headers, body: Buffer.concat(chunks).toString() });
      const status = await answer(received.length);
      if (status !== null) response.writeHead(status, headers).end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return {
    url: `http://127.0.0.1:${address.port}/hook`,
    received,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const tenantId = 'default';

function signatureOf({ headers, body }: Received): string {
  const key = Buffer.from(SECRET.slice('whsec_'.length), 'base64');
  const signed = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`;
  return `v1,${createHmac('sha256', key).update(signed).digest('base64')}`;
}

const addWebhook = ({ deps }: TestService, url: string, of = tenantId) =>
  deps.db
    .transaction()
    .execute((tx) =>
      createWebhook(tx, { id: deps.newId(), tenantId: of, url, secret: SECRET, events: WEBHOOK_EVENTS, agent: null }),
    );

/** Has a delivery of its own sent to a new webhook. */
async function tellOnce(service: TestService, url: string, of: string): Promise<void> {
  const { id } = await addWebhook(service, url, of);
  await service.deps.db.transaction().execute((tx) => testWebhook(tx, of, id, service.deps.newId()));
}

const ended = async ({ deps }: TestService, state: 'delivered' | 'failed' | 'waiting') =>
  eventually(async () => {
    const [row] = await listDeliveries(deps.db, { tenantId, limit: 1, state });
    return row !== undefined && row.attempts > 0 ? row : null;
  }, `a delivery is ${state}`);

const OPEN = { BATON_WEBHOOKS_ALLOWED_HOSTS: '127.0.0.1' };

describe.each(availableBackends())('webhooks over %s', (backend) => {
  it('are told of a run, signed, and again with the same bytes', async () => {
    await using service = await startTestService({ backend, environment: OPEN });
    const atWork: number[] = [];
    await using receiver = await startReceiver(async (no) => {
      atWork.push((await service.deps.jobs.counts()).delivery.active);
      return no === 1 ? 503 : 204;
    });
    await addWebhook(service, receiver.url);
    service.simulator.script('test', [{ text: 'Hello.' }]);
    await service.startWorker();
    const { runId } = await service.send(await service.createSession(), 'Say hello');
    await service.ended(runId);
    const waiting = await ended(service, 'waiting');
    expect(waiting).toMatchObject({ last_status: 503, attempts: 1 });
    await service.deps.db.transaction().execute((tx) => redeliver(tx, tenantId, waiting.id));
    const delivered = await ended(service, 'delivered');
    expect(delivered).toMatchObject({ id: waiting.id, last_status: 204, attempts: 2 });
    const [first, second] = receiver.received;
    if (first === undefined || second === undefined) throw new Error('two requests were made');
    expect(second.body).toBe(first.body);
    expect(first.body).toBe((await findDelivery(service.deps.db, tenantId, waiting.id)).body.toString());
    expect(JSON.parse(first.body)).toMatchObject({
      type: 'run:completed',
      data: { run: { id: formatId('run', runId) } },
    });
    for (const request of [first, second]) {
      expect(request.headers['webhook-id']).toBe(formatId('delivery', waiting.id));
      expect(request.headers['webhook-signature']).toBe(signatureOf(request));
    }
    const kept = await eventually(async () => {
      const jobs = (await service.deps.jobs.bullQueues().at(-1)?.getCompleted()) ?? [];
      return jobs.length === 2 ? jobs : null;
    }, 'both attempts are kept');
    expect(atWork).toEqual([1, 1]);
    const reports = kept.map(({ returnvalue }) => returnvalue).toSorted((a, b) => a.attempt - b.attempt);
    expect(reports).toMatchObject([
      { attempt: 1, status: 503, next: expect.stringMatching(/^again in \d+ ms$/) },
      { attempt: 2, status: 204, next: 'delivered' },
    ]);
  });
});

it('a webhook hears of a result by a schema, and of why there is none', async () => {
  await using service = await startTestService({ backend: 'postgres', environment: OPEN });
  await using receiver = await startReceiver(() => 204);
  await addWebhook(service, receiver.url);
  const { deps } = service;
  await service.startWorker();
  const sent = async (text: string): Promise<string> => {
    service.simulator.script('test', () => ({ text }));
    const ids = { sessionId: await service.createSession(), messageId: deps.newId(), runId: deps.newId() };
    const schema = { type: 'object', properties: { total: { type: 'number' } }, required: ['total'] } as const;
    const content = [{ type: 'text', text: 'How much?' }] as const;
    const { job } = await acceptMessage(deps.db, { tenantId, ...ids, content, output: { schema } });
    await deps.jobs.add(job === null ? [] : [job]);
    await service.ended(ids.runId);
    const told = await eventually(
      async () => receiver.received.find(({ body }) => body.includes(formatId('run', ids.runId))) ?? null,
      'the run is told',
    );
    return told.body;
  };
  const ask = async (text: string): Promise<unknown> => JSON.parse(await sent(text)).data;
  const odd = '{"zone":"b","total":12345678901234567890,"7":1.10}';
  expect(await sent(`It is ${odd}.`)).toContain(`"value" : ${odd}`);
  expect(await ask('{"total":12}')).toMatchObject({ value: { total: 12 }, run: { status: 'completed', error: null } });
  expect(await ask('{"total":"twelve"}')).toMatchObject({
    output: '{"total":"twelve"}',
    value: null,
    run: {
      status: 'incomplete',
      reason: 'output_invalid',
      error: { code: 'output_invalid', message: expect.any(String) },
    },
  });
});

it('a webhook hears which session it is told of: its key, title and metadata', async () => {
  await using service = await startTestService({ backend: 'postgres', environment: OPEN });
  await using receiver = await startReceiver(() => 204);
  await addWebhook(service, receiver.url);
  service.simulator.script('test', () => ({ text: 'Done.' }));
  await service.startWorker();
  const session = await service.createSession();
  const named = { external_key: 'order-7', title: 'A refund', metadata: JSON.stringify({ customer: 'c-1' }) };
  await service.deps.db.updateTable('sessions').set(named).where('id', '=', session).execute();
  await service.ended((await service.send(session, 'Hello')).runId);
  const { body } = await eventually(async () => receiver.received[0] ?? null, 'the receiver is told');
  const told = { key: 'order-7', title: 'A refund', name: 'A refund', metadata: { customer: 'c-1' } };
  expect(JSON.parse(body).data).toMatchObject(told);
});

describe('a receiver', () => {
  it('that answers 410 is told nothing more', async () => {
    await using service = await startTestService({ backend: 'postgres', environment: OPEN });
    await using receiver = await startReceiver(() => 410);
    const { id } = await addWebhook(service, receiver.url);
    await service.startWorker();
    const session = await service.createSession();
    await service.ended((await service.send(session, 'One')).runId);
    await ended(service, 'failed');
    await service.ended((await service.send(session, 'Two')).runId);
    expect(await findWebhook(service.deps.db, tenantId, id)).toMatchObject({ disabled_for: 'gone' });
    expect(receiver.received).toHaveLength(1);
    expect(await listDeliveries(service.deps.db, { tenantId, limit: 10 })).toHaveLength(1);
  });

  it('at a private address, or that redirects to one, is not reached', async () => {
    await using service = await startTestService({
      backend: 'postgres',
      environment: { BATON_WEBHOOKS_ALLOWED_HOSTS: 'localhost' },
    });
    await using secretPlace = await startReceiver(() => 204);
    await using receiver = await startReceiver(() => 307, { location: secretPlace.url });
    await addWebhook(service, secretPlace.url);
    await addWebhook(service, receiver.url.replace('127.0.0.1', 'localhost'));
    await service.startWorker();
    await service.ended((await service.send(await service.createSession(), 'One')).runId);
    const tried = await eventually(async () => {
      const rows = await listDeliveries(service.deps.db, { tenantId, limit: 10, state: 'waiting' });
      return rows.length === 2 && rows.every(({ attempts }) => attempts === 1) ? rows : null;
    }, 'both were tried');
    expect(tried.map(({ last_error }) => last_error).toSorted()).toEqual([
      'it redirects, and redirects are not followed',
      'its host has no public address',
    ]);
    expect(receiver.received).toHaveLength(1);
    expect(secretPlace.received).toEqual([]);
  });

  it('of one tenant is told while all those of another hang', async () => {
    await using service = await startTestService({
      backend: 'postgres',
      environment: { ...OPEN, BATON_DELIVERY_CONCURRENCY: '16' },
    });
    await using hanging = await startReceiver(() => null);
    await using well = await startReceiver(() => 204);
    for (let left = MAX_WEBHOOKS_PER_TENANT; left > 0; left--) await tellOnce(service, hanging.url, 'evil');
    await service.startWorker();
    await eventually(async () => hanging.received.length >= 4 || null, 'a quarter of the slots hang');
    await tellOnce(service, well.url, 'acme');
    await eventually(async () => well.received.length > 0 || null, 'the other tenant is told');
    // In the order of their times, it would come after all of these.
    expect(hanging.received.length).toBeLessThan(MAX_WEBHOOKS_PER_TENANT);
  });

  it('that hangs slows no run and no other receiver, and a worker that ends hands its deliveries back', async () => {
    await using service = await startTestService({
      backend: 'postgres',
      environment: { ...OPEN, BATON_SHUTDOWN_GRACE_MS: '0' },
    });
    await using hanging = await startReceiver(() => null);
    await using well = await startReceiver(() => 204);
    await addWebhook(service, hanging.url);
    await addWebhook(service, well.url);
    const worker = await service.startWorker();
    const runs = Array.from({ length: 12 }, async () =>
      service.ended((await service.send(await service.createSession(), 'Go')).runId),
    );
    await Promise.all(runs);
    await eventually(
      async () => well.received.length === 12 && hanging.received.length === 8,
      'eight hang, twelve came',
    );
    await worker[Symbol.asyncDispose]();
    const rows = await listDeliveries(service.deps.db, { tenantId, limit: 100 });
    const open = rows.filter(({ state }) => state !== 'delivered');
    expect(open).toHaveLength(12);
    expect(open.filter(({ claim_id }) => claim_id !== null)).toEqual([]);
    // The receiver has the requests of eight, so their attempts count.
    expect(open.map(({ attempts }) => attempts).toSorted()).toEqual([0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1]);
  });
});
