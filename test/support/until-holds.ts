import { vi } from 'vitest';

/** Far more than it takes on a busy machine: who waits for a condition says nothing about time. */
const GIVE_UP_AFTER_MS = 90_000;

/** Resolves when the check no longer throws. @throws what it threw last */
export const untilHolds = (check: () => void): Promise<void> => vi.waitFor(check, { timeout: GIVE_UP_AFTER_MS });
