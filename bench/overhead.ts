import { newId } from '../src/platform/new-id.ts';
import type { Bench } from './bench.ts';
import { type Durable, startDurable } from './chain/contestants.ts';
import type { TaskInput } from './chain/task.ts';
import { type AskedProcess, startAsked } from './process/asked.ts';
import { hideWhatWasSaid, storeLongSession } from './provider/long-session.ts';
import { type BenchProvider, type Call, startBenchProvider } from './provider/provider.ts';
import type { RawAnswer, RawQuestion } from './provider/raw-process.ts';
import { percentileOf, type Row, toRow } from './row.ts';
import type { Backend } from './services.ts';

type Size = Readonly<{
  /**
   * The steps whose starts are measured, counted from 1: around step 10 of many sessions, late ones of a long session.
   */
  early: Window;
  later: readonly (Window & Readonly<{ name: string }>)[];
  shortSessions: number;
  storedMessages: number;
  repetitions: number;
  warmUps: number;
}>;
type Window = Readonly<{ from: number; to: number }>;

const FULL: Size = {
  early: { from: 6, to: 15 },
  later: [
    { name: 'step 100', from: 51, to: 150 },
    { name: 'step 1000', from: 951, to: 1_050 },
  ],
  shortSessions: 10,
  storedMessages: 10_000,
  repetitions: 5,
  warmUps: 1,
};
const SMALL: Size = {
  early: { from: 2, to: 3 },
  later: [{ name: 'step 5', from: 4, to: 6 }],
  shortSessions: 1,
  storedMessages: 30,
  repetitions: 1,
  warmUps: 0,
};

/** Steps are so short that the view of a thousand needs no prune or compaction: step 1 000 sends all of them. */
const STEP = { deltas: 8, outputChars: 60 } as const;

/** As a multiple of the same with the AI SDK alone. */
const GOAL_EARLY_RATIO = 2;
const GOAL_P99_MS = 15;
/** Of a compacted session, as a multiple of the value at step 10. */
const GOAL_COMPACTED_RATIO = 1.1;
/** The product adds time to that of the SDK alone: late in a run, at most this many times as much as at step 10. */
const GOAL_ADDED_RATIO = 1.3;

/**
 * One session alone: time from the last byte of the model's answer to the next model request, seen by the provider,
 * with one tool call in between. Measured early in a session, late, after long compaction, and with the AI SDK alone.
 */
export async function benchOverhead({ services, scale }: Bench): Promise<Row[]> {
  const rows: Row[] = [];
  for (const backend of services.backends) {
    rows.push(...(await measure({ services, scale }, backend, scale === 'full' ? FULL : SMALL)));
  }
  return rows;
}

/** The gaps of one repetition, in milliseconds, by measurement. */
type Gaps = Map<string, number[]>;

async function measure({ services }: Bench, backend: Backend, size: Size): Promise<Row[]> {
  await using stack = new AsyncDisposableStack();
  const provider = stack.use(await startBenchProvider());
  const durable = stack.use(await startDurable({ services, backend, concurrency: 10, providerUrl: provider.baseUrl }));
  const raw = stack.use(await startAsked<RawQuestion, RawAnswer>(RAW_PROCESS));
  const longSessionId = await storeLongSession(durable.db, size.storedMessages);
  const world: World = { provider, durable, raw, longSessionId };
  const repetitions: Gaps[] = [];
  for (let round = -size.warmUps; round < size.repetitions; round++) {
    const gaps = await repetition(world, size);
    if (round >= 0) repetitions.push(gaps);
  }
  return toRows(backend, size, repetitions);
}

const RAW_PROCESS = new URL('provider/raw-process.ts', import.meta.url);

type World = Readonly<{
  provider: BenchProvider;
  durable: Durable;
  raw: AskedProcess<RawQuestion, RawAnswer>;
  longSessionId: string;
}>;

async function repetition(world: World, { early, later, shortSessions, storedMessages }: Size): Promise<Gaps> {
  const { durable } = world;
  const gaps: Gaps = new Map();
  const add = (name: string, { from, to }: Window, calls: readonly Call[]): void => {
    gaps.set(name, [...(gaps.get(name) ?? []), ...gapsOf(calls).slice(from - 2, to - 1)]);
  };
  const short: TaskInput = { ...STEP, steps: early.to };
  for (let no = 0; no < shortSessions; no++) {
    add(EARLY, early, await runDurable(world, await durable.createSession(), short));
    add(`raw ${EARLY}`, early, await runRaw(world, short));
    await hideWhatWasSaid(durable.db, world.longSessionId);
    add(nameOfLong(storedMessages), early, await runDurable(world, world.longSessionId, short));
  }
  const long: TaskInput = { ...STEP, steps: Math.max(...later.map(({ to }) => to)) };
  const [calls, rawCalls] = [await runDurable(world, await durable.createSession(), long), await runRaw(world, long)];
  for (const { name, ...window } of later) {
    add(name, window, calls);
    add(`raw ${name}`, window, rawCalls);
  }
  return gaps;
}

const EARLY = 'step 10';
const nameOfLong = (messages: number): string => `${messages} messages`;

async function runDurable({ provider, durable }: World, sessionId: string, task: TaskInput): Promise<readonly Call[]> {
  await durable.runIn([sessionId], task);
  return provider.take(sessionId);
}

async function runRaw({ provider, raw }: World, task: TaskInput): Promise<readonly Call[]> {
  const cacheKey = newId();
  await raw.ask({ baseUrl: provider.baseUrl, cacheKey, task });
  return provider.take(cacheKey);
}

/** The first gap is from the end of step 1 to the request of step 2. */
function gapsOf(calls: readonly Call[]): number[] {
  return calls.slice(1).map(({ arrivedAtMs }, index) => arrivedAtMs - (calls[index]?.endedAtMs ?? Number.NaN));
}

function toRows(backend: Backend, { later, storedMessages }: Size, repetitions: readonly Gaps[]): Row[] {
  const all = (name: string, percent: number): number[] =>
    repetitions.map((gaps) => percentileOf(gaps.get(name) ?? [], percent));
  const row = (name: string, timed: string, values: readonly number[], more: object = {}): Row =>
    toRow({ case: `overhead/${name}`, backend, timed, values, ...more });
  const early = all(EARLY, 50);
  const long = nameOfLong(storedMessages);
  const added = (name: string): number[] =>
    all(name, 50).map((gapMs, index) => gapMs - (all(`raw ${name}`, 50)[index] ?? Number.NaN));
  return [
    row(`${EARLY}/p50`, 'end of an answer to the next request, early in a session; against the AI SDK alone', early, {
      reference: all(`raw ${EARLY}`, 50),
      goal: { atMost: GOAL_EARLY_RATIO },
    }),
    row(`${EARLY}/p99`, P99, all(EARLY, 99), { goal: { atMost: GOAL_P99_MS } }),
    row(`raw ${EARLY}/p50`, RAW, all(`raw ${EARLY}`, 50)),
    ...later.flatMap(({ name }, index) => [
      row(`${name}/p50`, 'the same later in one run; against step 10', all(name, 50), { reference: early }),
      row(`${name}/p99`, P99, all(name, 99)),
      row(`raw ${name}/p50`, RAW, all(`raw ${name}`, 50)),
      row(`added at ${name}`, 'what the product adds to the time of the AI SDK alone; against step 10', added(name), {
        reference: added(EARLY),
        ...(index === later.length - 1 && { goal: { atMost: GOAL_ADDED_RATIO } }),
      }),
    ]),
    row(`${long}/p50`, 'early in a run of a compacted session of so many messages; against step 10', all(long, 50), {
      reference: early,
      goal: { atMost: GOAL_COMPACTED_RATIO },
    }),
    row(`${long}/p99`, P99, all(long, 99)),
  ];
}

const P99 = 'the same, 99th percentile';
const RAW = 'the same with the AI SDK alone';
