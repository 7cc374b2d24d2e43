import type { SessionStatus } from '@baton-run/server/client';

/** The filters of the list, as they stand in the address. A filter that is not set is not in it. */
export type SessionFilter = Readonly<{
  q?: string;
  agent?: string;
  status?: SessionStatus;
  /** Back from now: `1h`. */
  since?: Since;
  failed?: true;
  waiting?: true;
  minCost?: number;
}>;

export const SINCE = { '1h': 3_600_000, '1d': 86_400_000, '7d': 604_800_000, '30d': 2_592_000_000 } as const;
export type Since = keyof typeof SINCE;

const STATUSES: readonly string[] = ['idle', 'busy', 'requires_action'] satisfies readonly SessionStatus[];

const text = (value: unknown): string | undefined =>
  (typeof value === 'string' && value !== '') || typeof value === 'number' ? String(value).slice(0, 200) : undefined;

/** Reads the address. What does not belong there is dropped. */
export function readSessionFilter(search: Record<string, unknown>): SessionFilter {
  const { status, since, failed, waiting, minCost } = search;
  const [q, agent] = [text(search['q']), text(search['agent'])];
  return {
    ...(q !== undefined && { q }),
    ...(agent !== undefined && { agent }),
    ...(typeof status === 'string' && STATUSES.includes(status) && { status: status as SessionStatus }),
    ...(typeof since === 'string' && since in SINCE && { since: since as Since }),
    ...(failed === true && { failed }),
    ...(waiting === true && { waiting }),
    ...(typeof minCost === 'number' && minCost > 0 && { minCost }),
  };
}
