import { setTimeout as pause } from 'node:timers/promises';
import { sql } from 'kysely';
import type { Bench } from '../bench.ts';
import { percentileOf, type Row, toRow } from '../row.ts';
import type { Backend } from '../services.ts';
import { type Durable, startDurable } from './contestants.ts';

const FULL = {
  streaming: 1_000,
  startMs: 8_000,
  deltas: 320,
  idle: 100_000,
  waiting: 10_000,
  sessions: 50,
  steps: 20,
  idleRounds: 15,
  repetitions: 5,
};
const SMALL: typeof FULL = {
  streaming: 5,
  startMs: 100,
  deltas: 10,
  idle: 100,
  waiting: 10,
  sessions: 2,
  steps: 2,
  idleRounds: 1,
  repetitions: 1,
};
/** 20 tokens per second. */
const DELTA_PAUSE_MS = 50;
/** 1 would mean: the streams take exactly as long as their model. */
const GOAL_STRETCH = 1.1;
const GOAL_BYTES_PER_SESSION = 150_000;
const GOAL_IDLE_RATIO = 0.95;

/** A thousand sessions that stream at once in one worker process; and the memory and connections of idle sessions. */
export async function benchWide({ services, scale }: Bench): Promise<Row[]> {
  const size = scale === 'full' ? FULL : SMALL;
  const rows: Row[] = [];
  for (const backend of services.backends) {
    rows.push(...(await streaming(services, backend, size)), await idle(services, backend, size));
  }
  return rows;
}

type Size = typeof FULL;

/** State of one worker process while all sessions stream. */
type Streamed = Readonly<{ stretch: number; residentBytes: number; heldBytes: number; cores: number }>;

/** Each repetition has a new process, because a process does not return its memory to the system. */
async function streaming(services: Bench['services'], backend: Backend, size: Size): Promise<Row[]> {
  const rounds: Streamed[] = [];
  for (let round = 0; round < size.repetitions; round++) rounds.push(await streamOnce(services, backend, size));
  const row = (name: string, unit: string, timed: string, of: keyof Streamed, more: object = {}): Row =>
    toRow({ case: `wide/${name}`, backend, unit, timed, values: rounds.map((each) => each[of]), ...more });
  return [
    row(
      `${size.streaming} streaming`,
      'times',
      'how long an answer took, by the time that its model takes at 20 tokens/s; 99th percentile',
      'stretch',
      { goal: { atMost: GOAL_STRETCH } },
    ),
    row('memory', 'bytes', 'resident memory that each of them adds to the process', 'residentBytes', {
      goal: { atMost: GOAL_BYTES_PER_SESSION },
    }),
    row('memory held', 'bytes', 'of that what JavaScript holds after a collection', 'heldBytes'),
    row('cores', 'cores', 'CPU time of the worker process by the time that passes, while all stream', 'cores'),
  ];
}

/**
 * The sessions start one after the other, because the rate of starts is not measured here. Usage is read twice while
 * all of them stream.
 */
async function streamOnce(services: Bench['services'], backend: Backend, size: Size): Promise<Streamed> {
  const { streaming: sessions, startMs, deltas } = size;
  await using durable = await startDurable({ services, backend, concurrency: sessions });
  const [worker] = durable.children;
  if (worker === undefined) throw new Error('there is no worker');
  // Compiled code and pools are loaded before the baseline, so that they do not count as memory of sessions.
  await durable.run(Math.min(sessions, 100), { steps: 4 });
  const before = await worker.usageCollected();
  const run = durable.run(sessions, { steps: 1, deltas, deltaPauseMs: DELTA_PAUSE_MS }, startMs);
  run.catch(() => undefined);
  const allStreamMs = deltas * DELTA_PAUSE_MS - startMs;
  await Promise.race([run, pause(startMs + 0.25 * allStreamMs)]);
  const sinceMs = performance.now();
  const early = await worker.usage();
  await Promise.race([run, pause(0.5 * allStreamMs)]);
  const passedMs = performance.now() - sinceMs;
  const late = await worker.usage();
  const held = await worker.usageCollected();
  const { stretches } = await run;
  const all = [early, late, held].flatMap((usage) => usage.stretches).concat(stretches);
  // A surplus means: a worker could not keep up, lost claims, and asked for answers again.
  if (all.length < sessions) throw new Error(`only ${all.length} of ${sessions} answers were timed`);
  return {
    stretch: percentileOf(all, 99),
    residentBytes: Math.max(1, late.rssBytes - before.rssBytes) / sessions,
    heldBytes: Math.max(1, held.heapBytes - before.heapBytes) / sessions,
    cores: (late.cpuMs - early.cpuMs) / passedMs,
  };
}

async function idle(services: Bench['services'], backend: Backend, size: Size): Promise<Row> {
  const { sessions, steps } = size;
  const options = { services, backend, concurrency: sessions };
  await using stack = new AsyncDisposableStack();
  const empty = stack.use(await startDurable(options));
  const full = stack.use(await startDurable(options));
  await addIdle(full, size);
  const rates = { empty: [] as number[], full: [] as number[] };
  for (let round = -2; round < size.idleRounds; round++) {
    for (const [name, durable] of [['empty', empty] as const, ['full', full] as const]) {
      const { wallMs } = await durable.run(sessions, { steps });
      if (round >= 0) rates[name].push((sessions * steps * 1_000) / wallMs);
    }
  }
  return toRow({
    case: 'wide/idle',
    backend,
    unit: 'steps/s',
    timed: `beside ${size.idle} idle sessions and ${size.waiting} runs that wait, against an empty database`,
    values: rates.full,
    reference: rates.empty,
    goal: { atLeast: GOAL_IDLE_RATIO },
  });
}

/** Adds sessions without work, some of them with a run that waits for an answer. */
async function addIdle({ db }: Durable, { idle: sessions, waiting }: Size): Promise<void> {
  await sql`
    insert into sessions (id, agent_name, agent_version, agent_snapshot, metadata)
    select gen_random_uuid(), 'chain', '1', '{}', '{}' from generate_series(1, ${sessions}::integer)`.execute(db);
  await sql`
    with waiting as (select id, gen_random_uuid() as run from sessions where status = 'idle' limit ${waiting}),
    started as (
      insert into runs (id, session_id, status, pending_kind, started_at)
      select run, id, 'requires_action', null, now() from waiting)
    update sessions set status = 'requires_action', active_run_id = waiting.run from waiting
    where sessions.id = waiting.id`.execute(db);
  await sql`vacuum analyze`.execute(db);
}
