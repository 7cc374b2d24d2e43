import { setTimeout as delay } from 'node:timers/promises';
import type { Random } from '../../support/random.ts';
import { rawId } from '../check/snapshot.ts';
import type { Fault } from '../fault.ts';
import { LONG_LEASES } from '../leases.ts';
import { TOOLS } from '../world/model.ts';
import type { Traffic } from '../world/traffic.ts';
import type { World } from '../world/world.ts';
import { repeatedly } from './repeatedly.ts';

/** The share of the last answers after which the worker that continues the run is killed. */
const KILLED_ANSWERS = 0.4;
/** A run whose calls are answered is claimed by then, unless the worker that would have claimed it is dead. */
const CLAIMED_WITHIN_LOOKS = 300;
const LOOK_EVERY_MS = 5;
/** An approved call is settled, starts and ends within this time. */
const KILLED_WITHIN_MS = 20;

type Claim = Readonly<{ id: string; owner: string }>;

async function claimOf({ database }: World, runId: string): Promise<Claim | undefined> {
  const { rows } = await database.query<Claim>(
    `select claim_id as id, lease_owner as owner from runs where id = $1 and claim_id is not null`,
    [rawId(runId)],
  );
  return rows[0];
}

/**
 * Kills the worker that continues a run, `afterMs` after its claim and if the claim still holds. With 0 it kills at
 * once, even while another worker is dead.
 * @returns whether the worker is dead
 */
async function killAnswered(world: World, runId: string, afterMs: number): Promise<boolean> {
  for (let left = CLAIMED_WITHIN_LOOKS; left > 0; left--) {
    const claim = await claimOf(world, runId);
    if (claim === undefined) {
      await delay(LOOK_EVERY_MS);
      continue;
    }
    if (afterMs > 0) {
      await delay(afterMs);
      if ((await claimOf(world, runId))?.id !== claim.id) return false;
    }
    const owner = world.fleet.members().find(({ workerId }) => claim.owner.startsWith(workerId));
    return owner?.kill(undefined, afterMs > 0 ? undefined : 'upon-another') === true;
  }
  return false;
}

/**
 * Kills a worker as soon as a run waits, and the worker that continues a run just after its answer. Each kill is tried
 * at every chance until it has happened once: a row of a few runs on a slow machine has few such moments.
 * @returns a function that ends it
 */
function strikeEachOnce(world: World, random: Random): () => void {
  let hasOrphaned = false;
  const killAndTell = async (runId: string): Promise<void> => {
    // The first kill comes at once, even just after the kill at the question: a short row may have no other chance.
    if (await killAnswered(world, runId, hasOrphaned ? random.between(1, KILLED_WITHIN_MS) : 0)) hasOrphaned = true;
  };
  const onAsked = (): void => {
    if (world.fleet.anyone(random)?.kill() === true) world.people.off('asked', onAsked);
  };
  const onAnswered = (runId: string): void => {
    if (!hasOrphaned || random.chance(KILLED_ANSWERS)) void killAndTell(runId).catch(() => undefined);
  };
  world.people.on('asked', onAsked).on('answered', onAnswered);
  return () => void world.people.off('asked', onAsked).off('answered', onAnswered);
}

type Waits = Pick<Traffic, 'waits'>;

const killsMeanwhile = ({ timeline }: World, { waits }: Waits): number =>
  timeline.kills.filter((atMs) => waits.some(({ sinceMs, untilMs }) => sinceMs < atMs && atMs < untilMs)).length;

/** Number of runs whose worker was killed in the very step that began after their last answer. */
const answeredOrphans = ({ timeline }: World, { waits }: Waits): number =>
  waits.filter(({ runId, untilMs }) =>
    timeline.orphans.some(
      (orphan) =>
        orphan.runId === rawId(runId) &&
        orphan.killedAtMs > untilMs &&
        // Every later step has a claim of its own.
        timeline.claims.filter(
          ({ runId: claimed, atMs }) => claimed === orphan.runId && untilMs < atMs && atMs < orphan.killedAtMs,
        ).length <= 1,
    ),
  ).length;

export const ANSWERS: readonly Fault[] = [
  {
    name: 'kill-in-approval',
    about: 'SIGKILL while runs wait for people, and of whoever goes on with a run that was just answered',
    environment: LONG_LEASES,
    agent: { approvals: ['append'], clientTool: 'fill' },
    manners: { tools: [...TOOLS, 'fill'], maxRounds: 2 },
    async strike(world, random, signal) {
      const stopStriking = strikeEachOnce(world, random);
      await repeatedly({ random, signal, pauseMs: [2_000, 8_000] }, () => {
        world.fleet.anyone(random)?.kill();
      });
      stopStriking();
    },
    hits: (world, traffic) => ({
      'kills while runs waited': killsMeanwhile(world, traffic),
      'answered runs orphaned': answeredOrphans(world, traffic),
    }),
  },
];
