import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { Registry } from 'prom-client';
import { countStepProcesses } from '../app/check-connections.ts';
import type { Dependencies } from '../app/dependencies.ts';
import { JOB_KINDS, type JobKind } from '../domain/run/job.ts';
import type { Composition } from '../library/compose.ts';
import type { MetricValues } from '../metrics/metrics.ts';
import { backOffMs } from '../platform/back-off.ts';
import { VARIABLES } from '../platform/settings.ts';
import { askMetrics } from './parent-process.ts';

/** The same file type as this module's: a build has JavaScript only. */
const ENTRY = fileURLToPath(new URL(`./step-process${path.extname(import.meta.url)}`, import.meta.url));
/** Backoff before a process that ended by itself is started again. */
const RESTART_BASE_MS = 250;
const RESTART_CAP_MS = 10_000;
/** A process that has run this long resets the backoff. */
const SETTLED_AFTER_MS = 10_000;

/**
 * Takes jobs of these kinds, by default all, in this process, and steps in the further processes of `BATON_PROCESSES`
 * beside it: one process uses one processor. The further ones have the same settings, end with this process, and are
 * started again if they end before.
 * @param environment the settings of this process
 */
export async function startWorkers(
  { baton, deps, stopWithWorkers }: Composition,
  environment: NodeJS.ProcessEnv,
  kinds: readonly JobKind[] = JOB_KINDS,
): Promise<void> {
  await baton.startWorker({ kinds });
  const count = kinds.includes('step') ? await countStepProcesses(deps.db, deps.config, kinds.length) : 1;
  const childEnvironment = environmentOf(deps, environment);
  const further = Array.from({ length: count - 1 }, (_, at) => keepStepProcess(deps, childEnvironment, at + 2));
  const metrics = deps.metrics.add({
    registry: new Registry(),
    others: async () => (await Promise.all(further.map((process) => process.metrics()))).flat(),
  });
  // At the same time as the worker here: each gives its running steps the grace time.
  stopWithWorkers({
    async [Symbol.asyncDispose]() {
      metrics[Symbol.dispose]();
      await Promise.all(further.map((process) => process.end()));
    },
  });
}

/** The embedded Postgres is this process's, and so is the port for metrics. */
function environmentOf({ config, databaseUrl }: Dependencies, environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const embedded = config.databaseUrl === undefined ? { [VARIABLES.databaseUrl]: databaseUrl } : {};
  return { ...environment, ...embedded, [VARIABLES.processes]: '1' };
}

type StepProcess = Readonly<{ metrics: () => Promise<readonly MetricValues[]>; end: () => Promise<void> }>;

function keepStepProcess({ log }: Dependencies, environment: NodeJS.ProcessEnv, no: number): StepProcess {
  let isEnding = false;
  let failures = 0;
  let restart: NodeJS.Timeout | undefined;
  const start = (): ChildProcess => {
    const startedAtMs = performance.now();
    const child = fork(ENTRY, [], { env: environment, stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
    // A child that cannot be started ends, too; a message to one that has ended is no failure.
    child.on('error', () => undefined);
    child.once('close', (exitCode, signal) => {
      if (isEnding) return;
      failures = performance.now() - startedAtMs >= SETTLED_AFTER_MS ? 1 : failures + 1;
      const retryInMs = backOffMs(failures - 1, RESTART_BASE_MS, RESTART_CAP_MS);
      log('error', { event: 'step_process_ended', process: no, exitCode, signal, retryInMs });
      restart = setTimeout(() => {
        current = start();
      }, retryInMs);
    });
    return child;
  };
  let current = start();
  return {
    async metrics() {
      const values = await askMetrics(current);
      return values === null ? [] : [labelled(values, no)];
    },
    async end() {
      isEnding = true;
      clearTimeout(restart);
      const child = current;
      if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
      const closed = once(child, 'close');
      child.kill('SIGTERM');
      await closed;
    },
  };
}

/** Each process has series of its own: a counter that begins anew with its process is then read as a reset. */
function labelled(values: MetricValues, no: number): MetricValues {
  return values.map((metric) => ({
    ...metric,
    values: metric.values.map((value) => ({ ...value, labels: { ...value.labels, process: String(no) } })),
  }));
}
