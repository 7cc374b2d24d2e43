import type { z } from '@hono/zod-openapi';
import { errorBody } from '../../api/run-body.ts';
import type { fireBody, scheduleBody, scheduleChanges, scheduleFields } from '../../api/schedules.ts';
import { formatId } from '../../domain/ids.ts';
import type { FireRow, ScheduleFields, ScheduleRow } from '../../store/around/schedules.ts';

/** The fields with their defaults; anything else is left out. */
export function fieldsOf(body: z.infer<typeof scheduleFields>): ScheduleFields {
  const { agent, cron, content, timezone = 'UTC', title = null, session = 'new' } = body;
  const { overlap = 'skip', catchup = 'none', jitterMs = 0 } = body;
  return { agent, cron, content, timezone, title, session, overlap, catchup, jitterMs };
}

/** The fields of a schedule after a change of some. */
export function changedFields(row: ScheduleRow, changes: z.infer<typeof scheduleChanges>): ScheduleFields {
  const before = toScheduleBody(row);
  return {
    agent: changes.agent ?? before.agent,
    cron: changes.cron ?? before.cron,
    timezone: changes.timezone ?? before.timezone,
    content: changes.content ?? before.content,
    title: changes.title === undefined ? before.title : changes.title,
    session: changes.session ?? before.session,
    overlap: changes.overlap ?? before.overlap,
    catchup: changes.catchup ?? before.catchup,
    jitterMs: changes.jitterMs ?? before.jitterMs,
  };
}

export function toScheduleBody(row: ScheduleRow): z.infer<typeof scheduleBody> {
  return {
    id: formatId('schedule', row.id),
    agent: row.agent_name,
    cron: row.cron,
    timezone: row.timezone,
    content: row.content,
    title: row.title,
    session: row.session_kind,
    overlap: row.overlap,
    catchup: row.catchup,
    jitterMs: row.jitter_ms,
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
