import { join } from 'node:path';
import { type BackendFactory, createPostgresBackend, type IQueueBackend, Queue } from 'bullmq';
import { type JobPayload, toQueuedJob } from '../../../src/domain/run/job.ts';
import type { Random } from '../../support/random.ts';
import type { Fault } from '../fault.ts';
import type { World } from '../world/world.ts';
import { copyProduct, type SourceChange, WORKER, WORKER_FILE } from './product-copy.ts';
import { createFailing, failuresOf } from './provider.ts';
import { pause, repeatedly } from './repeatedly.ts';

/** The worker adds the next job by itself, and ends the one before it late, so an idle worker is faster. */
export const LATE_ENDS: readonly SourceChange[] = [
  {
    file: 'src/queues/hand-over.ts',
    find: 'if (next !== undefined && takesNext) {',
    replace: 'if (takesNext === null) {',
  },
  {
    file: 'src/queues/hand-over.ts',
    find: '    if (next !== undefined) addNext(next);',
    replace: `    if (next !== undefined) {
      addNext(next);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }`,
  },
];

/** Another version of the product. */
export const NEWER_VERSION: readonly SourceChange[] = [
  { file: 'src/domain/tunables.ts', find: 'ENGINE_VERSION = 1', replace: 'ENGINE_VERSION = 2' },
];

export const JOBS: readonly Fault[] = [
  {
    name: 'duplicate-jobs',
    about: 'jobs twice, jobs of steps that are over, that are yet to come, or that wait to be tried again',
    isHarmless: true,
    strike: (world, random, signal) =>
      withQueue(world, async (queue) => {
        const strays = addStrayJobs(world, queue, random.fork('strays'), signal);
        await Promise.all([strays, holdUp(world, random.fork('provider'), signal)]);
      }),
    hits: failuresOf,
  },
  {
    name: 'stolen-jobs',
    about: 'other workers take the jobs of steps that a worker has begun without them',
    isHarmless: true,
    workers: 4,
    async versions({ folder }) {
      return [join(await copyProduct(folder, LATE_ENDS), WORKER_FILE)];
    },
    hits: ({ timeline }) => ({ 'jobs of steps that another worker had begun': timeline.jobsOfOthers() }),
  },
  {
    name: 'paused-queue',
    about: 'an operator pauses the queue of steps, and resumes it',
    isHarmless: true,
    // Steps that take longer than a worker needs to know of a pause: it must not act on what it knew at their begin.
    manners: { maxRounds: 5, chunkDelayMs: 100, toolMs: 200 },
    strike: (world, random, signal) =>
      withQueue(world, (queue) =>
        repeatedly({ random, signal, pauseMs: [300, 1_200] }, async () => {
          await queue.pause();
          await pause(KNOWN_AFTER_MS, signal);
          const begun = await stepsBegun(world);
          await pause(random.between(300, 900), signal);
          if ((await queue.isPaused()) && !signal.aborted) {
            world.strikes.add('pauses');
            world.begunWhilePaused.push(...(await stepsBegun(world)).filter((id) => !begun.includes(id)));
          }
          await queue.resume();
        }),
      ),
  },
  {
    name: 'mixed-versions',
    about: 'two versions side by side, and runs that only the newer one may work on',
    workers: 4,
    async versions({ folder }) {
      return [WORKER, join(await copyProduct(folder, NEWER_VERSION), WORKER_FILE)];
    },
    strike: (world, random, signal) =>
      repeatedly({ random, signal, pauseMs: [500, 1_000] }, async () => {
        const before = await newerRuns(world);
        await requireEngine(world, 2);
        let after: number;
        do {
          await pause(random.between(50, 200), signal);
          after = await newerRuns(world);
        } while (after === before && !signal.aborted);
        await requireEngine(world, 1);
        world.strikes.add('runs of the newer version', after - before);
      }),
  },
];

/** A worker takes a queue for paused at the latest a second after its last answer, and ends the step that it has begun. */
const KNOWN_AFTER_MS = 1_500;

async function stepsBegun({ database }: World): Promise<string[]> {
  const { rows } = await database.query<{ id: string }>("select id from messages where role = 'assistant'");
  return rows.map(({ id }) => id);
}

/** Of runs that are started from now on, as a newer version's migration would set it. */
async function requireEngine({ database }: World, engine: number): Promise<void> {
  await database.query(`alter table runs alter column required_engine set default ${engine}`);
}

async function newerRuns({ database }: World): Promise<number> {
  const { rows } = await database.query<{ count: number }>(
    'select count(*)::int as count from runs where required_engine = 2',
  );
  return rows[0]?.count ?? 0;
}

/** Some requests are refused: their steps are tried again a second later, and a job that comes before that is early. */
function holdUp(world: World, random: Random, signal: AbortSignal): Promise<void> {
  const fail = createFailing(world);
  return repeatedly({ random, signal, pauseMs: [50, 400] }, () =>
    fail(random.pick([{ kind: 'rate-limit', retryAfterMs: random.between(50, 400) }, { kind: 'overloaded' }])),
  );
}

async function addStrayJobs(
  { database, strikes }: World,
  queue: Queue,
  random: Random,
  signal: AbortSignal,
): Promise<void> {
  let no = 0;
  strikes.add('stray jobs', 0);
  await repeatedly({ random, signal, pauseMs: [5, 40] }, async () => {
    const { rows } = await database.query<JobPayload>(
      `select id as "runId", pending_kind as kind, pending_no as no, pending_dispatch as dispatch from runs
       where pending_kind = 'step' order by random() limit 5`,
    );
    for (const pending of rows) {
      const stray = random.pick<JobPayload>([
        pending,
        pending,
        { ...pending, dispatch: Math.max(1, pending.dispatch - 1) },
        { ...pending, no: Math.max(1, pending.no - 1) },
        { ...pending, dispatch: pending.dispatch + 1 },
        { ...pending, no: pending.no + 1, dispatch: pending.dispatch + 1 },
      ]);
      // Under an id of its own, or the queue would drop it as one that it knows.
      await queue.add(pending.kind, toQueuedJob(stray), {
        jobId: `stray-${++no}`,
        removeOnComplete: true,
        removeOnFail: true,
      });
      strikes.add('stray jobs');
    }
  });
}

async function withQueue(world: World, work: (queue: Queue) => Promise<void>): Promise<void> {
  const queue =
    world.redis === null
      ? new Queue(
          'steps',
          {
            connection: {
              connectionString: world.postgres.connectionString().replace(/[^/]*$/, await databaseName(world)),
              schema: 'bullmq',
              max: 1,
            },
          } as never,
          createPostgresBackend as BackendFactory<IQueueBackend, never> as never,
        )
      : new Queue('steps', {
          connection: { port: world.redis.port, host: '127.0.0.1' },
          prefix: world.environment['BATON_QUEUE_PREFIX'] ?? '',
        });
  queue.on('error', () => undefined);
  try {
    await work(queue);
  } finally {
    await queue.close();
  }
}

async function databaseName({ database }: World): Promise<string> {
  const { rows } = await database.query<{ name: string }>('select current_database() as name');
  return rows[0]?.name ?? '';
}
