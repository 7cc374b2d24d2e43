import { type IRedisClient, RedisQueueBackend } from 'bullmq';
import { BatonError } from '../domain/errors.ts';
import { type Log, toSafeError } from '../platform/log.ts';
import { within } from '../platform/within.ts';
import { ANSWER_WITHIN_MS } from './bullmq-transport.ts';
import type { JobQueues } from './job-queue.ts';

/** A process that ends without a word holds the prefix for this long. */
const HELD_FOR_MS = 30_000;
const HOLD_AGAIN_MS = 10_000;

/**
 * The members of a sorted set are the living processes of the prefix, `database process`, with the time by the clock of
 * Redis until which each is believed. Returns a member of another database, and then adds nothing.
 */
const HOLD = `
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('zremrangebyscore', KEYS[1], '-inf', now)
for _, member in ipairs(redis.call('zrange', KEYS[1], 0, -1)) do
  if string.sub(member, 1, #ARGV[1]) ~= ARGV[1] then return member end
end
redis.call('zadd', KEYS[1], now + ARGV[3], ARGV[1] .. ' ' .. ARGV[2])
redis.call('pexpire', KEYS[1], ARGV[3])
return false`;
const RELEASE = `return redis.call('zrem', KEYS[1], ARGV[1] .. ' ' .. ARGV[2])`;

export type PrefixHold = AsyncDisposable & Readonly<{ again: () => Promise<void> }>;

type Holder = Readonly<{ prefix: string; databaseId: string; workerId: string; log: Log }>;

/**
 * Holds the prefix in Redis for this database until it is disposed. Two databases on one prefix would take, and drop,
 * each other's jobs.
 * @returns null without a Redis
 * @throws BatonError `config_invalid`: processes of another database use the prefix
 */
export async function holdPrefix(jobs: JobQueues, holder: Holder): Promise<PrefixHold | null> {
  const backend: unknown = jobs.bullQueues()[0]?.getBackend();
  if (!(backend instanceof RedisQueueBackend)) return null;
  const { prefix, databaseId, workerId, log } = holder;
  const run = async (command: string, ...args: string[]): Promise<unknown> => {
    const client: IRedisClient = await backend.client;
    client.defineCommand('batonHoldPrefix', { numberOfKeys: 1, lua: HOLD });
    client.defineCommand('batonReleasePrefix', { numberOfKeys: 1, lua: RELEASE });
    return client.runCommand(command, [`${prefix}:installation`, databaseId, workerId, ...args]);
  };
  /** The other holder. Null: there is none, or Redis did not answer, which delays work but harms nothing. */
  const hold = async (): Promise<string | null> => {
    try {
      const other = await within(ANSWER_WITHIN_MS, run('batonHoldPrefix', String(HELD_FOR_MS)));
      return typeof other === 'string' ? other : null;
    } catch (error) {
      log('warn', { event: 'queue_error', queue: 'installation', error: toSafeError(error) });
      return null;
    }
  };
  const other = await hold();
  if (other !== null) throw refusal(prefix, other);
  const again = async (): Promise<void> => {
    const now = await hold();
    if (now !== null) log('error', { event: 'queue_prefix_shared', prefix, other: processOf(now) });
  };
  const timer = setInterval(() => void again(), HOLD_AGAIN_MS).unref();
  return {
    again,
    async [Symbol.asyncDispose]() {
      clearInterval(timer);
      await within(ANSWER_WITHIN_MS, run('batonReleasePrefix')).catch(() => undefined);
    },
  };
}

const processOf = (member: string): string => member.slice(member.indexOf(' ') + 1);

function refusal(prefix: string, other: string): BatonError {
  const what = `BATON_QUEUE_PREFIX (${prefix}): a process with another database uses it in this Redis (${processOf(other)})`;
  const how = `give each database a prefix of its own. If that process has ended with its database, start again in ${HELD_FOR_MS / 1000} s`;
  return new BatonError('config_invalid', `${what}: ${how}`);
}
