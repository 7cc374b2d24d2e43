import type { z } from '@hono/zod-openapi';
import { type childBody, errorBody, MAX_CHILDREN, type runBody } from '../../api/run-body.ts';
import { formatCallId, formatId } from '../../domain/ids.ts';
import { childStatus } from '../../domain/run/child.ts';
import type { OutputFormat } from '../../domain/run/output-format.ts';
import type { RunOutput } from '../../domain/run/run-output.ts';
import { nameOfSession } from '../../domain/run/session-name.ts';
import { shareReads } from '../../platform/share-reads.ts';
import type { Db } from '../../store/db/database.ts';
import { usageOf } from '../../store/db/usage-columns.ts';
import { type ListedChild, listChildren } from '../../store/lists/child-lists.ts';
import type { AskingRun } from '../../store/session/asking-runs.ts';
import { readOutputFormat, readRunOutput } from '../../store/session/run-output.ts';
import type { RunRow } from '../../store/session/runs.ts';

type RunBody = z.infer<typeof runBody>;

/** All who wait for a run hear of its end in the same moment, and share one query. */
const readSharedOutput = shareReads(
  (db: Db, { tenantId, row }: Readonly<{ tenantId: string; row: RunRow }>) => readRunOutput(db, tenantId, row),
  ({ tenantId, row }) => `${tenantId} ${row.id} ${row.status}`,
);

const readSharedFormat = shareReads(
  (db: Db, { tenantId, row }: Readonly<{ tenantId: string; row: RunRow }>) => readOutputFormat(db, tenantId, row.id),
  ({ tenantId, row }) => `${tenantId} ${row.id}`,
);

const readSharedChildren = shareReads(
  (db: Db, { session_id: parentSessionId, id: parentRunId }: RunRow) =>
    listChildren(db, { parentSessionId, parentRunId, limit: MAX_CHILDREN }),
  ({ id }) => id,
);

/** With its output and its children. */
export async function readRunBody(db: Db, tenantId: string, row: AskingRun): Promise<RunBody> {
  const [output, outputFormat, children] = await Promise.all([
    readSharedOutput(db, { tenantId, row }),
    readSharedFormat(db, { tenantId, row }),
    row.children_count === 0 ? [] : readSharedChildren(db, row),
  ]);
  return toRunBody(row, {
    output,
    outputFormat,
    children: children.toReversed().map(toChild),
  });
}

function toChild({ messageId, index, state, isThere, ...child }: ListedChild): z.infer<typeof childBody> {
  const { agent, mode, sessionId, runId, steps, tokens, costUsd, createdAt, endedAt } = child;
  return {
    ...{ callId: formatCallId(messageId, index), agent, mode, status: childStatus(state, child) },
    sessionId: isThere ? formatId('session', sessionId) : null,
    runId: isThere ? formatId('run', runId) : null,
    ...{ steps, tokens, costUsd },
    createdAt: createdAt.toISOString(),
    endedAt: endedAt?.toISOString() ?? null,
  };
}

type Details = Readonly<{
  output: RunOutput | null;
  outputFormat: OutputFormat | null;
  children: z.infer<typeof childBody>[];
}>;

/** @param details left out in lists */
export function toRunBody(row: AskingRun, details?: Details): RunBody {
  const { parent } = row;
  return {
    id: formatId('run', row.id),
    sessionId: formatId('session', row.session_id),
    sessionName: nameOfSession(row.session),
    agent: row.session.agent,
    kind: row.kind,
    trigger: parent === null ? row.trigger : 'parent',
    status: row.status,
    reason: row.status_reason,
    steps: row.step_count,
    maxSteps: row.max_steps,
    maxTokens: row.budget_tokens,
    maxCostUsd: row.budget_cost_usd,
    deadlineAt: row.deadline_at?.toISOString() ?? null,
    requiredActions: [...row.requiredActions],
    approvalExpiresAt: row.approval_expires_at?.toISOString() ?? null,
    error: row.error === null ? null : errorBody.parse(row.error),
    ...(details !== undefined && { output: details.output, outputFormat: details.outputFormat }),
    parent: parent && {
      sessionId: formatId('session', parent.sessionId),
      runId: formatId('run', parent.runId),
      step: parent.step,
      callId: formatCallId(parent.messageId, parent.index),
    },
    childCount: row.children_count,
    ...(details !== undefined && { children: details.children }),
    usage: usageOf(row),
    costUsd: row.cost_usd,
    createdAt: row.created_at.toISOString(),
    startedAt: row.started_at?.toISOString() ?? null,
    finishedAt: row.finished_at?.toISOString() ?? null,
    cancelRequestedAt: row.cancel_requested_at?.toISOString() ?? null,
    traceId: row.traceparent?.split('-')[1] ?? null,
  };
}
