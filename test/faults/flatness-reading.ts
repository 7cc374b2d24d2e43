import { EventEmitter } from 'node:events';
import { setImmediate as turnOfTheLoop } from 'node:timers/promises';
import { getHeapSpaceStatistics, queryObjects } from 'node:v8';
import { QUEUE_SCHEMA } from '../../src/queues/migrate.ts';
import { type FlatnessService, PROBE } from './flatness-service.ts';

/** Numbers of all things that could pile up, by name. */
export type Counts = Readonly<Record<string, number>>;

const timer = setTimeout(() => undefined, 0);
clearTimeout(timer);

/**
 * Classes whose living objects are counted. The counts include timers that keep no process alive, and signals to which
 * the test has no reference.
 */
const CLASSES = { timers: timer.constructor, abortSignals: AbortSignal } as const;

/** Reads the counts of the service at this moment: in this process, in Postgres and in Redis. */
export async function readCounts(service: FlatnessService): Promise<Counts> {
  return {
    connections: await countRows(
      service,
      `pg_stat_activity where datname = current_database() and backend_type = 'client backend' and application_name <> '${PROBE}'`,
    ),
    workers: await countRows(service, 'workers'),
    ...(await countQueueRows(service)),
    ...(await countInRedis(service)),
    claims: service.worker.activeJobs(),
    processListeners: process.eventNames().reduce((sum, name) => sum + process.listenerCount(name), 0),
    ...countHandles(),
  };
}

/**
 * Counts living objects by class; for each class V8 collects garbage until there is none, which takes a second or more.
 * Signals come last, because an object that one collection finalizes is only freed by the next one.
 */
export async function countObjects(): Promise<Counts> {
  const counts: Record<string, number> = countEmitters();
  await turnOfTheLoop();
  for (const [name, kind] of Object.entries(CLASSES)) {
    counts[name] = queryObjects(kind as never, { format: 'count' });
    await turnOfTheLoop();
  }
  return counts;
}

/** Counts each class by itself: one more connection adds several emitters, but only one of each class. */
function countEmitters(): Record<string, number> {
  const summaries = queryObjects(EventEmitter as never, { format: 'summary' });
  const named = Map.groupBy(summaries, (summary) => /^(?:<ref \*\d+> )?(\w+)/.exec(summary)?.[1] ?? 'unnamed');
  return Object.fromEntries([...named].map(([name, all]) => [`emitters.${name}`, all.length]));
}

/** The heap spaces in which V8 keeps compiled code, bytecode and the data that belongs to them. */
const CODE_SPACES: ReadonlySet<string> = new Set([
  'code_space',
  'code_large_object_space',
  'trusted_space',
  'trusted_large_object_space',
]);

/**
 * Size of the heap's objects without code. V8 compiles code that is used a lot again and again and throws old code
 * away, so the size of code wanders for thousands of runs by as much as a small leak adds.
 */
export function readObjectBytes(): number {
  const spaces = getHeapSpaceStatistics().filter(({ space_name: name }) => !CODE_SPACES.has(name));
  return spaces.reduce((sum, { space_used_size: bytes }) => sum + bytes, 0);
}

function countHandles(): Counts {
  const kinds = Map.groupBy(process.getActiveResourcesInfo(), (kind) => `handles.${kind}`);
  return Object.fromEntries([...kinds].map(([kind, all]) => [kind, all.length]));
}

async function countRows({ postgres }: FlatnessService, source: string): Promise<number> {
  const { rows } = await postgres.query<{ count: number }>(`select count(*)::integer as count from ${source}`);
  return rows[0]?.count ?? 0;
}

/** Counts the rows of every table that the queue has in Postgres. */
async function countQueueRows(service: FlatnessService): Promise<Counts> {
  const { rows } = await service.postgres.query<{ name: string }>(
    'select tablename as name from pg_tables where schemaname = $1',
    [QUEUE_SCHEMA],
  );
  const counts: Record<string, number> = {};
  for (const { name } of rows) counts[`queue.${name}`] = await countRows(service, `${QUEUE_SCHEMA}."${name}"`);
  return counts;
}

async function countInRedis({ redis, prefix }: FlatnessService): Promise<Counts> {
  if (redis === null) return {};
  const clients = String(await redis.client('LIST')).split('\n');
  return {
    redisClients: clients.filter((line) => line.includes(`name=${prefix}`)).length,
    redisKeys: (await redis.keys(`${prefix}*`)).length,
  };
}
