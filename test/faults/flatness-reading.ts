import { EventEmitter } from 'node:events';
import { setImmediate as turnOfTheLoop } from 'node:timers/promises';
import { getHeapSpaceStatistics, queryObjects } from 'node:v8';
import { QUEUE_SCHEMA } from '../../src/queues/migrate.ts';
import { type FlatnessService, PROBE } from './flatness-service.ts';

/** How many there are of everything that could pile up, by name. */
export type Counts = Readonly<Record<string, number>>;

const timer = setTimeout(() => undefined, 0);
clearTimeout(timer);

/**
 * Classes whose living objects are counted: also timers that keep no process alive, and signals that nobody can reach.
 */
const CLASSES = { timers: timer.constructor, abortSignals: AbortSignal } as const;

/** Reads what the service holds at this moment: here, in Postgres and in Redis. */
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
 * Counts living objects by class. For each V8 collects garbage until there is none, which takes a second or more. What
 * one collection finalizes only the next one frees: signals come last.
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

/** Each class by itself: one connection more is several emitters, but one of each class. */
function countEmitters(): Record<string, number> {
  const summaries = queryObjects(EventEmitter as never, { format: 'summary' });
  const named = Map.groupBy(summaries, (summary) => /^(?:<ref \*\d+> )?(\w+)/.exec(summary)?.[1] ?? 'unnamed');
  return Object.fromEntries([...named].map(([name, all]) => [`emitters.${name}`, all.length]));
}

/** Where V8 keeps compiled code, bytecode and what belongs to them. */
const CODE_SPACES: ReadonlySet<string> = new Set([
  'code_space',
  'code_large_object_space',
  'trusted_space',
  'trusted_large_object_space',
]);

/**
 * What objects take of the heap. Code is left out: V8 compiles what is used a lot again and again, and throws away what
 * is old, so that its size wanders for thousands of runs by as much as a small leak makes.
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

/** What the queue keeps in Postgres: every table of its own. */
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
