import type { z } from '@hono/zod-openapi';
import { listStepsRoute, type stepPageBody } from '../../api/steps.ts';
import { formatCallId, formatId } from '../../domain/ids.ts';
import {
  type CompactionRow,
  foldSteps,
  type PruneRow,
  type StepLogRow,
  type StepRow,
} from '../../domain/run/step-log.ts';
import { readStepLog, type StepLogPage } from '../../store/lists/step-log.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, tenantOf } from '../http-env.ts';

const MOST_STEPS = 2_147_000_000;

/** The steps of a run, folded from its transcript and events. */
export function registerStepRoutes(app: BatonApp, { db }: HttpDeps): void {
  app.openapi(listStepsRoute, async (c) => {
    const { id: runId } = c.req.valid('param');
    const { after = 0, limit } = c.req.valid('query');
    const page = await readStepLog(db, { tenantId: tenantOf(c), runId, after: Math.min(after, MOST_STEPS), limit });
    const folded = foldSteps({ ...page.input, publicIdOf: (id) => formatId('message', id) });
    const rows = folded.filter((row) => isOfPage(row, page, after)).map(toRowBody);
    const ids = { runId: formatId('run', runId), sessionId: formatId('session', page.sessionId) };
    return c.json({ ...ids, rows, next: page.next }, 200);
  });
}

function isOfPage(row: StepLogRow, { from, before }: StepLogPage, after: number): boolean {
  if (row.kind === 'step') return row.step > after;
  const at = row.kind === 'prune' ? row.at : row.startedAt;
  return (from === null || at >= from) && (before === null || at < before);
}

type RowBody = z.infer<typeof stepPageBody>['rows'][number];

function toRowBody(row: StepLogRow): RowBody {
  switch (row.kind) {
    case 'step':
      return toStepBody(row);
    case 'compaction':
      return toCompactionBody(row);
    case 'prune':
      return toPruneBody(row);
  }
}

const timeOf = (time: Date | null): string | null => time?.toISOString() ?? null;

function toStepBody({ messageId, workers, tools, ...row }: StepRow): RowBody {
  return {
    ...row,
    messageId: formatId('message', messageId),
    queuedAt: timeOf(row.queuedAt),
    startedAt: row.startedAt.toISOString(),
    finishedAt: timeOf(row.finishedAt),
    workers: [...workers],
    tools: tools.map((call) => ({
      id: formatCallId(call.messageId, call.index),
      toolName: call.toolName,
      state: call.state,
      startedAt: timeOf(call.startedAt),
      finishedAt: timeOf(call.finishedAt),
      truncated: call.truncated,
    })),
  };
}

function toCompactionBody({ startedAt, finishedAt, ...row }: CompactionRow): RowBody {
  return { ...row, startedAt: startedAt.toISOString(), finishedAt: timeOf(finishedAt) };
}

function toPruneBody({ prunedTools, at, ...row }: PruneRow): RowBody {
  return { ...row, prunedTools: [...prunedTools], at: at.toISOString() };
}
