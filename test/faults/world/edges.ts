import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import { MAX_WEBHOOKS_PER_TENANT } from '../../../src/domain/webhooks/webhook.ts';
import {
  DELIVERY_MANNERS,
  type DeliveryManner,
  type Edges,
  type StoredDelivery,
  type StoredSchedule,
} from '../check/deliveries.ts';
import { type CrowdedWorld, startCrowd } from './crowd.ts';
import { startReceivers } from './receivers.ts';

/** The webhooks and schedules of a world. */
export type EdgeTraits = Readonly<{
  receivers?: readonly DeliveryManner[];
  /** Number of schedules. Each is due once, one after another. */
  schedules?: number;
  /** Another tenant has many receivers that hang. The number of slots that all workers have for deliveries. */
  crowdInSlots?: number;
  /** Another tenant has this many runs whose models take very long, in this many slots that all workers have for steps. */
  crowdAtWork?: Readonly<{ runs: number; slots: number }>;
}>;

export type PlayedEdges = Readonly<{
  /** Resolves when all deliveries that can arrive have arrived and every schedule has fired, or none has moved for 180 s. */
  settled: () => Promise<void>;
  observe: () => Promise<Edges>;
}>;

/** Webhooks may reach the host of the receivers. The address of a redirect is not part of it. */
export const EDGE_SETTINGS = { BATON_WEBHOOKS_ALLOWED_HOSTS: 'localhost' };

const FIRST_DUE_MS = 1_500;
const DUE_EVERY_MS = 150;
/** A delivery of a hung worker counts as lost after 30 s, and its further attempts wait for their pauses. */
const STILL_AFTER_MS = 180_000;
const LOOK_EVERY_MS = 250;

/** Creates the webhooks and schedules of a world before its traffic begins. */
export async function startEdges(
  { receivers: manners = [], schedules = 0, crowdInSlots, crowdAtWork }: EdgeTraits,
  world: Readonly<{ url: string; database: pg.Pool }> & CrowdedWorld,
  stack: AsyncDisposableStack,
): Promise<PlayedEdges> {
  const { url, database } = world;
  const receivers = stack.use(await startReceivers());
  const create = async (path: string, body: object): Promise<void> => {
    const headers = { 'content-type': 'application/json' };
    const response = await fetch(`${url}${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
    if (response.status !== 201) throw new Error(`${path} answered ${response.status}: ${await response.text()}`);
  };
  const secret = 's'.repeat(32);
  const events = ['run:completed', 'run:failed', 'run:cancelled', 'run:incomplete'];
  for (const manner of manners) await create('/v1/webhooks', { url: receivers.urlOf(manner), secret, events });
  for (let no = 1; no <= schedules; no++) {
    await create('/v1/schedules', { agent: 'faulty', cron: '0 0 1 1 *', content: `Fire no. ${no}!`, catchup: 'last' });
  }
  const spread = `clock_timestamp() + (${FIRST_DUE_MS} + no * ${DUE_EVERY_MS}) * interval '1 millisecond'`;
  await database.query(
    `update schedules set next_fire_at = ${spread}, due_at = ${spread}
     from (select id as of_id, row_number() over (order by id) as no from schedules) as numbered where id = of_id`,
  );
  if (crowdInSlots !== undefined) await database.query(CROWD, [receivers.crowdUrl, MAX_WEBHOOKS_PER_TENANT]);
  const crowd = crowdAtWork === undefined ? null : await startCrowd(crowdAtWork, world);
  let longestWaitMs = 0;
  const observe = async (): Promise<Edges> => ({
    manners,
    receipts: receivers.receipts,
    deliveries: (await database.query<StoredDelivery>(DELIVERIES)).rows,
    schedules: (await database.query<StoredSchedule>(SCHEDULES)).rows,
    ...(crowdInSlots !== undefined && { crowd: { hung: receivers.mostHung(), slots: crowdInSlots } }),
    ...(crowd !== null && { crowdAtWork: { requests: crowd.hung(), longestWaitMs } }),
  });
  return {
    async settled() {
      // It works longer than the traffic, and no check is about it.
      if (crowd !== null) longestWaitMs = await crowd.leave();
      await untilSettled(database, manners);
    },
    observe,
  };
}

/** As many webhooks as a tenant may have, with as many deliveries as are sent to each at the same time. */
const CROWD = `
  with webhooks_of_crowd as (
    insert into webhooks (id, tenant_id, url, secret, events)
    select gen_random_uuid(), 'crowd', $1 || '/' || no, 'secret', '{run:failed}' from generate_series(1, $2::int) no
    returning id
  )
  insert into webhook_deliveries (id, tenant_id, webhook_id, endpoint, type, body)
  select gen_random_uuid(), 'crowd', id, id::text, 'webhook:test', '{}' from webhooks_of_crowd, generate_series(1, 8)`;
const DELIVERIES = `
  select 'dlv_' || replace(d.id::text, '-', '') as id, substring(w.url from '[^/]*$') as path, d.run_id as "runId", d.state,
    d.attempts
  from webhook_deliveries d join webhooks w on w.id = d.webhook_id where d.run_id is not null`;
const SCHEDULES = `
  select id, content, (select count(*)::int from schedule_fires where schedule_id = schedules.id) as fires,
    (select count(distinct run_id)::int from inbox where content::text like '%' || schedules.content || '%') as runs
  from schedules`;

async function untilSettled(database: pg.Pool, manners: readonly DeliveryManner[]): Promise<void> {
  const paths = manners.flatMap((manner) => (DELIVERY_MANNERS[manner].comes ? [DELIVERY_MANNERS[manner].path] : []));
  /** Null: all is settled. */
  const look = async (): Promise<string | null> => {
    const { rows } = await database.query<{ open: number; tried: number }>(
      `select ((select count(*) from webhook_deliveries d join webhooks w on w.id = d.webhook_id
          where d.state in ('waiting', 'sending') and substring(w.url from '[^/]*$') = any($1::text[]))
        + (select count(*) from schedules where next_fire_at < clock_timestamp() + interval '1 minute')
        + (select count(*) from sessions where active_run_id is not null))::int as open,
        (select sum(attempts) from webhook_deliveries)::int as tried`,
      [paths],
    );
    return rows[0]?.open === 0 ? null : JSON.stringify(rows);
  };
  let seen: string | null = '';
  let changedAtMs = performance.now();
  while (seen !== null && performance.now() - changedAtMs < STILL_AFTER_MS) {
    await delay(LOOK_EVERY_MS);
    const now = await look();
    if (now !== seen) changedAtMs = performance.now();
    seen = now;
  }
}
