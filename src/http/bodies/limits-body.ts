import { z } from '@hono/zod-openapi';
import { runLimitsSchema } from '../../domain/run/run-limits.ts';

/** What a run may use; what is left out is the agent's. */
export const limitsBody = z.strictObject(runLimitsSchema.shape).openapi('RunLimits');
