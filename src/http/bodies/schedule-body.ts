import type { z } from '@hono/zod-openapi';
import { errorBody } from '../../api/run-body.ts';
import {
  type fireBody,
  SCHEDULE_SETTINGS,
  type scheduleBody,
  type scheduleChanges,
  type scheduleFields,
} from '../../api/schedules.ts';
import { formatId } from '../../domain/ids.ts';
import type { FireRow, ScheduleColumns, ScheduleRow } from '../../store/around/schedules.ts';
import { fromColumns, toColumns } from './columns.ts';

/** Columns whose names differ from those of their settings. */
const RENAMED = { agent: 'agent_name', session: 'session_kind' } as const;

type Settings = z.output<typeof scheduleFields>;

const settingsOf = (row: ScheduleRow): Settings => fromColumns(row, SCHEDULE_SETTINGS, RENAMED);

export const toScheduleColumns = (settings: Settings): ScheduleColumns => toColumns(settings, RENAMED);

/** The settings of a schedule after a change of some. */
export const changedSettings = (row: ScheduleRow, changes: z.infer<typeof scheduleChanges>): Settings =>
  Object.assign(settingsOf(row), changes);

export function toScheduleBody(row: ScheduleRow): z.infer<typeof scheduleBody> {
  return {
    id: formatId('schedule', row.id),
    key: row.key,
    declaredBy: row.declared_by,
    ...settingsOf(row),
    paused: row.paused_reason !== null,
    pausedReason: row.paused_reason,
    nextFireAt: row.paused_reason === null ? (row.next_fire_at?.toISOString() ?? null) : null,
    sessionId: row.session_id === null ? null : formatId('session', row.session_id),
    lastRunId: row.last_run_id === null ? null : formatId('run', row.last_run_id),
    createdAt: row.created_at.toISOString(),
    updatedAt: row.updated_at.toISOString(),
  };
}

export function toFireBody(row: FireRow): z.infer<typeof fireBody> {
  return {
    fireAt: row.fire_at.toISOString(),
    result: row.result,
    sessionId: row.session_id === null ? null : formatId('session', row.session_id),
    runId: row.run_id === null ? null : formatId('run', row.run_id),
    error: row.error === null ? null : errorBody.parse(row.error),
    createdAt: row.created_at.toISOString(),
  };
}
