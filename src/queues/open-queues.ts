import { BatonError } from '../domain/errors.ts';
import { batonCommand } from '../platform/baton-command.ts';
import type { Config } from '../platform/config.ts';
import { AsyncDisposableStack } from '../platform/disposable-stacks.ts';
import type { Log } from '../platform/log.ts';
import { type RedisSettings, redisServerOf } from '../platform/redis-server.ts';
import type { WorkWatch } from '../platform/work-watch.ts';
import { createJobQueues } from './bullmq-queues.ts';
import type { JobQueues } from './job-queue.ts';

/**
 * Opens the configured queues: over Redis, else over this Postgres. There each connection is tried first, because
 * BullMQ would remember a failed one for good.
 * @throws BatonError `config_invalid` if Postgres lacks the queue's tables; errors of BullMQ
 */
export async function openQueues(
  config: RedisSettings & Pick<Config, 'queuePrefix' | 'schema'>,
  databaseUrl: string,
  log: Log,
  watch?: WorkWatch,
): Promise<JobQueues> {
  const { queuePrefix, schema } = config;
  const redis = redisServerOf(config);
  if (redis !== undefined)
    return createJobQueues({ backend: 'redis', ...redis, prefix: queuePrefix, log, ...(watch && { watch }) });
  await using stack = new AsyncDisposableStack();
  const queues = stack.use(
    createJobQueues({ backend: 'postgres', connectionString: databaseUrl, schema, log, ...(watch && { watch }) }),
  );
  await Promise.all(queues.bullQueues().map((queue) => queue.waitUntilReady())).catch(sayWhatIsMissing);
  stack.move();
  return queues;
}

/** A database that was only used with Redis has Baton's tables, but not those of the queue. */
function sayWhatIsMissing(error: unknown): never {
  if (!(error instanceof Error && error.name === 'SchemaMigrationRequiredError')) throw error;
  const message = 'the database lacks the tables of the queues, which are in Postgres without REDIS_URL';
  throw new BatonError('config_invalid', `${message}: run "${batonCommand()} migrate"`, { cause: error });
}
