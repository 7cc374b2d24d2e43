import { z } from 'zod';

const count = z.number().int().positive();

/** The most steps that any run may take. */
const MAX_STEPS = 10_000;
export const MAX_DURATION_MS = 30 * 24 * 3_600_000;

/** What a run may use before it ends as `incomplete`. What is left out is not limited, steps by the agent's default. */
export const runLimitsSchema = z.strictObject({
  maxSteps: count.max(MAX_STEPS).optional(),
  /** Input and output of all steps, as billed: cached input counts. */
  maxTokens: count.max(Number.MAX_SAFE_INTEGER).optional(),
  /** US dollars, where the model's prices are known. */
  maxCostUsd: z.number().positive().max(1_000_000).optional(),
  /** From the start of the run, waiting included. */
  deadlineMs: count.max(MAX_DURATION_MS).optional(),
});
export type RunLimits = Readonly<z.infer<typeof runLimitsSchema>>;
