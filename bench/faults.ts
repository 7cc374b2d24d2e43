import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { z } from 'zod';
import type { Bench } from './bench.ts';
import { type Row, toRow } from './row.ts';
import type { Backend } from './services.ts';

/** A fault of the fault suite, and which of its times this case measures. */
type Harm = Readonly<{ fault: string; times: 'recoveryMs' | 'cancelMs'; goalP99Ms: number; timed: string }>;

const KILL_TIMED = 'from the SIGKILL of a worker to the next claim of each of its runs by another one';
const KILL = { times: 'recoveryMs', goalP99Ms: 2_000, timed: KILL_TIMED } as const;
/** At the small size only the first is measured: its kill always hits a worker with a run. */
const RECOVERY: readonly Harm[] = [
  { ...KILL, fault: 'kill-mid-stream' },
  { ...KILL, fault: 'kill-random' },
];
const CANCEL: readonly Harm[] = [
  {
    fault: 'cancel-answers',
    times: 'cancelMs',
    goalP99Ms: 100,
    timed: 'from the request to the end of the connection to the provider, which was answering',
  },
];

const FULL = { runs: 100, sessions: 20, repetitions: 5 };
const SMALL = { runs: 12, sessions: 3, repetitions: 1 };
const FIRST_SEED = 7;
/** If the fault hit nothing that could be timed, it is tried again with another seed. */
const MAX_TRIES = 3;
const SUITE = fileURLToPath(new URL('../test/faults/run.ts', import.meta.url));
const SUITE_TIMEOUT_MS = 600_000;

/** Time until another worker takes over from a killed one, as the fault suite measures it. */
export const benchRecovery = (bench: Bench): Promise<Row[]> => measureAll(bench, 'recovery', RECOVERY);

/** Time until a cancel ends the model's answer, as the fault suite measures it. */
export const benchCancel = (bench: Bench): Promise<Row[]> => measureAll(bench, 'cancel', CANCEL);

async function measureAll({ services, scale }: Bench, name: string, harms: readonly Harm[]): Promise<Row[]> {
  const rows: Row[] = [];
  for (const backend of services.backends) {
    for (const harm of scale === 'full' ? harms : harms.slice(0, 1)) {
      rows.push(...(await measure(name, harm, backend, scale === 'full' ? FULL : SMALL)));
    }
  }
  return rows;
}

async function measure(name: string, harm: Harm, backend: Backend, size: typeof FULL): Promise<Row[]> {
  const repetitions: Percentiles[] = [];
  for (let no = 0; no < size.repetitions; no++) {
    repetitions.push(await strike(harm, backend, size, FIRST_SEED + no * MAX_TRIES));
  }
  const { fault, timed, goalP99Ms } = harm;
  const row = (rank: 'p50' | 'p99', more: object): Row =>
    toRow({ case: `${name}/${fault}/${rank}`, backend, timed, values: repetitions.map((each) => each[rank]), ...more });
  return [row('p50', {}), row('p99', { goal: { atMost: goalP99Ms } })];
}

const percentilesSchema = z.object({ p50: z.number(), p99: z.number() });
type Percentiles = z.infer<typeof percentilesSchema>;

const nothingTimed = z.object({ n: z.literal(0) });
const times = nothingTimed.or(percentilesSchema);
const rowSchema = z.object({ fault: z.string(), recoveryMs: times, cancelMs: times });

/**
 * Runs the suite once, with its own Postgres and Redis.
 * @throws if a promise was broken: then no time counts
 */
async function strike(harm: Harm, backend: Backend, size: typeof FULL, seed: number): Promise<Percentiles> {
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const { stdout } = await promisify(execFile)(
      process.execPath,
      [
        SUITE,
        '--json',
        ...argumentsOf({ only: harm.fault, backend, runs: size.runs, sessions: size.sessions, seed: seed + tries }),
      ],
      { timeout: SUITE_TIMEOUT_MS },
    );
    const measured = rowSchema.parse(JSON.parse(stdout.trim()))[harm.times];
    if ('p99' in measured) return measured;
  }
  throw new Error(`${harm.fault} on ${backend}: nothing was timed in ${MAX_TRIES} runs of the suite`);
}

function argumentsOf(options: Readonly<Record<string, string | number>>): string[] {
  return Object.entries(options).flatMap(([option, value]) => [`--${option}`, String(value)]);
}
