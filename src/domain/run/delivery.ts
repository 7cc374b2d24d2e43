import type { RunKind, RunStatus } from './run.ts';
import type { Delivery } from './session.ts';

/** What a sender asks for. `reject`: take the message only if nothing is at work. */
export const REQUESTED_DELIVERIES = ['steer', 'followup', 'interrupt', 'reject'] as const;
export type RequestedDelivery = (typeof REQUESTED_DELIVERIES)[number];

/**
 * Where a message goes. `start`: a run of its own, at once. `join`: the active run, at its next step boundary. `next`:
 * the run after the active one. `interrupt`: likewise, and the active one is cancelled. `refuse`: nowhere.
 */
export type Place = 'start' | 'join' | 'next' | 'interrupt' | 'refuse';

/** The run that a session works on. */
export type ActiveRun = Readonly<{ kind: RunKind; status: RunStatus; givesFinalAnswer: boolean }>;

/**
 * Decides where a message goes. A session that only tidies itself up is not at work. A message that comes after a
 * cancel was not meant for what was cancelled: parked behind it, it would wait for somebody who has said already what
 * they want. A run that gives its final answer hears nothing any more.
 */
export function placeMessage(requested: RequestedDelivery, active: ActiveRun | null): Place {
  if (active === null) return 'start';
  if (active.kind === 'maintenance') return 'next';
  if (requested === 'reject') return 'refuse';
  if (active.status === 'cancelling') return 'next';
  if (requested === 'steer') return active.givesFinalAnswer ? 'next' : 'join';
  return requested === 'followup' ? 'next' : 'interrupt';
}

/** What is stored of it: a message that was taken although it might have been refused is like any other. */
export const storedDelivery = (requested: RequestedDelivery): Delivery =>
  requested === 'reject' ? 'steer' : requested;
