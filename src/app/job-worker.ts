import { mkdir } from 'node:fs/promises';
import { createClaimKeeper } from '../claims/claim-keeper.ts';
import { createViewCache } from '../claims/view-cache.ts';
import { runPrune } from '../compaction/prune/run-prune.ts';
import { runCompaction } from '../compaction/run-compaction.ts';
import type { CompactionDeps } from '../compaction/work.ts';
import { BatonError } from '../domain/errors.ts';
import type { JobPayload } from '../domain/run/job.ts';
import { PENDING_KINDS, type PendingKind } from '../domain/run/run.ts';
import { type Config, VARIABLES } from '../platform/config.ts';
import type { Log } from '../platform/log.ts';
import type { JobHandler, JobOutcome } from '../queues/job-queue.ts';
import { startReconciler } from '../recovery/reconciler.ts';
import { startRetention } from '../recovery/retention.ts';
import { retryFailed } from '../recovery/retry-failed.ts';
import { registerPresence } from '../recovery/worker-presence.ts';
import { watchWorkers } from '../recovery/worker-watch.ts';
import { runStep } from '../step/run-step.ts';
import { createTextAppender } from '../step/text-appender.ts';
import { isolationOfCommands } from '../tools/isolation.ts';
import type { Dependencies } from './dependencies.ts';

type Work = Readonly<{
  run: (deps: CompactionDeps, job: JobPayload, signal: AbortSignal) => Promise<JobOutcome>;
  concurrency: (config: Config) => number;
}>;

/** The worker's function for each kind of job, and how many of these jobs it takes at the same time. */
const WORK: Readonly<Record<PendingKind, Work>> = {
  step: { run: runStep, concurrency: (config) => config.stepConcurrency },
  compaction: { run: runCompaction, concurrency: (config) => config.compactionConcurrency },
  prune: { run: runPrune, concurrency: (config) => config.pruneConcurrency },
};

export type JobWorker = AsyncDisposable & Readonly<{ activeJobs: () => number }>;

/**
 * Takes jobs of these kinds, by default all, until it is disposed. Then it takes no more, gives active jobs a grace
 * time, aborts the others and hands them back: a restart loses nothing and repeats nothing.
 */
export async function startJobWorker(
  deps: Dependencies,
  kinds: readonly PendingKind[] = PENDING_KINDS,
): Promise<JobWorker> {
  const { config, db, bus, jobs, log } = deps;
  const { leaseDurationMs, heartbeatIntervalMs, tenantConcurrency } = config;
  // One process may have several workers, and each needs its own id.
  const workerId = `${deps.workerId}-${deps.newId().slice(-6)}`;
  if (kinds.includes('step')) await prepareForTools(config, log);
  await using stack = new AsyncDisposableStack();
  const presence = stack.use(
    await registerPresence({ db, connectionString: deps.databaseUrl, workerId, kinds, heartbeatIntervalMs, log }),
  );
  const claims = stack.use(await createClaimKeeper({ db, bus, log, leaseDurationMs, heartbeatIntervalMs }));
  const modelTimeouts = {
    firstChunkMs: config.firstChunkTimeoutMs,
    idleChunkMs: config.idleChunkTimeoutMs,
    wholeStepMs: config.stepTimeoutMs,
  };
  const workDeps: CompactionDeps = {
    ...deps,
    workerId,
    claims,
    views: createViewCache(),
    appendText: createTextAppender(db),
    tenantConcurrency,
    modelTimeouts,
    random: Math.random,
    traceContent: config.traceContent,
  };
  stack.use(startReconciler({ db, jobs, bus, log, tenantConcurrency, leaseDurationMs }));
  stack.use(startRetention({ db, jobs, log }, config.retentionDays));
  stack.use(watchWorkers({ db, jobs, bus, log, workerId, leaseDurationMs }));
  const consumers = kinds.map((kind) => {
    const { run, concurrency } = WORK[kind];
    const work: JobHandler = (job, signal, isRetry) =>
      isRetry ? retryFailed(workDeps, job) : run(workDeps, job, signal);
    return jobs.consume(kind, work, { concurrency: concurrency(config), workerId });
  });
  stack.defer(async () => {
    const started = (await Promise.allSettled(consumers)).flatMap((consumer) =>
      consumer.status === 'fulfilled' ? [consumer.value] : [],
    );
    await Promise.all(started.map((consumer) => consumer.pause()));
    const grace = setTimeout(() => claims.stopAll('shutdown'), config.shutdownGraceMs);
    try {
      await Promise.all(started.map((consumer) => consumer[Symbol.asyncDispose]()));
    } finally {
      clearTimeout(grace);
    }
  });
  const taking = await Promise.all(consumers);
  stack.use(deps.health.add('worker_lock', () => refuseLongLoss(presence.lostForMs(), leaseDurationMs)));
  stack.use(
    deps.health.add('consumers', () => {
      if (!taking.every((consumer) => consumer.isTaking())) throw new Error('no jobs are taken');
    }),
  );
  const owned = stack.move();
  return { activeJobs: () => claims.count(), [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** Only workers of steps run tools. */
async function prepareForTools({ workspaceDir }: Config, log: Log): Promise<void> {
  const { isApart } = await isolationOfCommands();
  if (!isApart) log('warn', { event: 'commands_not_apart', reason: NOT_APART });
  try {
    await mkdir(workspaceDir, { recursive: true });
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new BatonError('config_invalid', `${VARIABLES.workspaceDir}: the folder cannot be made: ${why}`, { cause });
  }
}

const NOT_APART =
  'This system gives no process a user namespace or fewer capabilities: commands of bash and MCP servers over stdio can read the keys of ' +
  'this worker, and by them the data of every tenant.';

/** A short loss of the lock is harmless: the worker still renews its sign of life, and takes another lock. */
function refuseLongLoss(lostForMs: number, leaseDurationMs: number): void {
  if (lostForMs > leaseDurationMs) throw new Error('the lock that shows that this worker lives is gone');
}
