import type { Bench } from '../bench.ts';
import { type Row, toRow } from '../row.ts';
import type { Backend } from '../services.ts';
import { type Durable, startDurable } from './contestants.ts';

const WORKERS = [1, 2, 4] as const;
const FULL = { sessionsPerWorker: 10, steps: 8, thinkMs: 500, repetitions: 5 };
const SMALL = { sessionsPerWorker: 2, steps: 2, thinkMs: 50, repetitions: 1 };
/** Of what as many workers would do if each did what one alone does. */
const GOAL_SHARE = 0.9;

/**
 * Steps per second of one, two and four worker processes whose model thinks half a second before each answer, as
 * providers do: what limits them is how many steps each may work on, not the CPU.
 */
export async function benchScale({ services, scale }: Bench): Promise<Row[]> {
  const rows: Row[] = [];
  for (const backend of services.backends) rows.push(...(await measure({ services, scale }, backend)));
  return rows;
}

async function measure({ services, scale }: Bench, backend: Backend): Promise<Row[]> {
  const { sessionsPerWorker: concurrency, steps, thinkMs, repetitions } = scale === 'full' ? FULL : SMALL;
  await using stack = new AsyncDisposableStack();
  const fleets: { workers: number; durable: Durable; rates: number[] }[] = [];
  for (const workers of WORKERS) {
    const durable = stack.use(await startDurable({ services, backend, concurrency, workers }));
    fleets.push({ workers, durable, rates: [] });
  }
  for (let round = -1; round < repetitions; round++) {
    for (const { workers, durable, rates } of fleets) {
      const { wallMs } = await durable.run(workers * concurrency, { steps, thinkMs });
      if (round >= 0) rates.push((workers * concurrency * steps * 1_000) / wallMs);
    }
  }
  const alone = fleets[0]?.rates ?? [];
  return fleets.map(({ workers, rates }) =>
    toRow({
      case: `scale/${workers} workers`,
      backend,
      unit: 'steps/s',
      timed: `steps with a model that thinks ${thinkMs} ms; against ${workers} times what one worker does`,
      values: rates,
      ...(workers > 1 && { reference: alone.map((rate) => rate * workers), goal: { atLeast: GOAL_SHARE } }),
    }),
  );
}
