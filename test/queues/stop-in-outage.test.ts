import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { JobPayload } from '../../src/domain/run/job.ts';
import { availableBackends } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';
import { createQueueFixture } from './queue-fixture.ts';

const newJob = (): JobPayload => ({ runId: randomUUID(), kind: 'step', no: 1, dispatch: 1 });

describe.each(availableBackends())('a consumer on %s whose server is gone', (backend) => {
  it.each(['refuse', 'blackhole'] as const)('ends while it waits for jobs (%s)', async (harm) => {
    await using fixture = await createQueueFixture(backend);
    await using proxy = await startTcpProxy(fixture.url);
    const queues = fixture.open(proxy.via);
    const consumer = await queues.consume('step', async () => ({ outcome: 'done' }), { concurrency: 2 });
    await proxy[harm]();
    const refused = () => fixture.logged.filter(({ event }) => event === 'queue_error').length;
    if (harm === 'refuse') await eventually(async () => refused() > 4, 'the consumer has tried to connect');
    await consumer[Symbol.asyncDispose]();
  });

  it.each(['refuse', 'blackhole'] as const)('ends after the job in hand, which others find (%s)', async (harm) => {
    await using fixture = await createQueueFixture(backend);
    await using proxy = await startTcpProxy(fixture.url);
    const queues = fixture.open(proxy.via);
    const { promise: taken, resolve: take } = Promise.withResolvers<void>();
    const { promise: over, resolve: end } = Promise.withResolvers<void>();
    const handler = async () => {
      take();
      await over;
      return { outcome: 'done' } as const;
    };
    const consumer = await queues.consume('step', handler, { concurrency: 2 });
    const job = newJob();
    await queues.add([job]);
    await taken;
    await proxy[harm]();
    const disposed = consumer[Symbol.asyncDispose]();
    end();
    await disposed;
    expect(await fixture.open().stateOf(job)).toBe('active');
  });
});
