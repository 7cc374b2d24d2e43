import { randomBytes, randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import { expect, inject, it } from 'vitest';
import type { JobPayload } from '../../src/domain/run/job.ts';
import type { LogEvent } from '../../src/platform/log.ts';
import { createJobQueues } from '../../src/queues/bullmq-queues.ts';
import type { JobQueues } from '../../src/queues/job-queue.ts';
import { eventually } from '../support/eventually.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';

const redisUrl = inject('redisUrl');

/** What happens to a Redis at the first answers of a start. `stall`: what is open then never carries a byte again. */
type Harm = 'refuse' | 'stall';

type Outage = AsyncDisposable & Readonly<{ url: string; hasStruck: () => boolean; end: () => Promise<void> }>;

/** A Redis that goes away right after its n-th answer, counted over all connections, until `end`. */
async function startOutage(target: string, harm: Harm, nth: number): Promise<Outage> {
  let answers = 0;
  let strike: 'due' | 'done' | 'over' = 'due';
  const proxy = await startTcpProxy(target, (client) => {
    const isDead = { value: false };
    open.push(isDead);
    return (bytes) => {
      if (isDead.value) return;
      client.write(bytes);
      answers += 1;
      if (strike !== 'due' || answers < nth) return;
      strike = 'done';
      // What is asked upon this answer is on its way, and gets none.
      for (const each of open) each.value = true;
      if (harm === 'refuse') setImmediate(() => void proxy.refuse());
    };
  });
  const open: { value: boolean }[] = [];
  return {
    url: proxy.via(target),
    hasStruck: () => strike !== 'due',
    async end() {
      strike = 'over';
      await proxy.restore();
    },
    [Symbol.asyncDispose]: proxy[Symbol.asyncDispose],
  };
}

const newJob = (): JobPayload => ({ runId: randomUUID(), kind: 'step', no: 1, dispatch: 1 });

const added = (queues: JobQueues, job: JobPayload) =>
  eventually(
    () =>
      queues.add([job]).then(
        () => true,
        () => false,
      ),
    'a job is added',
  );

const MOMENTS = (['refuse', 'stall'] as const).flatMap((harm) =>
  (harm === 'refuse' ? [1, 3, 4, 5, 6, 8] : [1, 5]).map((nth) => ({ harm, nth })),
);

it.skipIf(redisUrl === null).each(MOMENTS)(
  'queues work when Redis goes away ($harm) with answer $nth of their start',
  async ({ harm, nth }) => {
    await using stack = new AsyncDisposableStack();
    const prefix = `baton-test-${randomBytes(6).toString('hex')}`;
    const admin = stack.adopt(new Redis(redisUrl ?? ''), (redis) => redis.disconnect());
    stack.defer(async () => {
      const keys = await admin.keys(`${prefix}*`);
      if (keys.length > 0) await admin.del(...keys);
    });
    const outage = stack.use(await startOutage(redisUrl ?? '', harm, nth));
    const logged: LogEvent[] = [];
    const queues = stack.use(
      createJobQueues({
        backend: 'redis',
        url: outage.url,
        prefix,
        log: (_level, event) => void logged.push(event),
      }),
    );
    await eventually(async () => outage.hasStruck(), 'Redis goes away');
    const refusals = () => logged.filter(({ event }) => event === 'queue_error').length;
    // Two for each of the four queues: ioredis gives commands up at the second.
    if (harm === 'refuse') await eventually(async () => refusals() >= 12, 'connections are refused');
    await outage.end();
    const job = newJob();
    await added(queues, job);
    const taken = Promise.withResolvers<JobPayload>();
    await queues.consume(
      'step',
      async (each) => {
        taken.resolve(each);
        return { outcome: 'done' };
      },
      { concurrency: 1 },
    );
    expect(await taken.promise).toEqual(job);
  },
);
