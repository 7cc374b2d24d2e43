import { z } from '@hono/zod-openapi';
import { ERROR_CODES, providerFailureSchema } from '../../domain/errors.ts';
import { formatId } from '../../domain/ids.ts';
import { RUN_KINDS, RUN_STATUSES } from '../../domain/run/run.ts';
import { ACTION_KINDS, type RequiredAction, requiredActionSchema } from '../../domain/transcript/required-action.ts';
import type { Db } from '../../store/database.ts';
import { readRequiredActions } from '../../store/open-calls.ts';
import type { RunRow } from '../../store/runs.ts';
import { costBody, timeBody, usageBody, usageOf } from './responses.ts';

/** Why a run or a compaction failed. */
export const errorBody = z
  .strictObject({
    code: z.enum(ERROR_CODES),
    message: z.string(),
    provider: z
      .strictObject(providerFailureSchema.shape)
      .optional()
      .openapi({ description: 'What the model provider said, without the prompt and credentials.' }),
  })
  .openapi('RunError');

// Built from the fields, because the domain made its schema before Hono's zod added `openapi`. `args` is replaced,
// because zod writes any JSON value as a recursive definition.
const requiredActionBody = z
  .strictObject({ ...requiredActionSchema.shape, kind: z.enum(ACTION_KINDS), args: z.unknown() })
  .openapi('RequiredAction', {
    description:
      '`approval`: approve or deny. `output`: run it and give the output. `unknown_outcome`: nobody knows whether it took effect; approve runs it again, deny tells the model, an output is taken as its result.',
  });

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
    requiredActions: z
      .array(requiredActionBody)
      .openapi({ description: 'What the run waits for: it goes on when each of these calls is answered.' }),
    approvalExpiresAt: timeBody.nullable().openapi({ description: 'Until then they can be answered; null: for ever.' }),
    error: errorBody.nullable(),
    usage: usageBody,
    costUsd: costBody,
    createdAt: timeBody,
    startedAt: timeBody.nullable(),
    finishedAt: timeBody.nullable(),
    cancelRequestedAt: timeBody.nullable(),
  })
  .openapi('Run');
type RunBody = z.infer<typeof runBody>;

export async function readRunBodies(db: Db, rows: readonly RunRow[]): Promise<RunBody[]> {
  const actions = await readRequiredActions(db, rows);
  return rows.map((row) => toRunBody(row, actions.get(row.id) ?? []));
}

export async function readRunBody(db: Db, row: RunRow): Promise<RunBody> {
  const actions = await readRequiredActions(db, [row]);
  return toRunBody(row, actions.get(row.id) ?? []);
}

function toRunBody(row: RunRow, requiredActions: readonly RequiredAction[]): RunBody {
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
    requiredActions: [...requiredActions],
    approvalExpiresAt: row.approval_expires_at?.toISOString() ?? null,
    error: row.error === null ? null : errorBody.parse(row.error),
    usage: usageOf(row),
    costUsd: row.cost_usd,
    createdAt: row.created_at.toISOString(),
    startedAt: row.started_at?.toISOString() ?? null,
    finishedAt: row.finished_at?.toISOString() ?? null,
    cancelRequestedAt: row.cancel_requested_at?.toISOString() ?? null,
  };
}
