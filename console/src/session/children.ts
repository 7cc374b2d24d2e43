import type { ListedSession, RunChild } from 'baton/client';

/** A task that a call gave to another agent. `session`: undefined while it is not begun, or when it is deleted. */
export type Child = RunChild & Readonly<{ parentRunId: string; session: ListedSession | undefined }>;

/** The children by the call that began each. */
export type ChildrenOfCalls = ReadonlyMap<string, Child>;

/** In the order of its calls. */
export const childrenOfRun = (children: ChildrenOfCalls, runId: string): readonly Child[] =>
  [...children.values()].filter(({ parentRunId }) => parentRunId === runId);

const ENDED: ReadonlySet<RunChild['status']> = new Set(['completed', 'incomplete', 'failed', 'cancelled', 'refused']);

/** Where `d` leads: to the first child that is at work, else to the first one that can be opened. */
export function firstToOpen(children: readonly Child[]): Child | undefined {
  const begun = children.filter(({ session }) => session !== undefined);
  return begun.find(({ status }) => !ENDED.has(status)) ?? begun[0];
}
