import type { BodyBudget } from '../domain/body-budget.ts';
import { MIN_BODY_CHARGE_BYTES, STALLED_BODY_AFTER_MS, STALLED_BODY_BYTES } from '../domain/tunables.ts';
import { ProblemError } from './bodies/problem.ts';

/** Who sends a body: a tenant, or somebody at an address who has shown no key. */
export type Sender = Readonly<{ kind: 'tenant'; id: string }> | Readonly<{ kind: 'stranger'; network: string }>;

/** The room that a body takes while it arrives, and as long as it or what was parsed from it is needed. */
export type BodyRoom = Readonly<{
  /** Takes more room, if the body needs more than it has. @throws ProblemError `intake_full` */
  grow: (bytes: number) => void;
  /** So many more bytes have arrived. */
  arrived: (bytes: number) => void;
  /** The body is whole: it no longer gives way to others. */
  complete: () => void;
  /** Counts the body as one of another sender. @throws ProblemError `intake_full` */
  moveTo: (sender: Sender) => void;
  /** Gives the room back, once however often it is called. */
  release: () => void;
}>;

export type Intake = Readonly<{
  /**
   * Takes room for a body before it is read.
   * @param giveWay called if the body has stalled and others need its room, which is then theirs
   * @throws ProblemError `intake_full`
   */
  admit: (sender: Sender, bytes: number, giveWay: () => void) => BodyRoom;
  heldBytes: () => number;
}>;

type Held = { bytes: number; pools: readonly Pool[]; hasStalled: () => boolean; giveWay: () => void };
type Pool = Readonly<{ name: string; limit: number; bodies: Set<Held> }> & { bytes: number };

/**
 * Bounds the bodies that a process holds, in sum and for each sender. What has no room is refused before it is read,
 * unless bodies that have stalled give theirs: so nobody keeps others out by sending slowly.
 */
export function createIntake(budget: BodyBudget, nowMs: () => number = () => performance.now()): Intake {
  const pools: Pools = new Map();
  return {
    admit(sender, bytes, giveWay) {
      let isComplete = false;
      let recently = 0;
      let sinceMs = nowMs();
      const hasStalled = (): boolean => !isComplete && nowMs() - sinceMs > STALLED_BODY_AFTER_MS;
      const held: Held = { bytes: 0, pools: [], hasStalled, giveWay };
      enter(pools, held, poolsOf(pools, budget, sender), Math.max(bytes, MIN_BODY_CHARGE_BYTES));
      return {
        grow(needed) {
          if (needed > held.bytes && held.pools.length > 0) enter(pools, held, held.pools, needed - held.bytes);
        },
        arrived(more) {
          recently += more;
          if (recently < STALLED_BODY_BYTES) return;
          recently = 0;
          sinceMs = nowMs();
        },
        complete() {
          isComplete = true;
        },
        moveTo(next) {
          const moved = held.bytes;
          leave(pools, held);
          enter(pools, held, poolsOf(pools, budget, next), moved);
        },
        release: () => leave(pools, held),
      };
    },
    heldBytes: () => ['tenants', 'strangers'].reduce((sum, name) => sum + (pools.get(name)?.bytes ?? 0), 0),
  };
}

/** By their names, and only those with bodies in them. */
type Pools = Map<string, Pool>;

function poolOf(pools: Pools, name: string, limit: number): Pool {
  return pools.get(name) ?? { name, limit, bodies: new Set(), bytes: 0 };
}

function poolsOf(pools: Pools, budget: BodyBudget, sender: Sender): readonly Pool[] {
  return sender.kind === 'tenant'
    ? [poolOf(pools, `tenant ${sender.id}`, budget.tenant), poolOf(pools, 'tenants', budget.tenants)]
    : [poolOf(pools, `stranger ${sender.network}`, budget.stranger), poolOf(pools, 'strangers', budget.strangers)];
}

function enter(pools: Pools, held: Held, entered: readonly Pool[], bytes: number): void {
  for (const full of entered) makeRoom(pools, full, held, bytes);
  for (const { name, limit } of entered) {
    // Making room may have dropped a pool that has become empty.
    const joined = poolOf(pools, name, limit);
    pools.set(name, joined);
    joined.bodies.add(held);
    joined.bytes += bytes;
  }
  held.pools = entered.map(({ name, limit }) => poolOf(pools, name, limit));
  held.bytes += bytes;
}

/** Takes the room of stalled bodies, where the pool has too little. @throws ProblemError `intake_full` */
function makeRoom(pools: Pools, full: Pool, held: Held, bytes: number): void {
  let missing = full.bytes + bytes - full.limit;
  if (missing <= 0) return;
  const stalled: Held[] = [];
  for (const body of full.bodies) {
    if (missing <= 0) break;
    if (body === held || !body.hasStalled()) continue;
    stalled.push(body);
    missing -= body.bytes;
  }
  if (missing > 0) throw noRoom(full);
  for (const body of stalled) {
    leave(pools, body);
    body.giveWay();
  }
}

function leave(pools: Pools, held: Held): void {
  for (const left of held.pools) {
    left.bytes -= held.bytes;
    left.bodies.delete(held);
    if (left.bodies.size === 0) pools.delete(left.name);
  }
  held.pools = [];
  held.bytes = 0;
}

function noRoom({ name, limit }: Pool): ProblemError {
  const [kind = ''] = name.split(' ');
  const detail = `Request bodies of ${limit} bytes ${OF_WHOM[kind]} are held here, which is as much as may be: ${ADVICE}`;
  return new ProblemError('intake_full', detail, { headers: { 'retry-after': '1' } });
}

const ADVICE = 'nothing of this one was read, send it again in a moment';

const OF_WHOM: Readonly<Record<string, string>> = {
  tenant: 'of this tenant (a part of BATON_BODY_BYTES)',
  tenants: 'of all tenants (BATON_BODY_BYTES)',
  stranger: 'without a key from this address',
  strangers: 'without a key',
};
