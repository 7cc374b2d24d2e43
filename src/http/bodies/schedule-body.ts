import { z } from '@hono/zod-openapi';
import { formatId } from '../../domain/ids.ts';
import {
  CATCHUPS,
  FIRE_RESULTS,
  MAX_CRON_CHARS,
  MAX_JITTER_MS,
  OVERLAPS,
  SESSION_KINDS,
} from '../../domain/schedules/plan-fire.ts';
import { MAX_MESSAGE_CHARS } from '../../domain/tunables.ts';
import type { FireRow, ScheduleFields, ScheduleRow } from '../../store/around/schedules.ts';
import { textField, titleField } from './fields.ts';
import { timeBody } from './responses.ts';
import { errorBody } from './run-body.ts';

const OVERLAP =
  'A fire that is due while the last run is active: `skip` leaves it out, `queue` has it wait, `replace` cancels that run.';
const CATCHUP = 'Fires that were due while no worker ran: `none` is made up for, or the `last` one.';

export const scheduleFields = z.strictObject({
  agent: textField(200).min(1),
  cron: textField(MAX_CRON_CHARS).openapi({
    description: 'Five fields: minute, hour, day, month, weekday.',
    example: '0 9 * * 1-5',
  }),
  timezone: textField(64).optional().openapi({ description: 'By IANA; UTC by default.', example: 'Europe/Berlin' }),
  content: textField(MAX_MESSAGE_CHARS).refine((text) => text.trim() !== '', { error: 'must not be blank' }),
  title: titleField.nullable().optional().openapi({ description: 'Of the sessions that it begins.' }),
  session: z
    .enum(SESSION_KINDS)
    .optional()
    .openapi({ description: 'A `new` one for each fire (default), or the `same`.' }),
  overlap: z
    .enum(OVERLAPS)
    .optional()
    .openapi({ description: `${OVERLAP} Default: \`skip\`.` }),
  catchup: z
    .enum(CATCHUPS)
    .optional()
    .openapi({ description: `${CATCHUP} Default: \`none\`.` }),
  jitterMs: z
    .int()
    .min(0)
    .max(MAX_JITTER_MS)
    .optional()
    .openapi({ description: 'Each fire is later by up to this; 0 by default.' }),
});

export const scheduleChanges = scheduleFields.partial();

/** The fields with their defaults; anything else is left out. */
export function fieldsOf(given: z.infer<typeof scheduleFields>): ScheduleFields {
  const { agent, cron, content, timezone = 'UTC', title = null, session = 'new' } = given;
  const { overlap = 'skip', catchup = 'none', jitterMs = 0 } = given;
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

export const scheduleBody = z
  .object({
    id: z.string(),
    agent: z.string(),
    cron: z.string(),
    timezone: z.string(),
    content: z.string(),
    title: z.string().nullable(),
    session: z.enum(SESSION_KINDS),
    overlap: z.enum(OVERLAPS),
    catchup: z.enum(CATCHUPS),
    jitterMs: z.int(),
    paused: z.boolean(),
    pausedReason: z.string().nullable(),
    nextFireAt: timeBody
      .nullable()
      .openapi({ description: 'Without jitter; null: it is paused, or never fires again.' }),
    sessionId: z.string().nullable().openapi({ description: 'With `session: same`, after the first fire.' }),
    lastRunId: z.string().nullable(),
    createdAt: timeBody,
    updatedAt: timeBody,
  })
  .openapi('Schedule');

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

export const fireBody = z
  .object({
    fireAt: timeBody,
    result: z.enum(FIRE_RESULTS),
    sessionId: z.string().nullable(),
    runId: z.string().nullable(),
    error: errorBody.nullable().openapi({ description: 'Why it failed.' }),
    createdAt: timeBody.openapi({ description: 'When it was done.' }),
  })
  .openapi('ScheduleFire');

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
