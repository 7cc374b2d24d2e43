import { mkdir } from 'node:fs/promises';
import { type CarriedSteps, createCarriedSteps } from '../claims/carried-steps.ts';
import { type ClaimKeeper, createClaimKeeper } from '../claims/claim-keeper.ts';
import { type ExtraSlots, startExtraSlots } from '../claims/extra-slots.ts';
import { createMissingCode } from '../claims/missing-code.ts';
import { createTenantsAtWork, type TenantsAtWork } from '../claims/tenants-at-work.ts';
import { createViewCache } from '../claims/view-cache.ts';
import { addJobs } from '../commands/after-commit.ts';
import { runPrune } from '../compaction/prune/run-prune.ts';
import { runCompaction } from '../compaction/run-compaction.ts';
import type { CompactionDeps } from '../compaction/work.ts';
import { keepLooking } from '../delegation/child-keeper.ts';
import { BatonError } from '../domain/errors.ts';
import { JOB_KINDS, type JobKind, type JobPayload } from '../domain/run/job.ts';
import { PENDING_KINDS, type PendingKind } from '../domain/run/run.ts';
import type { Config } from '../platform/config.ts';
import { AsyncDisposableStack } from '../platform/disposable-stacks.ts';
import type { Log } from '../platform/log.ts';
import { VARIABLES } from '../platform/settings.ts';
import type { JobConsumer, JobHandler, JobOutcome, RunConsumer } from '../queues/job-queue.ts';
import { startReconciler } from '../recovery/reconciler.ts';
import { startRetention } from '../recovery/retention.ts';
import { retryFailed } from '../recovery/retry-failed.ts';
import { startWordIndexer } from '../recovery/word-indexer.ts';
import { registerPresence } from '../recovery/worker-presence.ts';
import { watchWorkers } from '../recovery/worker-watch.ts';
import { startScheduler } from '../schedules/scheduler.ts';
import { runStep } from '../step/run-step.ts';
import { createStepWriter } from '../step/step-writer.ts';
import { createTextAppender } from '../step/text-appender.ts';
import { historyOf } from '../store/db/history.ts';
import { isolationOfCommands } from '../tools/isolation.ts';
import { webhookPolicyOf } from '../webhooks/check-webhook.ts';
import { deliver } from '../webhooks/deliver.ts';
import { startDispatcher } from '../webhooks/dispatcher.ts';
import type { Dependencies } from './dependencies.ts';

type Work = Readonly<{
  run: (deps: CompactionDeps, job: JobPayload, signal: AbortSignal) => Promise<JobOutcome>;
  concurrency: (config: Config) => number;
}>;

/** The worker's function for each kind of pending work, and how many of these jobs it takes at the same time. */
const WORK: Readonly<Record<PendingKind, Work>> = {
  step: { run: runStep, concurrency: (config) => config.stepConcurrency },
  compaction: { run: runCompaction, concurrency: (config) => config.compactionConcurrency },
  prune: { run: runPrune, concurrency: (config) => config.pruneConcurrency },
};

export type JobWorker = AsyncDisposable & Readonly<{ activeJobs: () => number }>;

/**
 * Takes jobs of these kinds, by default all, until it is disposed. Then it takes no more, gives active jobs a grace
 * time, aborts the others and hands them back: a restart loses nothing and repeats nothing.
 * @param graceMs asked when it is disposed; default: that of the configuration
 */
export async function startJobWorker(
  deps: Dependencies,
  kinds: readonly JobKind[] = JOB_KINDS,
  graceMs: () => number = () => deps.config.shutdownGraceMs,
): Promise<JobWorker> {
  const { config, db, bus, jobs, log } = deps;
  const { leaseDurationMs, heartbeatIntervalMs, tenantConcurrency } = config;
  // One process may have several workers, and each needs its own id.
  const workerId = `${deps.workerId}-${deps.newId().slice(-6)}`;
  if (kinds.includes('step') && deps.hasWorkspace) await prepareForTools(config, log);
  await using stack = new AsyncDisposableStack();
  const presence = stack.use(
    await registerPresence({ db, connectionString: deps.databaseUrl, workerId, kinds, heartbeatIntervalMs, log }),
  );
  const claims = stack.use(await createClaimKeeper({ db, bus, log, leaseDurationMs, heartbeatIntervalMs }));
  const carried = createCarriedSteps({
    log,
    concurrency: config.stepConcurrency,
    isPaused: () => jobs.isPaused('step'),
    addAgain: (job) => addJobs(deps, [job]),
  });
  const missingCode = createMissingCode(log);
  const views = createViewCache();
  stack.use(historyOf(db).onChange(views.forgetAll));
  const atWork = createTenantsAtWork();
  startKeepers(deps, { workerId, kinds, leaseDurationMs }, stack);
  const workDeps: WorkDeps = {
    ...deps,
    atWork,
    missingCode,
    workerId,
    claims,
    carried,
    views,
    appendText: createTextAppender(db),
    writes: createStepWriter(db),
    tenantConcurrency,
    modelTimeouts: {
      firstChunkMs: config.firstChunkTimeoutMs,
      idleChunkMs: config.idleChunkTimeoutMs,
      wholeStepMs: config.stepTimeoutMs,
    },
    random: Math.random,
    traceContent: config.traceContent,
  };
  const shutdown = new AbortController();
  const { consumers, extraSlots } = takeJobs(deps, workDeps, kinds);
  if (kinds.includes('delivery')) consumers.push(consumeDeliveries(deps, workerId, shutdown.signal, stack));
  stack.defer(() => endWork({ claims, carried, consumers, extraSlots, shutdown }, graceMs));
  const taking = await Promise.all(consumers);
  stack.use(deps.health.add('worker_lock', () => refuseLongLoss(presence.lostForMs(), leaseDurationMs)));
  stack.use(
    deps.health.add('consumers', () => {
      if (!taking.every((consumer) => consumer.isTaking())) throw new Error('no jobs are taken');
    }),
  );
  stack.use(deps.health.add('agent_code', missingCode.words));
  const owned = stack.move();
  return { activeJobs: () => claims.count(), [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** Starts what every worker does besides its jobs: it looks for lost work, dead workers, due fires, new words and old data. */
function startKeepers(
  deps: Dependencies,
  {
    workerId,
    kinds,
    leaseDurationMs,
  }: Readonly<{ workerId: string; kinds: readonly JobKind[]; leaseDurationMs: number }>,
  stack: AsyncDisposableStack,
): void {
  const { config, db, bus, jobs, log, lookAfterChildren, stopLeftWork } = deps;
  const { tenantConcurrency } = config;
  const effects = { db, jobs, bus, log, lookAfterChildren, stopLeftWork };
  const report = deps.watch.of('sweep for runs to recover', 'postgres');
  stack.use(startReconciler({ ...effects, tenantConcurrency, leaseDurationMs, report }));
  if (kinds.includes('step')) stack.use(startScheduler(deps));
  if (kinds.includes('step')) stack.use(keepLooking(deps.children));
  if (kinds.includes('step') && config.messageSearch) stack.use(startWordIndexer({ db, log }));
  stack.use(startRetention({ db, jobs, log }, config.retentionDays));
  stack.use(watchWorkers({ ...effects, workerId, leaseDurationMs }));
}

type WorkDeps = CompactionDeps & Readonly<{ atWork: TenantsAtWork }>;

/** Starts to take jobs of runs: from the queue, and past it in extra slots. */
function takeJobs(deps: Dependencies, workDeps: WorkDeps, kinds: readonly JobKind[]) {
  const { workerId, atWork } = workDeps;
  const extraSlots: ExtraSlots[] = [];
  const consumers: Promise<JobConsumer>[] = PENDING_KINDS.filter((kind) => kinds.includes(kind)).map((kind) => {
    const { run } = WORK[kind];
    const slots = WORK[kind].concurrency(deps.config);
    const work: JobHandler = (job, signal, isRetry) =>
      isRetry ? retryFailed(workDeps, job) : run(workDeps, job, signal);
    const take: RunConsumer['take'] = async (job) => (await consumer).take(job);
    const extra = startExtraSlots({ deps, kind, slots, atWork, work, take });
    const consumer = deps.jobs.consume(kind, extra.handler, { concurrency: slots, workerId });
    extraSlots.push(extra);
    return consumer;
  });
  return { consumers, extraSlots };
}

/** All that takes work, and how it is told to stop. */
type UnderWay = Readonly<{
  claims: ClaimKeeper;
  carried: CarriedSteps;
  consumers: readonly Promise<JobConsumer>[];
  extraSlots: readonly ExtraSlots[];
  /** Of deliveries. */
  shutdown: AbortController;
}>;

/** Takes no more work, and resolves when that under way has ended: by itself within the grace time, or handed back. */
async function endWork(
  { claims, carried, consumers, extraSlots, shutdown }: UnderWay,
  graceMs: () => number,
): Promise<void> {
  const started = (await Promise.allSettled(consumers)).flatMap((consumer) =>
    consumer.status === 'fulfilled' ? [consumer.value] : [],
  );
  carried.stop();
  for (const extra of extraSlots) extra.stop();
  await Promise.all(started.map((consumer) => consumer.pause()));
  const grace = setTimeout(() => {
    claims.stopAll('shutdown');
    shutdown.abort();
  }, graceMs());
  try {
    await Promise.all(started.map((consumer) => consumer[Symbol.asyncDispose]()));
    await Promise.all(extraSlots.map((extra) => extra.settled()));
    // Afterwards: a job that ends now may have begun its next step in the same transaction.
    await carried.settled();
  } finally {
    clearTimeout(grace);
  }
}

/** Sends due deliveries to webhooks. Each delivery that has ended makes room for the next one to its endpoint. */
function consumeDeliveries(
  { db, jobs, log, config }: Dependencies,
  workerId: string,
  shutdown: AbortSignal,
  stack: AsyncDisposableStack,
): Promise<JobConsumer> {
  const outbound = webhookPolicyOf(config);
  const dispatcher = stack.use(startDispatcher({ db, jobs, log, slots: config.deliveryConcurrency }));
  return jobs.deliveries.consume(
    (job, signal) =>
      deliver({ db, log, outbound, random: Math.random, workerId }, job, AbortSignal.any([signal, shutdown])).finally(
        dispatcher.look,
      ),
    { concurrency: config.deliveryConcurrency, workerId },
  );
}

/** Prepares the workspace. Only workers of steps call this, because only they run tools. */
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
