import * as commands from '../commands/stop-children.ts';
import { BatonError } from '../domain/errors.ts';
import { type ChildDuty, dutyOf } from '../domain/run/child.ts';
import { CHILDREN, PINS, SWEEP_INTERVAL_MS } from '../domain/tunables.ts';
import { createFairLanes } from '../platform/fair-lanes.ts';
import { toSafeError } from '../platform/log.ts';
import { createLooker, type Looker, lookEvery } from '../platform/looker.ts';
import {
  type Child,
  isToStop,
  readChild,
  settleChild,
  settleChildren,
  takeDueChildren,
} from '../store/session/children.ts';
import { beginChild } from './begin-child.ts';
import type { ChildLanes, DelegationDeps } from './deps.ts';
import { deliverResult, tellAsks, tellBegun } from './tell-parent.ts';

/** To be asked for a look after a commit that may have made work due. */
export type ChildKeeper = Looker;

/**
 * Does the work that is due for children: begins them, tells their parents, delivers their results, and cancels those
 * whose parent no longer waits. Each piece of work is stored in Postgres first, so the process may die at any point,
 * and several processes may do this at the same time.
 *
 * Tenants take turns, and a look waits for no child: however much one tenant has, and however long it takes, the others
 * go on.
 */
export function createChildKeeper(baseDeps: Omit<DelegationDeps, 'lookAfterChildren'>): ChildKeeper {
  const deps: DelegationDeps = { ...baseDeps, lookAfterChildren: () => looker.look() };
  const stop = new AbortController();
  const lanes: ChildLanes = { pins: createFairLanes(PINS), work: createFairLanes(CHILDREN) };
  const inHand = new Map<string, number>();
  const working = new Set<Promise<void>>();

  const count = (tenantId: string, change: number): void => {
    const now = (inHand.get(tenantId) ?? 0) + change;
    if (now === 0) inHand.delete(tenantId);
    else inHand.set(tenantId, now);
  };
  /** Ends with another look, because each piece of work makes the next one due in the same tree. */
  const begin = (tenantId: string, children: readonly Child[]): void => {
    count(tenantId, children.length);
    const ended = (child: Child): void => {
      count(child.tenantId, -1);
      looker.look();
    };
    const work = lookAfterTenant(deps, { tenantId, children, ended }, lanes, stop.signal);
    working.add(work);
    void work.finally(() => working.delete(work));
  };
  const takeAll = async (): Promise<number> => {
    try {
      while (!stop.signal.aborted) {
        const room = CHILDREN.inHand - [...inHand.values()].reduce((sum, of) => sum + of, 0);
        const perTenant = CHILDREN.inHandPerTenant;
        const full = [...inHand].flatMap(([tenantId, of]) => (of < perTenant ? [] : [tenantId]));
        const due = room > 0 ? await takeDueChildren(deps.db, { limit: room, perTenant, full }) : [];
        if (due.length === 0) break;
        for (const [tenantId, children] of Map.groupBy(due, (child) => child.tenantId)) begin(tenantId, children);
      }
    } catch (error) {
      deps.log('warn', { event: 'children_failed', error: toSafeError(error) });
    }
    return Number.POSITIVE_INFINITY;
  };
  const looker = createLooker(takeAll, Number.POSITIVE_INFINITY);
  return {
    look: looker.look,
    async [Symbol.asyncDispose]() {
      stop.abort();
      await looker[Symbol.asyncDispose]();
      await Promise.all(working);
    },
  };
}

/** Looks once a second for work that other processes have left undone. */
export function keepLooking(
  { look }: Pick<ChildKeeper, 'look'>,
  intervalMs: number = SWEEP_INTERVAL_MS,
): AsyncDisposable {
  return lookEvery(intervalMs, async () => look());
}

type OfTenant = Readonly<{ tenantId: string; children: readonly Child[]; ended: (child: Child) => void }>;

/** A child that fails stays due, and the others are still looked after. */
async function lookAfterTenant(
  deps: DelegationDeps,
  { tenantId, children, ended }: OfTenant,
  lanes: ChildLanes,
  signal: AbortSignal,
): Promise<void> {
  const onFailure = (error: unknown): void => {
    if (!signal.aborted) deps.log('warn', { event: 'children_failed', error: toSafeError(error) });
  };
  const stopped = await lanes.work
    .run(tenantId, () => stopTogether(deps, children))
    .catch((error: unknown) => {
      onFailure(error);
      return null;
    });
  await Promise.all(
    children.map(async (child) => {
      const isLeft = stopped !== null && !stopped.has(child.runId) && !signal.aborted;
      if (isLeft) await lookAfter(deps, child, signal, lanes).catch(onFailure);
      ended(child);
    }),
  );
}

/**
 * Stops the working children that have none of their own, and the waiting ones, each group in a few round trips.
 * @returns the ids of their runs
 */
async function stopTogether(deps: DelegationDeps, due: readonly Child[]): Promise<ReadonlySet<string>> {
  const stopping = due.filter((child) => dutyOf(child) === 'stop');
  if (stopping.length < 2) return new Set();
  const runIds = stopping.map(({ runId }) => runId);
  const stopped = new Set(await commands.stopChildren(deps, runIds));
  await settleChildren(
    deps.db,
    stopping.filter(({ runId }) => stopped.has(runId)),
  );
  return stopped;
}

/**
 * Does the duties of a child, each once: a duty that is still due afterwards waits for a change from elsewhere. After a
 * stop it does no more: the end of the stopped run makes its own work due, and the cancel first has to reach the bottom
 * of the tree.
 */
export async function lookAfter(
  deps: DelegationDeps,
  claimedChild: Child,
  signal: AbortSignal,
  lanes: ChildLanes,
): Promise<void> {
  const done = new Set<ChildDuty>();
  let child: Child | null = claimedChild;
  while (child !== null) {
    const duty = dutyOf(child);
    if (duty === null || done.has(duty)) break;
    done.add(duty);
    const due = child;
    if (duty === 'begin') await beginChild(deps, due, signal, lanes);
    else await lanes.work.run(due.tenantId, () => DUTIES[duty](deps, due));
    child = duty === 'stop' ? null : await readChild(deps.db, child);
  }
  await settleChild(deps.db, claimedChild);
}

type Duty = (deps: DelegationDeps, child: Child) => Promise<void>;

const DUTIES: Readonly<Record<Exclude<ChildDuty, 'begin'>, Duty>> = {
  tell: tellBegun,
  ask: tellAsks,
  stop: stopChild,
  deliver: deliverToWaiting,
};

/**
 * Delivers the result. A cancel reaches the bottom of a tree first: a parent that is to stop itself is stopped before,
 * or results of its stopped children would let it go on.
 */
async function deliverToWaiting(deps: DelegationDeps, child: Child): Promise<void> {
  const { tenantId, parentRunId: runId } = child;
  if (await isToStop(deps.db, runId)) await stopChild(deps, { tenantId, runId });
  await deliverResult(deps, child);
}

/** Cancels the run, whose own children are then due to stop. */
async function stopChild(deps: DelegationDeps, { tenantId, runId }: Pick<Child, 'tenantId' | 'runId'>): Promise<void> {
  try {
    await commands.stopChild(deps, { tenantId, runId });
  } catch (error) {
    // The child's session was deleted.
    if (!(error instanceof BatonError) || error.code !== 'not_found') throw error;
  }
}
