import { vi } from 'vitest';

/** Far longer than any wait on a busy machine: a test that waits for a condition claims nothing about time. */
const GIVE_UP_AFTER_MS = 90_000;

/** Resolves when the check no longer throws. @throws the last error of the check */
export const untilHolds = (check: () => void): Promise<void> => vi.waitFor(check, { timeout: GIVE_UP_AFTER_MS });
