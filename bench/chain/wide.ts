import { setTimeout as pause } from 'node:timers/promises';
import { sql } from 'kysely';
import type { Bench } from '../bench.ts';
import { type Row, toRow } from '../row.ts';
import type { Backend } from '../services.ts';
import { type Durable, startDurable } from './contestants.ts';

const FULL = { streaming: 1_000, deltas: 200, idle: 100_000, waiting: 10_000, sessions: 50, steps: 10, repetitions: 5 };
const SMALL = { streaming: 5, deltas: 10, idle: 100, waiting: 10, sessions: 2, steps: 2, repetitions: 1 };
/** 20 tokens per second. */
const DELTA_PAUSE_MS = 50;
/** Nothing is late: the streams take as long as their model. */
const GOAL_STRETCH = 1.1;
const GOAL_BYTES_PER_SESSION = 150_000;
const GOAL_IDLE_RATIO = 0.95;

/** A thousand sessions that stream at once in one worker process, and what those cost that do nothing. */
export async function benchWide({ services, scale }: Bench): Promise<Row[]> {
  const size = scale === 'full' ? FULL : SMALL;
  const rows: Row[] = [];
  for (const backend of services.backends) {
    rows.push(...(await streaming(services, backend, size)), await idle(services, backend, size));
  }
  return rows;
}

type Size = typeof FULL;

async function streaming(services: Bench['services'], backend: Backend, size: Size): Promise<Row[]> {
  const { streaming: sessions, deltas } = size;
  await using durable = await startDurable({ services, backend, concurrency: sessions });
  // What compiled code and pools take is not the sessions'.
  await durable.run(Math.min(sessions, 100), { steps: 2 });
  const idealMs = deltas * DELTA_PAUSE_MS;
  const stretches: number[] = [];
  const memory: number[] = [];
  for (let round = 0; round < size.repetitions; round++) {
    const before = await rssOf(durable);
    const run = durable.run(sessions, { steps: 1, deltas, deltaPauseMs: DELTA_PAUSE_MS });
    await pause(idealMs * 0.7);
    memory.push(Math.max(1, (await rssOf(durable)) - before) / sessions);
    stretches.push((await run).wallMs / idealMs);
  }
  return [
    toRow({
      case: `wide/${sessions} streaming`,
      backend,
      unit: 'times',
      timed: 'time until all have ended, by the time that their model takes at 20 tokens/s',
      values: stretches,
      goal: { atMost: GOAL_STRETCH },
    }),
    toRow({
      case: 'wide/memory',
      backend,
      unit: 'bytes',
      timed: 'resident memory that each of them adds; the first repetition counts most, what it took is reused',
      values: memory.slice(0, 1),
      goal: { atMost: GOAL_BYTES_PER_SESSION },
    }),
  ];
}

async function rssOf({ children }: Durable): Promise<number> {
  return (await children[0]?.usage())?.rssBytes ?? 0;
}

async function idle(services: Bench['services'], backend: Backend, size: Size): Promise<Row> {
  const { sessions, steps } = size;
  const options = { services, backend, concurrency: sessions };
  await using stack = new AsyncDisposableStack();
  const empty = stack.use(await startDurable(options));
  const full = stack.use(await startDurable(options));
  await addIdle(full, size);
  const rates = { empty: [] as number[], full: [] as number[] };
  for (let round = -2; round < size.repetitions; round++) {
    for (const [name, durable] of [['empty', empty] as const, ['full', full] as const]) {
      const { wallMs } = await durable.run(sessions, { steps });
      if (round >= 0) rates[name].push((sessions * steps * 1_000) / wallMs);
    }
  }
  return toRow({
    case: 'wide/idle',
    backend,
    unit: 'steps/s',
    timed: `beside ${size.idle} idle sessions and ${size.waiting} runs that wait for somebody, against an empty database`,
    values: rates.full,
    reference: rates.empty,
    goal: { atLeast: GOAL_IDLE_RATIO },
  });
}

/** Sessions without work, and some of them with a run that waits for an answer. */
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
