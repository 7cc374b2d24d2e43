import type { ListedSession, RunChild } from '@baton-run/server/client';

/** A task that a call gave to another agent. `session`: undefined before it has begun, and after it was deleted. */
export type Child = RunChild & Readonly<{ parentRunId: string; session: ListedSession | undefined }>;

/** The children by the call that began each. */
export type ChildrenOfCalls = ReadonlyMap<string, Child>;

/** The children of the run, in the order of its calls. */
export const childrenOfRun = (children: ChildrenOfCalls, runId: string): readonly Child[] =>
  [...children.values()].filter(({ parentRunId }) => parentRunId === runId);

const ENDED: ReadonlySet<RunChild['status']> = new Set(['completed', 'incomplete', 'failed', 'cancelled', 'refused']);

/** The child that the key `d` opens: the first child at work, else the first child that has a session. */
export function firstToOpen(children: readonly Child[]): Child | undefined {
  const begun = children.filter(({ session }) => session !== undefined);
  return begun.find(({ status }) => !ENDED.has(status)) ?? begun[0];
}
