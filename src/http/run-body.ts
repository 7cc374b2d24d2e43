import { z } from '@hono/zod-openapi';
import { ERROR_CODES } from '../domain/errors.ts';
import { formatId } from '../domain/ids.ts';
import { RUN_KINDS, RUN_STATUSES } from '../domain/run.ts';
import type { RunRow } from '../store/runs.ts';
import { timeBody, usageBody, usageOf } from './responses.ts';

const errorBody = z.object({ code: z.enum(ERROR_CODES), message: z.string() }).openapi('RunError');

/** A run as callers see it. */
export const runBody = z
  .object({
    id: z.string(),
    sessionId: z.string(),
    kind: z.enum(RUN_KINDS),
    status: z.enum(RUN_STATUSES),
    reason: z.string().nullable().openapi({ description: 'Why the run ended `incomplete`.' }),
    steps: z.int().openapi({ description: 'Model steps that were completed.' }),
    maxSteps: z.int().nullable(),
    maxTokens: z.int().nullable(),
    maxCostUsd: z.number().nullable(),
    deadlineAt: timeBody.nullable(),
    error: errorBody.nullable(),
    usage: usageBody,
    costUsd: z.number().openapi({ description: 'Of the steps whose model has known prices.' }),
    createdAt: timeBody,
    startedAt: timeBody.nullable(),
    finishedAt: timeBody.nullable(),
    cancelRequestedAt: timeBody.nullable(),
  })
  .openapi('Run');

export function toRunBody(row: RunRow): z.infer<typeof runBody> {
  return {
    id: formatId('run', row.id),
    sessionId: formatId('session', row.session_id),
    kind: row.kind,
    status: row.status,
    reason: row.status_reason,
    steps: row.step_count,
    maxSteps: row.max_steps,
    maxTokens: row.budget_tokens,
    maxCostUsd: row.budget_cost_usd,
    deadlineAt: row.deadline_at?.toISOString() ?? null,
    error: row.error === null ? null : errorBody.parse(row.error),
    usage: usageOf(row),
    costUsd: row.cost_usd,
    createdAt: row.created_at.toISOString(),
    startedAt: row.started_at?.toISOString() ?? null,
    finishedAt: row.finished_at?.toISOString() ?? null,
    cancelRequestedAt: row.cancel_requested_at?.toISOString() ?? null,
  };
}
