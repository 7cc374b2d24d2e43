import type { Config } from '../runtime/config.ts';
import type { Log } from '../runtime/log.ts';
import { createJobQueues } from './bullmq-queues.ts';
import type { JobQueues } from './job-queue.ts';

/** The queues that the configuration names: over Redis, or over this Postgres where it names none. */
export function openQueues(config: Pick<Config, 'redisUrl' | 'queuePrefix'>, databaseUrl: string, log: Log): JobQueues {
  return config.redisUrl === undefined
    ? createJobQueues({ backend: 'postgres', connectionString: databaseUrl, log })
    : createJobQueues({ backend: 'redis', url: config.redisUrl, prefix: config.queuePrefix, log });
}
