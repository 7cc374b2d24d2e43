import type { RunStatus } from '@baton-run/server/client';

/** The filters of the runs, as they stand in the address. */
export type RunFilter = Readonly<{ status?: RunStatus; all?: true }>;

export const RUN_STATUSES = [
  'queued',
  'running',
  'requires_action',
  'cancelling',
  'completed',
  'failed',
  'cancelled',
  'incomplete',
] as const satisfies readonly RunStatus[];

/** Reads the address. What does not belong there is dropped. */
export function readRunFilter({ status, all }: Record<string, unknown>): RunFilter {
  const known = RUN_STATUSES.find((each) => each === status);
  return { ...(known !== undefined && { status: known }), ...(all === true && { all }) };
}
