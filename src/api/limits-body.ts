import { z } from '@hono/zod-openapi';
import { runLimitsSchema } from '../domain/run/run-limits.ts';

/** Limits of a run. A field that is left out keeps the agent's value. */
export const limitsBody = z.strictObject(runLimitsSchema.shape).openapi('RunLimits');
