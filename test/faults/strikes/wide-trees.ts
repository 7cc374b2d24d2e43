import type { Random } from '../../support/random.ts';
import type { Fault } from '../fault.ts';
import { LONG_LEASES } from '../leases.ts';
import { createApi } from '../world/api.ts';
import type { World } from '../world/world.ts';
import { pause, repeatedly } from './repeatedly.ts';

/** A hundred agents at depth 3, below twenty, below four. */
const WIDTHS = [4, 5, 5] as const;
const LEAVES = 100;
const RUNS_OF_TREE = 1 + 4 + 20 + LEAVES;

const SLOTS_OF_WORKER = 50;

const CANCELS = 'cancels of whole trees';
const LOOK_EVERY_MS = 100;
/** A tree that is whole is cancelled at a moment of this. */
const CANCELLED_WITHIN_MS: readonly [number, number] = [500, 3_000];

const LEAVES_AT_WORK = `
  select 'run_' || replace(first.parent_run_id::text, '-', '') as "runId", count(*)::int as leaves from children first
  join children second on second.parent_run_id = first.run_id
  join children third on third.parent_run_id = second.run_id and third.state = 'running'
  group by first.parent_run_id`;

type Tree = Readonly<{ runId: string; leaves: number }>;

const treesOf = async ({ database }: World): Promise<Tree[]> => (await database.query<Tree>(LEAVES_AT_WORK)).rows;

/** Cancels each tree at its root, once all that stands in it has begun. */
async function cancelWholeTrees(world: World, random: Random, signal: AbortSignal): Promise<void> {
  const api = createApi(() => world.api.url(), signal);
  const cancelled = new Set<string>();
  world.strikes.add(CANCELS, 0);
  await repeatedly({ random, signal, pauseMs: [LOOK_EVERY_MS, LOOK_EVERY_MS] }, async () => {
    const whole = (await treesOf(world)).find(({ runId, leaves }) => leaves >= LEAVES && !cancelled.has(runId));
    if (whole === undefined) return;
    await pause(random.between(...CANCELLED_WITHIN_MS), signal);
    world.treeCancels.push({ runId: whole.runId, atMs: Date.now() });
    cancelled.add(whole.runId);
    await api.cancel(whole.runId);
    world.strikes.add(CANCELS);
  });
}

/**
 * Kills a worker each second while half of a tree or more is at work, and while the others can hold a whole tree: else
 * runs would wait until a process has started, and no recovery could be measured. A step may lose ten workers, and no
 * more.
 */
async function killUnderTrees(world: World, random: Random, signal: AbortSignal): Promise<void> {
  await repeatedly({ random, signal, pauseMs: [1_000, 1_000] }, async () => {
    if ((world.fleet.members().length - 1) * SLOTS_OF_WORKER <= LEAVES) return;
    const isWide = (await treesOf(world)).some(({ leaves }) => leaves >= LEAVES / 2);
    if (isWide) world.fleet.anyone(random)?.kill(undefined, 'upon-another');
  });
}

const WIDE = {
  agent: { helpers: WIDTHS.length, maxParallel: 16 },
  manners: { widths: WIDTHS, chunkDelayMs: 500 },
  runsPerMessage: RUNS_OF_TREE,
  traffic: { sessions: 1, steerChance: 0, atEndChance: 0 },
  // A hundred answers at a time, on few cores.
  environment: {
    ...LONG_LEASES,
    BATON_STEP_CONCURRENCY: String(SLOTS_OF_WORKER),
    BATON_FIRST_CHUNK_TIMEOUT_MS: '30000',
    BATON_IDLE_CHUNK_TIMEOUT_MS: '30000',
  },
} satisfies Partial<Fault>;

export const WIDE_TREES: readonly Fault[] = [
  {
    ...WIDE,
    name: 'cancel-wide-tree',
    about: 'people cancel a tree with 100 agents at depth 3, all of them at work',
    isHarmless: true,
    strike: cancelWholeTrees,
  },
  {
    ...WIDE,
    name: 'kill-in-wide-tree',
    about: 'the same while a worker is killed each second, as long as the others can hold a tree',
    workers: 6,
    async strike(world, random, signal) {
      await Promise.all([
        killUnderTrees(world, random, signal),
        cancelWholeTrees(world, random.fork('cancels'), signal),
      ]);
    },
  },
];
