import { ACTION_KINDS, type ActionKind } from '../transcript/required-action.ts';
import type { PendingKind, RunStatus } from './run.ts';

/**
 * Why an active run does not work on a step: a call requires an action, or has begun a child (`child`); no worker has taken its pending work (`worker`);
 * all slots of its tenant are taken (`slot`); the provider gets a pause (`retry`); or its view changes first.
 */
export const WAIT_KINDS = [...ACTION_KINDS, 'worker', 'slot', 'retry', 'compaction', 'prune'] as const;
type WaitKind = (typeof WAIT_KINDS)[number];

export type WaitingRun = Readonly<{
  status: RunStatus;
  pendingKind: PendingKind | null;
  pendingAt: Date | null;
  isClaimed: boolean;
  throttledAt: Date | null;
  approvalExpiresAt: Date | null;
  /** The calls that require an action, in order. */
  calls: readonly Readonly<{ kind: ActionKind; toolName: string }>[];
}>;

/** `since`, `until`: null where it is not known. `toolNames`, `count`: of the calls, if it waits for any. */
export type Wait = Readonly<{
  kind: WaitKind;
  since: Date | null;
  until: Date | null;
  toolNames: readonly string[];
  count: number;
}>;

/** A run that waits for its children alone is at work: no person or client has to act. */
export const shownStatus = ({
  status,
  isDelegating,
}: Readonly<{ status: RunStatus; isDelegating: boolean }>): RunStatus => (isDelegating ? 'running' : status);

/** Null: the run works on a step, or has ended. */
export function waitOf(run: WaitingRun, now: Date): Wait | null {
  const { pendingKind, pendingAt, throttledAt, calls } = run;
  const noCalls = { toolNames: [], count: 0 };
  if (run.status === 'requires_action') {
    const [first] = calls;
    if (first === undefined) return null;
    const toolNames = [...new Set(calls.map(({ toolName }) => toolName))];
    return { kind: first.kind, since: pendingAt, until: run.approvalExpiresAt, toolNames, count: calls.length };
  }
  if (pendingKind === null || !isUnended(run.status)) return null;
  if (run.isClaimed)
    return pendingKind === 'step' ? null : { kind: pendingKind, since: pendingAt, until: null, ...noCalls };
  if (throttledAt !== null) return { kind: 'slot', since: throttledAt, until: null, ...noCalls };
  if (pendingAt !== null && pendingAt > now) return { kind: 'retry', since: null, until: pendingAt, ...noCalls };
  return { kind: 'worker', since: pendingAt, until: null, ...noCalls };
}

const isUnended = (status: RunStatus): boolean =>
  status === 'queued' || status === 'running' || status === 'cancelling';
