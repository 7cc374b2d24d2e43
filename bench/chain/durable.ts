import type { Bench } from '../bench.ts';
import { type Row, toRow } from '../row.ts';
import type { Backend } from '../services.ts';
import { type Contestant, type Round, startDurable, startFloor } from './contestants.ts';

const FULL = { sessions: 50, steps: 40, repetitions: 7, warmUps: 3 };
const SMALL = { sessions: 3, steps: 3, repetitions: 1, warmUps: 0 };
/** Durable steps per step of the floor. */
const GOAL_RATIO: Readonly<Record<Backend, number>> = { redis: 0.7, postgres: 0.5 };
/** The worker's processor time by that of the floor's. */
const GOAL_CPU_RATIO = 1.35;

/**
 * Steps per second of 50 sessions with 40 steps each through one worker process: BullMQ and the AI SDK alone, which
 * store nothing, against the product. Both are warm and take turns, so each has the CPU for itself.
 */
export async function benchDurable({ services, scale }: Bench): Promise<Row[]> {
  const rows: Row[] = [];
  for (const backend of services.backends) rows.push(...(await measure({ services, scale }, backend)));
  return rows;
}

async function measure({ services, scale }: Bench, backend: Backend): Promise<Row[]> {
  const { sessions, steps, repetitions, warmUps } = scale === 'full' ? FULL : SMALL;
  await using stack = new AsyncDisposableStack();
  const options = { services, backend, concurrency: sessions };
  const contestants = {
    floor: stack.use(await startFloor(options, 'loop')),
    single: stack.use(await startFloor(options, 'single')),
    durable: stack.use(await startDurable(options)),
  };
  const rounds: Record<keyof typeof contestants, Round[]> = { floor: [], single: [], durable: [] };
  for (let round = -warmUps; round < repetitions; round++) {
    for (const name of ['floor', 'durable', 'single'] as const) {
      const result = await (contestants[name] as Contestant).run(sessions, { steps });
      if (round >= 0) rounds[name].push(result);
    }
  }
  const perSecond = (of: readonly Round[]): number[] => of.map(({ wallMs }) => (sessions * steps * 1_000) / wallMs);
  const cpuPerStep = (of: readonly Round[]): number[] => of.map(({ cpuMs }) => cpuMs / (sessions * steps));
  const row = (name: string, timed: string, values: readonly number[], more: object = {}): Row =>
    toRow({ case: name, backend, unit: 'steps/s', timed, values, ...more });
  const [floor, single, durable] = [perSecond(rounds.floor), perSecond(rounds.single), perSecond(rounds.durable)];
  return [
    row('floor', 'BullMQ chain + AI SDK, nothing persisted, what was said before kept in memory and sent', floor),
    row('floor/single call', 'the same, but the model is asked by the call that the product makes', single),
    row('durable', 'the same work through the product, against the floor', durable, {
      reference: floor,
      goal: { atLeast: GOAL_RATIO[backend] },
    }),
    row('durable/single call', 'the product, against the floor that makes the same call', durable, {
      reference: single,
    }),
    row('durable/cpu', 'CPU time of the worker process for a step, against the floor', cpuPerStep(rounds.durable), {
      unit: 'ms',
      reference: cpuPerStep(rounds.floor),
      goal: { atMost: GOAL_CPU_RATIO },
    }),
  ];
}
