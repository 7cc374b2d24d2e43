import { readWindow } from './window.ts';

/** The page of errors shows the failures of one of these times. */
export const ERROR_WINDOWS = ['7d', '30d'] as const;

/** The state of the page of errors, which its address holds. `group`: the fingerprint of the unfolded cause. */
export type ErrorFilter = Readonly<{ since?: '7d' | '30d'; agent?: string; all?: true; group?: string }>;

/** Reads the address. Parameters that do not belong there are dropped. */
export function readErrorFilter({ since, agent, all, group }: Record<string, unknown>): ErrorFilter {
  const window = readWindow(since);
  return {
    ...((window === '7d' || window === '30d') && { since: window }),
    ...(typeof agent === 'string' && agent !== '' && { agent }),
    ...(all === true && { all }),
    ...((typeof group === 'string' || typeof group === 'number') && { group: String(group) }),
  };
}
