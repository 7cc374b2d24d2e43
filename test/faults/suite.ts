import { compileProduct } from '../support/child-environment.ts';
import { createRandom } from '../support/random.ts';
import { FAULTS } from './catalogue.ts';
import type { Backend, Fault } from './fault.ts';
import type { SuiteOptions } from './options.ts';
import { tell, toRow } from './report.ts';
import { runFault } from './run-fault.ts';
import { hasRedisServer, startOwnPostgres, startOwnRedis } from './world/services.ts';

const BACKENDS: readonly Backend[] = ['redis', 'postgres'];

/** Runs the chosen faults one after the other, with a Postgres and a Redis of the suite's own. True: all is well. */
export async function runSuite(
  options: SuiteOptions,
  signal: AbortSignal,
  print: (line: string) => void,
): Promise<boolean> {
  compileProduct();
  await using stack = new AsyncDisposableStack();
  const postgres = stack.use(await startOwnPostgres());
  const redis = hasRedisServer() ? stack.use(await startOwnRedis()) : null;
  const rows = chosen(options);
  let isWell = rows.length > 0;
  if (!isWell) {
    process.stderr.write(`nothing to run: none of these faults says anything about ${options.backend}\n`);
  }
  for (const { fault, backend } of rows) {
    if (signal.aborted) return false;
    if (backend === 'redis' && redis === null) {
      // It was asked for, and nothing is known of it.
      isWell = false;
      print(skipped(fault, options, 'there is no redis-server on the path'));
      continue;
    }
    const { runs, sessions, seed, log: logFile, profile } = options;
    const random = createRandom(`${seed}/${fault.name}/${backend}`);
    const result = await runFault({
      fault,
      backend,
      runs,
      sessions: Math.min(sessions, runs),
      random,
      postgres,
      redis,
      signal,
      logFile,
      profile,
    });
    isWell &&= result.broken.length === 0;
    print(options.json ? JSON.stringify(toRow(result)) : tell(result));
    if (options.json && result.broken.length > 0) process.stderr.write(`${tell(result)}\n`);
  }
  return isWell;
}

/** Answers in the background are a matter of one protocol, without the ways of other endpoints. */
const isPossible = ({ agent }: Fault, { profile }: SuiteOptions): boolean =>
  profile === undefined || agent?.inBackground !== true;

function chosen(options: SuiteOptions): { fault: Fault; backend: Backend }[] {
  const { only, backend } = options;
  const faults = FAULTS.filter((fault) => (only?.includes(fault.name) ?? true) && isPossible(fault, options));
  return faults.flatMap((fault) =>
    BACKENDS.filter((each) => (backend ?? each) === each && (fault.backends ?? BACKENDS).includes(each)).map(
      (each) => ({
        fault,
        backend: each,
      }),
    ),
  );
}

function skipped(fault: Fault, { json }: SuiteOptions, reason: string): string {
  return json
    ? JSON.stringify({ fault: fault.name, backend: 'redis', skipped: reason })
    : `skipped ${fault.name}: ${reason}`;
}
