import { checkPort } from '../app/check-port.ts';
import type { Dependencies } from '../app/dependencies.ts';
import type { Declarations } from '../declarations/declarations.ts';
import { BatonError } from '../domain/errors.ts';
import { ENGINE_VERSION } from '../domain/tunables.ts';
import { type Composition, composeBaton } from '../library/compose.ts';
import { createProcessMetrics } from '../metrics/process-metrics.ts';
import { loadConfig } from '../platform/config.ts';
import { AsyncDisposableStack } from '../platform/disposable-stacks.ts';
import { createLog, type Log, toSafeError } from '../platform/log.ts';
import { startTelemetry } from '../platform/telemetry.ts';
import { captureLibraryWarnings } from './library-warnings.ts';
import type { ParentProcess } from './parent-process.ts';

/** Starts the work of the process, and returns the URL that it serves, if any. */
export type Role = (composition: Composition) => Promise<string | undefined>;

/**
 * Runs one process of the service, with an orderly end on SIGTERM or SIGINT. A second signal ends it at once; an end
 * that takes too long is cut short with exit code 1.
 *
 * Bad configuration, unreachable services and an embedded Postgres that cannot be started again also end it with exit
 * code 1 and the reason.
 */
export async function runProcess(
  name: string,
  role: Role,
  options: Readonly<{
    migrate: boolean;
    jobKinds: number;
    /** The process will serve the API: its port is tried before anything else. */
    serves?: boolean;
    environment?: NodeJS.ProcessEnv;
    /** The process belongs to another one: it ends with that one, which shows its metrics. */
    parent?: ParentProcess;
  }>,
): Promise<void> {
  const { parent } = options;
  const stopped = parent === undefined ? nextSignal() : Promise.race([nextSignal(), parent.gone]);
  using warnings = captureLibraryWarnings();
  try {
    const config = loadConfig(options.environment ?? process.env);
    if (options.serves === true) await checkPort(config);
    await using stack = new AsyncDisposableStack();
    const telemetry = config.otlpEndpoint === undefined ? null : stack.use(await startTelemetry(config.otlpEndpoint));
    const composition = stack.use(
      await composeBaton(config, { ...options, openWithoutKeys: true, readDeclarations: readFiles }),
    );
    const { deps } = composition;
    warnings.tell(deps.log);
    telemetry?.onLost((lost) => deps.log('warn', { event: 'spans_lost', ...lost }));
    const url = await role(composition);
    stack.use(deps.metrics.add(createProcessMetrics()));
    parent?.tellMetrics(deps.metrics.values);
    const monitorUrl = parent === undefined ? await monitor(deps, stack) : undefined;
    const { log, workerId } = deps;
    const served = { ...(url !== undefined && { url }), ...(monitorUrl !== undefined && { monitorUrl }) };
    log('info', {
      event: 'process_started',
      role: name,
      workerId,
      engine: ENGINE_VERSION,
      backend: deps.jobs.backend,
      ...served,
    });
    const isWatched = url !== undefined || monitorUrl !== undefined;
    using stuck = isWatched ? null : watchStuck(deps);
    const end = await Promise.race([stopped, deps.lost, ...(stuck === null ? [] : [stuck.ended])]);
    endWithin(config.shutdownGraceMs + ENDED_AFTER_GRACE_MS, log);
    if (end instanceof Error) {
      log('error', { event: 'process_failed', role: name, error: toSafeError(end) });
      process.exitCode = 1;
    } else {
      log('info', { event: 'process_stopping', signal: end });
    }
  } catch (error) {
    const log = createLog({ level: 'info' });
    warnings.tell(log);
    log('error', { event: 'process_failed', role: name, error: toSafeError(error) });
    process.exitCode = 1;
  }
}

/** Only a process that serves the API declares: see `listen`. */
async function readFiles({ config, environment }: Dependencies): Promise<Declarations> {
  const { readDeclarationFiles } = await import('../declarations/read-files.ts');
  return readDeclarationFiles(config.agentsDir, environment);
}

/**
 * Time for an orderly end besides the grace time of running steps: twice the 5 s in which any service answers at all.
 * Less than the 15 s before a SIGKILL that docs/production.md recommends.
 */
const ENDED_AFTER_GRACE_MS = 10_000;

/**
 * On a dead network the parts would time out one after the other. Runs not handed back by then are recovered anyway.
 */
function endWithin(limitMs: number, log: Log): void {
  setTimeout(() => {
    log('warn', { event: 'process_cut_short', afterMs: limitMs });
    process.exit(1);
  }, limitMs).unref();
}

const LOOK_EVERY_MS = 5_000;

/** Nobody asks a process without a port for `/livez`, so it ends by itself when it cannot work, to be started again. */
function watchStuck({ watch }: Dependencies): Disposable & Readonly<{ ended: Promise<Error> }> {
  const { promise: ended, resolve } = Promise.withResolvers<Error>();
  const timer = setInterval(async () => {
    const reason = await watch.whyStuck();
    if (reason !== null) resolve(new BatonError('store_unavailable', reason));
  }, LOOK_EVERY_MS).unref();
  return { ended, [Symbol.dispose]: () => clearInterval(timer) };
}

async function monitor(deps: Dependencies, stack: AsyncDisposableStack): Promise<string | undefined> {
  const { metricsPort } = deps.config;
  if (metricsPort === undefined) return undefined;
  // Most workers serve nothing: they start sooner without an HTTP server.
  const { startMonitor } = await import('../app/monitor-server.ts');
  return stack.use(await startMonitor(deps, metricsPort)).url;
}

/** npm passes on a terminal's Ctrl-C, so that one key press can arrive twice. */
const SAME_SIGNAL_MS = 1_000;

function nextSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let firstAtMs: number | null = null;
    const onSignal = (signal: NodeJS.Signals): void => {
      const nowMs = performance.now();
      if (firstAtMs !== null && nowMs - firstAtMs > SAME_SIGNAL_MS) process.exit(130);
      firstAtMs ??= nowMs;
      resolve(signal);
    };
    process.on('SIGINT', onSignal);
    process.on('SIGTERM', onSignal);
  });
}
