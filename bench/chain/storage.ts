import { setTimeout as pause } from 'node:timers/promises';
import { sql } from 'kysely';
import type { Bench } from '../bench.ts';
import { postgresCpu } from '../process/postgres-cpu.ts';
import { type Row, toRow } from '../row.ts';
import type { Backend } from '../services.ts';
import { DELTA_CHARS } from './answer.ts';
import { type Durable, type Round, startDurable } from './contestants.ts';
import { DELTAS_PER_STEP, type TaskInput } from './task.ts';

const FULL = { sessions: 20, steps: 20, repetitions: 5, idleMs: 5_000 };
const SMALL = { sessions: 2, steps: 2, repetitions: 1, idleMs: 100 };

const GOAL_PLAIN_STEP = 1.1;
const GOAL_STEP_WITH_CALLS = 2.1;
const GOAL_WAL_RATIO = 2.5;
const GOAL_WAL_BYTES = 5_000;
const GOAL_POSTGRES_CPU_MS = 1.2;
const CALLS_OF_BATCH = 4;
const LONG_OUTPUT_CHARS = 8_000;

/**
 * Cost of a step in Postgres: round trips of the worker process, processor time of the server, and bytes of WAL, also per
 * byte of model and tool output.
 * The queries of an idle process (sweeps, signs of life) are measured first and subtracted.
 */
export async function benchStorage({ services, scale }: Bench): Promise<Row[]> {
  const backend = services.backends[0] ?? 'postgres';
  const size = scale === 'full' ? FULL : SMALL;
  await using durable = await startDurable({ services, backend, concurrency: size.sessions });
  await durable.run(size.sessions, { steps: 3 });
  const idlePerMs = await idleQueries(durable, size.idleMs);
  const rounds = await measureRounds(durable, size, idlePerMs);
  return [...roundTripRows(backend, rounds), ...cpuRows(backend, rounds), ...walRows(backend, rounds)];
}

type Size = typeof FULL;
/** `postgresCpuMs` is null where the server's processes cannot be seen. */
type Measured = Readonly<{ roundTrips: number; walBytes: number; postgresCpuMs: number | null }>;
type Rounds = Readonly<Record<'plain' | 'call' | 'batch' | 'long', readonly Measured[]>>;

async function measureRounds(durable: Durable, size: Size, idlePerMs: number): Promise<Rounds> {
  const { sessions, steps } = size;
  const tasks: Record<keyof Rounds, TaskInput> = {
    plain: { steps: 1 },
    call: { steps },
    batch: { steps, calls: CALLS_OF_BATCH },
    long: { steps, outputChars: LONG_OUTPUT_CHARS },
  };
  const rounds: Record<keyof Rounds, Measured[]> = { plain: [], call: [], batch: [], long: [] };
  const cpu = await postgresCpu(durable.db);
  for (let round = 0; round < size.repetitions; round++) {
    for (const [name, task] of Object.entries(tasks)) {
      const cpuBefore = await cpu?.();
      const before = await walPosition(durable);
      const { queries, wallMs }: Round = await durable.run(sessions, task);
      if (queries === 0) throw new Error('the worker asked Postgres nothing: its queries are not counted');
      const walBytes = (await walPosition(durable)) - before;
      const cpuAfter = await cpu?.();
      const stepCount = sessions * task.steps;
      rounds[name as keyof Rounds].push({
        roundTrips: (queries - idlePerMs * wallMs) / stepCount,
        walBytes: walBytes / stepCount,
        postgresCpuMs: cpuBefore === undefined || cpuAfter === undefined ? null : (cpuAfter - cpuBefore) / stepCount,
      });
    }
  }
  return rounds;
}

async function idleQueries(durable: Durable, idleMs: number): Promise<number> {
  const count = async (): Promise<number> => (await durable.children[0]?.usage())?.queries ?? 0;
  const before = await count();
  await pause(idleMs);
  return ((await count()) - before) / idleMs;
}

async function walPosition({ db }: Durable): Promise<number> {
  const { rows } = await sql<{ bytes: number }>`
    select (pg_current_wal_insert_lsn() - '0/0')::float8 as bytes`.execute(db);
  return rows[0]?.bytes ?? 0;
}

function roundTripRows(backend: Backend, { plain, call, batch }: Rounds): Row[] {
  const row = (name: string, timed: string, of: readonly Measured[], atMost: number): Row =>
    toRow({
      case: `storage/round trips/${name}`,
      backend,
      unit: 'per step',
      timed,
      values: of.map(({ roundTrips }) => roundTrips),
      goal: { atMost },
    });
  return [
    row('no call', 'queries of the worker for a step that answers with text', plain, GOAL_PLAIN_STEP),
    row('one call', 'the same with one call of a tool that is declared nothing', call, GOAL_STEP_WITH_CALLS),
    row(`${CALLS_OF_BATCH} calls`, 'the same with a batch of calls', batch, GOAL_STEP_WITH_CALLS),
  ];
}

function cpuRows(backend: Backend, { call }: Rounds): Row[] {
  const values = call.flatMap(({ postgresCpuMs }) => (postgresCpuMs === null ? [] : [postgresCpuMs]));
  if (values.length === 0) return [];
  return [
    toRow({
      case: 'storage/postgres cpu',
      backend,
      timed: 'processor time of all processes of Postgres for a step with one call',
      values,
      goal: { atMost: GOAL_POSTGRES_CPU_MS },
    }),
  ];
}

function walRows(backend: Backend, { call, long }: Rounds): Row[] {
  const said = DELTA_CHARS * DELTAS_PER_STEP;
  const row = (name: string, of: readonly Measured[], payloadBytes: number): Row =>
    toRow({
      case: `storage/wal/${name}`,
      backend,
      unit: 'bytes per byte',
      timed: `WAL of a step by its ${payloadBytes} bytes of text and tool output`,
      values: of.map(({ walBytes }) => walBytes / payloadBytes),
      goal: { atMost: GOAL_WAL_RATIO },
    });
  const step = toRow({
    case: 'storage/wal/step',
    backend,
    unit: 'bytes',
    timed: 'WAL of a step with one call and a short output',
    values: call.map(({ walBytes }) => walBytes),
    goal: { atMost: GOAL_WAL_BYTES },
  });
  return [step, row('short outputs', call, said + 200), row('long outputs', long, said + LONG_OUTPUT_CHARS)];
}
