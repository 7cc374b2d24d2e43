import type { RunKind, RunStatus } from './run.ts';
import type { Delivery } from './session.ts';

/** The deliveries that a sender may ask for. `reject`: take the message only if no task run is active. */
export const REQUESTED_DELIVERIES = ['steer', 'followup', 'interrupt', 'reject'] as const;
export type RequestedDelivery = (typeof REQUESTED_DELIVERIES)[number];

/**
 * Where a message goes. `start`: its own run, at once. `join`: the next step of the active run. `next`: the run after
 * the active one. `interrupt`: the same, and the active run is cancelled. `refuse`: nowhere.
 */
export type Place = 'start' | 'join' | 'next' | 'interrupt' | 'refuse';

export type ActiveRun = Readonly<{ kind: RunKind; status: RunStatus; givesFinalAnswer: boolean }>;

/**
 * A message to a `cancelling` run goes to the next run: it was sent after the cancel, so it must not be parked. A run
 * in its final answer takes no message, and a maintenance run refuses none.
 */
export function placeMessage(requested: RequestedDelivery, active: ActiveRun | null): Place {
  if (active === null) return 'start';
  if (active.kind === 'maintenance') return 'next';
  if (requested === 'reject') return 'refuse';
  if (active.status === 'cancelling') return 'next';
  if (requested === 'steer') return active.givesFinalAnswer ? 'next' : 'join';
  return requested === 'followup' ? 'next' : 'interrupt';
}

/** A message that `reject` has let in is a `steer` like any other. */
export const storedDelivery = (requested: RequestedDelivery): Delivery =>
  requested === 'reject' ? 'steer' : requested;
