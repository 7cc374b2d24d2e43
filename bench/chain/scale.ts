import type { Bench } from '../bench.ts';
import { type Row, toRow } from '../row.ts';
import type { Backend } from '../services.ts';
import { startDurable } from './contestants.ts';

/** New processes need the steps of the warm-up to compile their code. */
const FULL = { fleets: [1, 2, 4], sessionsPerWorker: 10, steps: 8, thinkMs: 500, repetitions: 5, warmUpSteps: 8 };
const SMALL = { fleets: [1, 2], sessionsPerWorker: 2, steps: 2, thinkMs: 50, repetitions: 1, warmUpSteps: 1 };
/** Share of N times the rate of one worker. */
const GOAL_SHARE = 0.95;

/**
 * Steps per second of one, two and four worker processes whose model waits half a second before each answer, as
 * providers do. The limit is then the number of concurrent steps, not the CPU.
 */
export async function benchScale({ services, scale }: Bench): Promise<Row[]> {
  const rows: Row[] = [];
  for (const backend of services.backends) rows.push(...(await measure({ services, scale }, backend)));
  return rows;
}

async function measure({ services, scale }: Bench, backend: Backend): Promise<Row[]> {
  const size = scale === 'full' ? FULL : SMALL;
  const { fleets, sessionsPerWorker: concurrency, steps, thinkMs, repetitions, warmUpSteps } = size;
  const rates = new Map<number, number[]>(fleets.map((workers) => [workers, []]));
  for (let round = 0; round < repetitions; round++) {
    for (const workers of fleets) {
      // One fleet at a time: idle workers still sweep, on the same two cores.
      await using durable = await startDurable({ services, backend, concurrency, workers });
      const sessions = workers * concurrency;
      await durable.run(sessions, { steps: warmUpSteps, thinkMs });
      const { wallMs } = await durable.run(sessions, { steps, thinkMs });
      rates.get(workers)?.push((sessions * steps * 1_000) / wallMs);
    }
  }
  const alone = rates.get(1) ?? [];
  return fleets.map((workers) =>
    toRow({
      case: `scale/${workers} workers`,
      backend,
      unit: 'steps/s',
      timed: `steps with a model that thinks ${thinkMs} ms; against ${workers} times what one worker does`,
      values: rates.get(workers) ?? [],
      ...(workers > 1 && { reference: alone.map((rate) => rate * workers), goal: { atLeast: GOAL_SHARE } }),
    }),
  );
}
