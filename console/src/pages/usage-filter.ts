import { readWindow } from './window.ts';

export const USAGE_WINDOWS = ['7d', '90d'] as const;
export const DIMENSIONS = ['agent', 'model', 'tenant'] as const;
export type Dimension = (typeof DIMENSIONS)[number];

/** The state of the page of usage, which the address of the page holds. Default: tokens by agent, of the last 30 days. */
export type UsageFilter = Readonly<{ by?: Dimension; since?: '7d' | '90d'; unit?: 'cost'; all?: true }>;

/** Reads the address. What does not belong there is dropped. */
export function readUsageFilter({ by, since, unit, all }: Record<string, unknown>): UsageFilter {
  const window = readWindow(since);
  const dimension = DIMENSIONS.find((each) => each === by);
  return {
    ...(dimension !== undefined && dimension !== 'agent' && { by: dimension }),
    ...((window === '7d' || window === '90d') && { since: window }),
    ...(unit === 'cost' && { unit }),
    ...(all === true && { all }),
  };
}
