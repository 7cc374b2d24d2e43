import { z } from 'zod';

const count = z.number().int().positive();

const MAX_STEPS = 10_000;
export const MAX_DURATION_MS = 30 * 24 * 3_600_000;

/** Limits that end a run as `incomplete`. Absent: the agent's, else none (steps: `DEFAULT_MAX_STEPS`). */
export const runLimitsSchema = z.strictObject({
  maxSteps: count.max(MAX_STEPS).optional(),
  /** Billed input and output of all steps; cached input counts. */
  maxTokens: count.max(Number.MAX_SAFE_INTEGER).optional(),
  /** US dollars. A run with an unknown cost counts as beyond it. */
  maxCostUsd: z.number().positive().max(1_000_000).optional(),
  /** From the start of the run, waits included. */
  deadlineMs: count.max(MAX_DURATION_MS).optional(),
});
export type RunLimits = Readonly<z.infer<typeof runLimitsSchema>>;
