import { createRoute, z } from '@hono/zod-openapi';
import {
  CATCHUPS,
  FIRE_RESULTS,
  MAX_CRON_CHARS,
  MAX_JITTER_MS,
  MAX_SCHEDULES_PER_TENANT,
  OVERLAPS,
  SESSION_KINDS,
} from '../domain/schedules/plan-fire.ts';
import { MAX_BODY_BYTES, MAX_MESSAGE_CHARS } from '../domain/tunables.ts';
import { limitBody } from './body-limit.ts';
import { idParams, keyParams, limitField, noQuery, numberField, textField, timeField, titleField } from './fields.ts';
import { idempotencyHeader } from './idempotency-key.ts';
import { jsonBody, optionalJsonBody } from './json-body.ts';
import {
  BODY_REFUSED,
  CONFLICT,
  jsonOf,
  NOT_FOUND,
  orNull,
  REFUSED,
  TOO_LARGE,
  timeBody,
  UNKNOWN_AGENT,
} from './responses.ts';
import { errorBody } from './run-body.ts';

const OVERLAP =
  'A fire that is due while the last run is active: `skip` leaves it out, `queue` has it wait, `replace` cancels that run.';

const CATCHUP = 'Fires that were due while no worker ran: `none` is made up for, or the `last` one.';

/** Settings of a schedule. `src/http/bodies/schedule-body.ts` lists the columns that have another name. */
const settings = z.strictObject({
  agent: textField(200).min(1),
  cron: textField(MAX_CRON_CHARS).openapi({
    description: 'Five fields: minute, hour, day, month, weekday.',
    example: '0 9 * * 1-5',
  }),
  timezone: textField(64).openapi({ description: 'Time zone of IANA. Default: UTC.', example: 'Europe/Berlin' }),
  content: textField(MAX_MESSAGE_CHARS).refine((text) => text.trim() !== '', { error: 'must not be blank' }),
  title: titleField.nullable().openapi({ description: 'Title of the sessions that the schedule begins.' }),
  session: z
    .enum(SESSION_KINDS)
    .openapi({ description: '`new`: one session for each fire (default). `same`: one session for all fires.' }),
  overlap: z.enum(OVERLAPS).openapi({ description: `${OVERLAP} Default: \`skip\`.` }),
  catchup: z.enum(CATCHUPS).openapi({ description: `${CATCHUP} Default: \`none\`.` }),
  jitterMs: z
    .int()
    .min(0)
    .max(MAX_JITTER_MS)
    .openapi({ description: 'Longest random delay of each fire, in milliseconds. Default: 0.' }),
});

const { timezone, title, session, overlap, catchup, jitterMs } = settings.shape;

export const scheduleFields = settings.extend({
  timezone: timezone.default('UTC'),
  title: title.default(null),
  session: session.default('new'),
  overlap: overlap.default('skip'),
  catchup: catchup.default('none'),
  jitterMs: jitterMs.default(0),
});

export const SCHEDULE_SETTINGS = settings.keyof().options;

export const scheduleChanges = settings.partial();

export const scheduleBody = z
  .object({
    id: z.string(),
    key: z
      .string()
      .nullable()
      .openapi({ description: 'Your own name for the schedule. In a path, `key:` and the key stand for the id.' }),
    declaredBy: z
      .string()
      .nullable()
      .openapi({ description: 'Declarer of the schedule: `files`, or the name of a program. null: nothing does.' }),
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
      .openapi({ description: 'Next fire, without jitter. null: the schedule is paused, or never fires again.' }),
    sessionId: z
      .string()
      .nullable()
      .openapi({ description: 'Session of all fires, with `session: same`, after the first fire.' }),
    lastRunId: z.string().nullable(),
    createdAt: timeBody,
    updatedAt: timeBody,
  })
  .openapi('Schedule');

export const fireBody = z
  .object({
    fireAt: timeBody,
    result: z.enum(FIRE_RESULTS),
    sessionId: z.string().nullable(),
    runId: z.string().nullable(),
    error: orNull(errorBody).openapi({ description: 'Error because of which the fire failed.' }),
    createdAt: timeBody.openapi({ description: 'Time at which the fire was carried out.' }),
  })
  .openapi('ScheduleFire');

const tags = ['schedules'];

const ofOne = { params: idParams('schedule'), query: noQuery };

export const createScheduleRoute = createRoute({
  method: 'post',
  path: '/v1/schedules',
  middleware: limitBody(MAX_BODY_BYTES),
  operationId: 'createSchedule',
  tags,
  summary: 'Send a message to an agent by the clock',
  description: `Fires by a cron expression of five fields in a time zone. A tenant has at most ${MAX_SCHEDULES_PER_TENANT}.`,
  request: {
    query: noQuery,
    headers: idempotencyHeader,
    body: jsonBody(scheduleFields.openapi('NewSchedule')),
  },
  responses: {
    201: jsonOf(scheduleBody, 'The schedule.'),
    ...REFUSED,
    ...BODY_REFUSED,
    ...CONFLICT,
    ...UNKNOWN_AGENT,
  },
});

export const putScheduleRoute = createRoute({
  method: 'put',
  path: '/v1/schedules/{id}',
  middleware: limitBody(MAX_BODY_BYTES),
  operationId: 'putSchedule',
  tags,
  summary: 'Create or change the schedule of a key',
  description:
    'The id in the path is `key:` and your own name for the schedule. Fields that are left out have their defaults. An equal schedule is left as it is: nothing is written. A paused schedule stays paused.',
  request: { params: keyParams, query: noQuery, body: jsonBody(scheduleFields.openapi('PutSchedule')) },
  responses: {
    200: jsonOf(scheduleBody, 'The schedule, which was changed or equal.'),
    201: jsonOf(scheduleBody, 'The schedule, which is new.'),
    ...REFUSED,
    ...BODY_REFUSED,
    ...CONFLICT,
    ...UNKNOWN_AGENT,
  },
});

export const listSchedulesRoute = createRoute({
  method: 'get',
  path: '/v1/schedules',
  operationId: 'listSchedules',
  tags,
  summary: 'List the schedules, newest first',
  request: { query: noQuery },
  responses: {
    200: jsonOf(z.object({ schedules: z.array(scheduleBody) }), 'All schedules of the tenant.'),
    ...REFUSED,
  },
});

export const getScheduleRoute = createRoute({
  method: 'get',
  path: '/v1/schedules/{id}',
  operationId: 'getSchedule',
  tags,
  summary: 'Read a schedule',
  request: ofOne,
  responses: { 200: jsonOf(scheduleBody, 'The schedule.'), ...REFUSED, ...NOT_FOUND },
});

export const updateScheduleRoute = createRoute({
  method: 'patch',
  path: '/v1/schedules/{id}',
  middleware: limitBody(MAX_BODY_BYTES),
  operationId: 'updateSchedule',
  tags,
  summary: 'Change a schedule',
  description: 'Fields that are left out stay as they are. Fires that were due before are forgotten.',
  request: { ...ofOne, body: jsonBody(scheduleChanges.openapi('ScheduleChanges')) },
  responses: {
    200: jsonOf(scheduleBody, 'The schedule as it is now.'),
    ...REFUSED,
    ...BODY_REFUSED,
    ...NOT_FOUND,
    ...UNKNOWN_AGENT,
  },
});

export const deleteScheduleRoute = createRoute({
  method: 'delete',
  path: '/v1/schedules/{id}',
  operationId: 'deleteSchedule',
  tags,
  summary: 'Delete a schedule',
  description: 'The sessions that it has begun stay.',
  request: ofOne,
  responses: { 204: { description: 'Deleted.' }, ...REFUSED, ...TOO_LARGE, ...NOT_FOUND },
});

export const pauseScheduleRoute = createRoute({
  method: 'post',
  path: '/v1/schedules/{id}/pause',
  operationId: 'pauseSchedule',
  tags,
  summary: 'Pause a schedule',
  request: {
    ...ofOne,
    body: optionalJsonBody(z.strictObject({ reason: textField(200).min(1).optional() }).openapi('PauseSchedule')),
  },
  responses: { 200: jsonOf(scheduleBody, 'The paused schedule.'), ...REFUSED, ...BODY_REFUSED, ...NOT_FOUND },
});

export const resumeScheduleRoute = createRoute({
  method: 'post',
  path: '/v1/schedules/{id}/resume',
  operationId: 'resumeSchedule',
  tags,
  summary: 'Resume a paused schedule',
  description: 'Fires from now on. Fires that were due meanwhile are left out.',
  request: ofOne,
  responses: { 200: jsonOf(scheduleBody, 'The schedule, which fires again.'), ...REFUSED, ...TOO_LARGE, ...NOT_FOUND },
});

export const firedBody = z.object({ sessionId: z.string(), runId: z.string() }).openapi('FiredSchedule');

export const runScheduleRoute = createRoute({
  method: 'post',
  path: '/v1/schedules/{id}/run',
  operationId: 'runSchedule',
  tags,
  summary: 'Fire a schedule now',
  description:
    'Fires a paused schedule, too. The next fire stays as it is. With `overlap: skip` the request is refused while the last run is active.',
  request: { ...ofOne, headers: idempotencyHeader },
  responses: {
    202: jsonOf(firedBody, 'The run that the fire has begun.'),
    ...REFUSED,
    ...TOO_LARGE,
    ...NOT_FOUND,
    ...CONFLICT,
    ...UNKNOWN_AGENT,
  },
});

export const listNextFiresRoute = createRoute({
  method: 'get',
  path: '/v1/schedules/{id}/next',
  operationId: 'listNextFires',
  tags,
  summary: 'List the next times at which a schedule fires',
  description: 'Times without jitter. A paused schedule has the times at which it would fire.',
  request: {
    params: idParams('schedule'),
    query: z.strictObject({ n: numberField(1, 100, 'Number of times. Default: 10.').optional() }),
  },
  responses: { 200: jsonOf(z.object({ fires: z.array(timeBody) }), 'The times.'), ...REFUSED, ...NOT_FOUND },
});

export const listFiresRoute = createRoute({
  method: 'get',
  path: '/v1/schedules/{id}/fires',
  operationId: 'listFires',
  tags,
  summary: 'List the past fires of a schedule with their results, newest first',
  request: {
    params: idParams('schedule'),
    query: z.strictObject({ before: timeField.optional(), limit: limitField }),
  },
  responses: {
    200: jsonOf(
      z.object({
        fires: z.array(fireBody),
        next: timeBody
          .nullable()
          .openapi({ description: 'Value to pass as `before` for the next page. null at the end.' }),
      }),
      'A page of fires.',
    ),
    ...REFUSED,
    ...NOT_FOUND,
  },
});
