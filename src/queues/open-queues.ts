import type { Config } from '../platform/config.ts';
import type { Log } from '../platform/log.ts';
import { createJobQueues } from './bullmq-queues.ts';
import type { JobQueues } from './job-queue.ts';

/**
 * The queues that the configuration names: over Redis, or over this Postgres where it names none. There each is tried,
 * since BullMQ would remember for good that its first connection was not made.
 * @throws when a queue over Postgres cannot be used
 */
export async function openQueues(
  config: Pick<Config, 'redisUrl' | 'queuePrefix'>,
  databaseUrl: string,
  log: Log,
): Promise<JobQueues> {
  const { redisUrl, queuePrefix } = config;
  if (redisUrl !== undefined) return createJobQueues({ backend: 'redis', url: redisUrl, prefix: queuePrefix, log });
  await using stack = new AsyncDisposableStack();
  const queues = stack.use(createJobQueues({ backend: 'postgres', connectionString: databaseUrl, log }));
  await Promise.all(queues.bullQueues().map((queue) => queue.waitUntilReady()));
  stack.move();
  return queues;
}
