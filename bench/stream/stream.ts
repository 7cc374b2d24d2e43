import { fileURLToPath } from 'node:url';
import { formatId } from '../../src/domain/ids.ts';
import { newId } from '../../src/platform/new-id.ts';
import { startChild } from '../../test/faults/world/child.ts';
import type { Bench } from '../bench.ts';
import { DELTA_CHARS } from '../chain/answer.ts';
import { type Durable, startDurable } from '../chain/contestants.ts';
import { taskText } from '../chain/task.ts';
import { type AskedProcess, startAsked } from '../process/asked.ts';
import { type BenchProvider, type Call, startBenchProvider } from '../provider/provider.ts';
import type { RawAnswer, RawQuestion } from '../provider/raw-process.ts';
import { percentileOf, type Row, toRow } from '../row.ts';
import type { Backend, Services } from '../services.ts';
import type { ReadersAnswer, ReadersQuestion } from './reader-process.ts';

const READERS = [1, 200] as const;
const FULL = { deltas: 4_000, repetitions: 9, firstRepetitions: 25, warmUps: 3 };
const SMALL = { deltas: 50, repetitions: 1, firstRepetitions: 1, warmUps: 0 };
/** The first delta is measured on an idle machine: few deltas, with pauses. */
const FEW_DELTAS = 5;
const FEW_DELTAS_PAUSE_MS = 40;

/** Deltas per second at the readers, as a share of the AI SDK loop's. */
const GOAL_RATIO = 0.5;
const GOAL_FIRST_DELTA_MS = 3;

/**
 * One answer over HTTP, as fast as the provider can send it: deltas per second at readers of the event stream (worker,
 * live bus, API process) against the AI SDK's loop, and the delay of the first delta. With one reader, and with 200
 * readers of one session.
 */
export async function benchStream({ services, scale }: Bench): Promise<Row[]> {
  const rows: Row[] = [];
  for (const backend of services.backends) {
    rows.push(...(await measure(services, backend, scale === 'full' ? FULL : SMALL)));
  }
  return rows;
}

type World = Readonly<{
  provider: BenchProvider;
  durable: Durable;
  apiUrl: string;
  raw: AskedProcess<RawQuestion, RawAnswer>;
  readers: AskedProcess<ReadersQuestion, ReadersAnswer>;
}>;

/** Milliseconds since the provider began its answer; and since the message was sent, if one was sent. */
type Answered = Readonly<{ firstMs: number; lastMs: number; firstSinceSentMs: number }>;
type Rounds = Readonly<{ raw: Answered[]; read: Readonly<Record<(typeof READERS)[number], Answered[]>> }>;

async function measure(services: Services, backend: Backend, size: typeof FULL): Promise<Row[]> {
  await using stack = new AsyncDisposableStack();
  const world = await openWorld(services, backend, stack);
  const fast = await rounds(world, size.deltas, 0, size.warmUps, size.repetitions);
  const first = await rounds(world, FEW_DELTAS, FEW_DELTAS_PAUSE_MS, size.warmUps, size.firstRepetitions);
  return [...rateRows(backend, fast, size.deltas), ...firstDeltaRows(backend, first)];
}

async function openWorld(services: Services, backend: Backend, stack: AsyncDisposableStack): Promise<World> {
  const provider = stack.use(await startBenchProvider());
  const durable = stack.use(await startDurable({ services, backend, concurrency: 10, providerUrl: provider.baseUrl }));
  const { BENCH_CONCURRENCY: _ours, ...variables } = durable.variables;
  const api = await startChild({
    file: fileURLToPath(new URL('../../workers/api.ts', import.meta.url)),
    environment: { ...variables, BATON_PORT: '0' },
    onLine: () => undefined,
  });
  stack.defer(async () => {
    api.kill('SIGTERM');
    await api.ended;
  });
  return {
    provider,
    durable,
    apiUrl: String(api.started['url']),
    raw: stack.use(await startAsked<RawQuestion, RawAnswer>(new URL('../provider/raw-process.ts', import.meta.url))),
    readers: stack.use(await startAsked<ReadersQuestion, ReadersAnswer>(new URL('reader-process.ts', import.meta.url))),
  };
}

/** The raw loop and the readers take turns. */
async function rounds(
  world: World,
  deltas: number,
  deltaPauseMs: number,
  warmUps: number,
  repetitions: number,
): Promise<Rounds> {
  const all: Rounds = { raw: [], read: { 1: [], 200: [] } };
  const task = { steps: 1, deltas, deltaPauseMs };
  for (let round = -warmUps; round < repetitions; round++) {
    const raw = await askRaw(world, task);
    if (round >= 0) all.raw.push(raw);
    for (const readers of READERS) {
      const read = await askReaders(world, task, readers);
      if (round >= 0) all.read[readers].push(read);
    }
  }
  return all;
}

type StreamTask = Readonly<{ steps: number; deltas: number; deltaPauseMs: number }>;

async function askRaw({ provider, raw }: World, task: StreamTask): Promise<Answered> {
  const cacheKey = newId();
  const { firstDeltaAtMs, lastDeltaAtMs } = await raw.ask({ baseUrl: provider.baseUrl, cacheKey, task });
  const { begunAtMs } = onlyCall(provider.take(cacheKey));
  return { firstMs: firstDeltaAtMs - begunAtMs, lastMs: lastDeltaAtMs - begunAtMs, firstSinceSentMs: Number.NaN };
}

/** Of several readers: the first delta of the median reader, and the last delta of the slowest. */
async function askReaders(
  { provider, durable, apiUrl, readers: process }: World,
  task: StreamTask,
  readers: number,
): Promise<Answered> {
  const sessionId = await durable.createSession();
  const { postedAtMs, firstDeltaAtMs, lastDeltaAtMs } = await process.ask({
    url: apiUrl,
    sessionId: formatId('session', sessionId),
    content: taskText(task),
    readers,
    chars: task.deltas * DELTA_CHARS,
  });
  const { begunAtMs } = onlyCall(provider.take(sessionId));
  const first = percentileOf(firstDeltaAtMs, 50);
  return {
    firstMs: first - begunAtMs,
    lastMs: Math.max(...lastDeltaAtMs) - begunAtMs,
    firstSinceSentMs: first - postedAtMs,
  };
}

function onlyCall(calls: readonly Call[]): Call {
  const [call] = calls;
  if (call === undefined || calls.length > 1) throw new Error(`the provider was asked ${calls.length} times`);
  return call;
}

function rateRows(backend: Backend, { raw, read }: Rounds, deltas: number): Row[] {
  const rates = (of: readonly Answered[]): number[] => of.map(({ lastMs }) => (deltas * 1_000) / lastMs);
  const row = (name: string, timed: string, values: readonly number[], more: object = {}): Row =>
    toRow({ case: `stream/${name}`, backend, unit: 'deltas/s', timed, values, ...more });
  return [
    row('raw', "deltas of one answer through the AI SDK's loop", rates(raw)),
    ...READERS.map((readers) =>
      row(
        nameOf(readers),
        'until the last reader of the event stream has all, against the loop',
        rates(read[readers]),
        {
          reference: rates(raw),
          goal: { atLeast: GOAL_RATIO },
        },
      ),
    ),
  ];
}

function firstDeltaRows(backend: Backend, { raw, read }: Rounds): Row[] {
  return READERS.flatMap((readers) => [
    toRow({
      case: `stream/first delta/${nameOf(readers)}`,
      backend,
      timed:
        "how much later it comes to the middle reader than to the AI SDK's loop, each since the provider's beginning",
      values: read[readers].map(({ firstMs }, index) => firstMs - (raw[index]?.firstMs ?? Number.NaN)),
      goal: { atMost: GOAL_FIRST_DELTA_MS },
    }),
    toRow({
      case: `stream/first delta since the message/${nameOf(readers)}`,
      backend,
      timed: 'from the sending of the message, the provider pausing 40 ms before its first delta',
      values: read[readers].map(({ firstSinceSentMs }) => firstSinceSentMs),
    }),
  ]);
}

const nameOf = (readers: number): string => (readers === 1 ? '1 reader' : `${readers} readers`);
