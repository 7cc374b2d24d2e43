import { BatonError } from '../domain/errors.ts';
import type { Config } from '../platform/config.ts';
import type { Log } from '../platform/log.ts';
import { createJobQueues } from './bullmq-queues.ts';
import type { JobQueues } from './job-queue.ts';

/**
 * The queues that the configuration names: over Redis, or over this Postgres where it names none. There each is tried,
 * since BullMQ would remember for good that its first connection was not made.
 * @throws BatonError `config_invalid` where the queue's tables are not in Postgres; when it cannot be used otherwise
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
  await Promise.all(queues.bullQueues().map((queue) => queue.waitUntilReady())).catch(sayWhatIsMissing);
  stack.move();
  return queues;
}

/** A database that was used with Redis alone has our tables, and not those of the queue. */
function sayWhatIsMissing(error: unknown): never {
  if (!(error instanceof Error && error.name === 'SchemaMigrationRequiredError')) throw error;
  const message = 'the database lacks the tables of the queues, which are in Postgres without REDIS_URL';
  throw new BatonError('config_invalid', `${message}: run "npm run migrate"`, { cause: error });
}
