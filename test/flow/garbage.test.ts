import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:net';
import { type BackendFactory, createPostgresBackend, type IQueueBackend, Queue } from 'bullmq';
import fc from 'fast-check';
import { Redis } from 'ioredis';
import { describe, expect, inject, it } from 'vitest';
import { parseId } from '../../src/domain/ids.ts';
import { JOB_KINDS, QUEUE_NAMES } from '../../src/domain/run/job.ts';
import { defineAgent } from '../../src/library/baton.ts';
import { QUEUE_SCHEMA } from '../../src/queues/migrate.ts';
import { startInProcess } from '../library/support.ts';
import { availableBackends, type Backend } from '../support/backends.ts';
import { garbageLike, watchForDeath } from '../support/outside-garbage.ts';
import { openProgramPool } from '../support/postgres.ts';

/** Sends one garbage to its channel, and resolves when it was taken there. */
type Channel = Readonly<{ name: string; garbage: fc.Arbitrary<string>; send: (garbage: string) => Promise<unknown> }>;

const sent = (sessionId: string) => ({
  sessionId,
  eventSeq: 9_007_199_254_740_991,
  job: { runId: randomUUID(), kind: 'step', no: 1, dispatch: 1 },
});
const live = (sessionId: string) => ({ session: sessionId, items: [{ seq: 9_007_199_254_740_991 }] });

async function start(backend: Backend) {
  await using stack = new AsyncDisposableStack();
  const prefix = `garbage-${randomUUID()}`;
  const redisUrl = backend === 'redis' ? (inject('redisUrl') ?? undefined) : undefined;
  if (redisUrl !== undefined) stack.defer(() => removeKeys(redisUrl, prefix));
  const started = stack.use(
    await startInProcess((model) => ({
      agents: [defineAgent({ name: 'clerk', model })],
      queuePrefix: prefix,
      ...(redisUrl !== undefined && { redisUrl }),
      ...{ host: '127.0.0.1', port: 0, openWithoutKeys: true },
    })),
  );
  const { connectionString } = started.database;
  const pool = openProgramPool({ connectionString });
  stack.defer(() => pool.end());
  const session = await started.baton.client.sessions.create({ agent: 'clerk' });
  const sessionId = parseId('session', session.id) ?? '';
  const notify = (channel: string) => (garbage: string) => pool.query('select pg_notify($1, $2)', [channel, garbage]);
  const { url } = stack.use(await started.baton.listen());
  const channels: Channel[] = [
    { name: 'NOTIFY of sent messages', garbage: garbageLike(sent(sessionId)), send: notify('baton_sent:') },
    { name: 'the socket of the API', garbage: garbageLike({ a: 1 }), send: (garbage) => sendBytes(url, garbage) },
  ];
  const bus = garbageLike(live(sessionId));
  if (redisUrl === undefined) {
    channels.push({ name: 'NOTIFY of the live bus', garbage: bus, send: notify(`${prefix}:live`) });
    for (const channel of ['bullmq_jobs', 'bullmq_events', 'bullmq_relay']) {
      channels.push({ name: `NOTIFY ${channel}`, garbage: garbageLike({ queue: 'steps' }), send: notify(channel) });
    }
  } else {
    const redis = stack.adopt(new Redis(redisUrl), (each) => each.disconnect());
    for (const channel of [`${prefix}:cancel`, `${prefix}:live:${sessionId}`]) {
      channels.push({ name: channel, garbage: bus, send: (garbage) => redis.publish(channel, garbage) });
    }
  }
  for (const kind of JOB_KINDS) {
    const plain = new URL(connectionString);
    plain.search = '';
    const queue = stack.adopt(
      redisUrl === undefined
        ? new Queue(
            QUEUE_NAMES[kind],
            { connection: { connectionString: plain.href, schema: QUEUE_SCHEMA } as never },
            createPostgresBackend as BackendFactory<IQueueBackend, never>,
          )
        : new Queue(QUEUE_NAMES[kind], { connection: { url: redisUrl }, prefix }),
      (each) => each.close(),
    );
    const add = (garbage: string) =>
      queue.add(garbage, dataOf(garbage), { removeOnComplete: true, removeOnFail: true });
    channels.push({ name: `jobs of ${QUEUE_NAMES[kind]}`, garbage: garbageLike(sent(sessionId).job), send: add });
  }
  const owned = stack.move();
  return { ...started, pool, session, channels, url, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

async function removeKeys(redisUrl: string, prefix: string): Promise<void> {
  const redis = new Redis(redisUrl);
  const keys = await redis.keys(`${prefix}*`);
  if (keys.length > 0) await redis.del(...keys);
  redis.disconnect();
}

/** Job data is JSON by itself. */
function dataOf(garbage: string): unknown {
  try {
    return JSON.parse(garbage);
  } catch {
    return garbage;
  }
}

async function sendBytes(url: string, garbage: string): Promise<void> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1');
  socket.on('error', () => undefined).resume();
  socket.end(`GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n${garbage}\r\n\r\n`);
  await once(socket, 'close');
}

describe.each(availableBackends())('what strangers send over %s', (backend) => {
  it('ends no process, and the product works on', async () => {
    await using started = await start(backend);
    const { baton, pool, session, channels, url, simulator } = started;
    simulator.script('test', () => ({ text: 'Done.' }));
    using watch = watchForDeath();
    await baton.startWorker();
    const ask = async (): Promise<string | null> => {
      const client = await pool.connect();
      await client.query('begin');
      const { runId } = await baton.sendIn(client, session.id, 'Refund order-7.');
      await client.query('commit');
      client.release();
      return (await baton.client.runs.result(runId)).text;
    };
    expect(await ask()).toBe('Done.');
    const reader = new AbortController();
    const events = await fetch(`${url}/v1/sessions/${session.id}/events`, { signal: reader.signal });
    expect(events.status).toBe(200);
    for (const { name, garbage, send } of channels) {
      await fc.assert(
        fc.asyncProperty(garbage, async (each) => {
          await send(each);
          expect(watch.causes, name).toEqual([]);
        }),
      );
    }
    expect(await ask()).toBe('Done.');
    expect((await fetch(`${url}/livez`)).status).toBe(200);
    reader.abort();
    await pool.query(`select pg_notify('baton_sent:', 'the last one')`);
    await expect
      .poll(() => started.logged.filter((entry) => 'event' in entry && entry.event === 'notification_ignored').length)
      .toBeGreaterThan(0);
    expect(watch.causes).toEqual([]);
  });
});
