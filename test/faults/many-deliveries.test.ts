import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { sql } from 'kysely';
import { expect, it } from 'vitest';
import { formatId } from '../../src/domain/ids.ts';
import { createWebhook } from '../../src/store/around/webhooks.ts';
import { anyBackend } from '../support/backends.ts';
import { createRandom } from '../support/random.ts';
import { startTestService } from '../support/service.ts';

/** BATON_TEST_DELIVERIES=10000 takes about two minutes. */
const DELIVERIES = Number(process.env['BATON_TEST_DELIVERIES'] ?? 1_000);
const WEBHOOKS = 25;
const LOOK_EVERY_MS = 100;
const SECRET = 's'.repeat(32);

type Request = Readonly<{ id: string; body: string; isTaken: boolean }>;

/** A receiver that takes most requests, some of them slowly, refuses a part, and breaks a part off after it has read it. */
async function startMoodyReceiver() {
  const random = createRandom('receiver');
  const requests: Request[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('error', () => undefined);
    request.on('data', (chunk) => chunks.push(chunk));
    request.on('end', async () => {
      const isBroken = random.chance(0.05);
      const isTaken = !isBroken && random.chance(0.9);
      requests.push({ id: String(request.headers['webhook-id']), body: Buffer.concat(chunks).toString(), isTaken });
      if (isBroken) return void request.socket.destroy();
      if (random.chance(0.05)) await delay(200);
      response.writeHead(isTaken ? 204 : 503).end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    requests,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

it(
  `${DELIVERIES} deliveries all arrive under their own id and bytes, while workers come and go`,
  async () => {
    await using receiver = await startMoodyReceiver();
    const environment = { BATON_WEBHOOKS_ALLOWED_HOSTS: '127.0.0.1', BATON_SHUTDOWN_GRACE_MS: '0' };
    await using service = await startTestService({ backend: anyBackend(), environment });
    const { db, newId } = service.deps;
    for (let left = WEBHOOKS; left > 0; left--) {
      const webhook = { id: newId(), tenantId: 'default', url: receiver.url, secret: SECRET, agent: null };
      await db.transaction().execute((tx) => createWebhook(tx, { ...webhook, events: ['run:completed'] }));
    }
    await sql`
      insert into webhook_deliveries (id, webhook_id, endpoint, run_id, type, body)
      select id, webhook_id, webhook_id::text, gen_random_uuid(), 'run:completed',
        baton_delivery_body(id, 'run:completed', json_build_object('no', no))
      from (select gen_random_uuid() as id, no, webhooks.id as webhook_id from generate_series(1, ${DELIVERIES}::integer) no
        join (select id, row_number() over () as nth from webhooks) as webhooks on nth = 1 + no % ${WEBHOOKS}::integer) as made`.execute(
      db,
    );
    const isOver = async (): Promise<boolean> => {
      // The pauses between attempts are hours in the end: they are over at once here.
      await sql`update webhook_deliveries set due_at = clock_timestamp() where state = 'waiting' and attempts > 0`.execute(
        db,
      );
      const { rows } = await sql<{ open: number }>`
        select count(*)::integer as open from webhook_deliveries where state <> 'delivered'`.execute(db);
      return rows[0]?.open === 0;
    };
    for (const share of [0.3, 0.6, 1]) {
      await using _worker = await service.startWorker();
      await using _other = await service.startWorker();
      const isEnough = (): boolean => share < 1 && receiver.requests.length >= share * DELIVERIES;
      while (!(await isOver()) && !isEnough()) await delay(LOOK_EVERY_MS);
    }
    const { rows } = await sql<{ id: string; body: string }>`
      select id, convert_from(body, 'UTF8') as body from webhook_deliveries`.execute(db);
    const byId = Map.groupBy(receiver.requests, ({ id }) => id);
    const known = new Map(rows.map(({ id, body }) => [formatId('delivery', id), body]));
    expect({
      lost: [...known.keys()].filter((id) => byId.get(id)?.some(({ isTaken }) => isTaken) !== true),
      unknown: [...byId.keys()].filter((id) => !known.has(id)),
      changed: receiver.requests.filter(({ id, body }) => body !== known.get(id)),
    }).toEqual({ lost: [], unknown: [], changed: [] });
    expect(known.size).toBe(DELIVERIES);
    // Far more than it takes.
  },
  120_000 + 60 * DELIVERIES,
);
