import type { ErrorGroups, WaitingCall } from './contract.ts';

/** Only an empty page has no `nextCursor`. */
export type WaitingCallPage = Readonly<{ calls: readonly WaitingCall[]; nextCursor: string | null }>;

/** Failed runs with the same cause. */
export type ErrorGroup = Omit<ErrorGroups['groups'][number], 'newest'>;

/** `overflow`: so much may have changed that lists should be read again. It comes first on each connection. */
export type Activity =
  | Readonly<{ type: 'activity'; data: Readonly<{ sessions: readonly string[]; runs: readonly string[] }> }>
  | Readonly<{ type: 'overflow' }>;
