import { createRoute, z } from '@hono/zod-openapi';
import type { Context } from 'hono';
import { BatonError } from '../../domain/errors.ts';
import { formatId } from '../../domain/ids.ts';
import { clockProblem, nextFires } from '../../domain/schedules/fire-times.ts';
import { MAX_SCHEDULES_PER_TENANT } from '../../domain/schedules/plan-fire.ts';
import { MAX_BODY_BYTES } from '../../domain/tunables.ts';
import { afterFire, type Fired, fireNow, prepareFire } from '../../schedules/fire.ts';
import { nextFireAfter } from '../../schedules/next-fire.ts';
import {
  changeSchedule,
  createSchedule,
  deleteSchedule,
  findSchedule,
  listFires,
  listSchedules,
  lockSchedule,
  pauseSchedule,
  readClock,
} from '../../store/around/schedules.ts';
import { inTransaction } from '../../store/db/database.ts';
import { idParams, limitField, noQuery, numberField, textField, timeField } from '../bodies/fields.ts';
import { jsonBody, optionalJsonBody } from '../bodies/json-body.ts';
import { BODY_REFUSED, CONFLICT, jsonOf, NOT_FOUND, REFUSED, timeBody, UNKNOWN_AGENT } from '../bodies/responses.ts';
import {
  changedFields,
  fieldsOf,
  fireBody,
  scheduleBody,
  scheduleChanges,
  scheduleFields,
  toFireBody,
  toScheduleBody,
} from '../bodies/schedule-body.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, type HttpEnv, tenantOf } from '../http-env.ts';
import { auditRequest } from '../middleware/audit-trail.ts';
import { limitBody } from '../middleware/body-limit.ts';
import { idempotencyHeader, workOnce } from '../middleware/idempotency.ts';
import { untilGone } from '../request-signal.ts';

const tags = ['schedules'];
const ofOne = { params: idParams('schedule'), query: noQuery };

const create = createRoute({
  method: 'post',
  path: '/v1/schedules',
  middleware: limitBody(MAX_BODY_BYTES),
  operationId: 'createSchedule',
  tags,
  summary: 'Send a message to an agent by the clock',
  description: `By a cron expression of five fields in a time zone. A tenant has at most ${MAX_SCHEDULES_PER_TENANT}.`,
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

const list = createRoute({
  method: 'get',
  path: '/v1/schedules',
  operationId: 'listSchedules',
  tags,
  summary: 'List the schedules, newest first',
  request: { query: noQuery },
  responses: { 200: jsonOf(z.object({ schedules: z.array(scheduleBody) }), 'All of the tenant.'), ...REFUSED },
});

const get = createRoute({
  method: 'get',
  path: '/v1/schedules/{id}',
  operationId: 'getSchedule',
  tags,
  summary: 'Read a schedule',
  request: ofOne,
  responses: { 200: jsonOf(scheduleBody, 'The schedule.'), ...REFUSED, ...NOT_FOUND },
});

const change = createRoute({
  method: 'patch',
  path: '/v1/schedules/{id}',
  middleware: limitBody(MAX_BODY_BYTES),
  operationId: 'updateSchedule',
  tags,
  summary: 'Change a schedule',
  description: 'Fields that are left out stay as they are. What was due before is forgotten.',
  request: { ...ofOne, body: jsonBody(scheduleChanges.openapi('ScheduleChanges')) },
  responses: {
    200: jsonOf(scheduleBody, 'The schedule as it is now.'),
    ...REFUSED,
    ...BODY_REFUSED,
    ...NOT_FOUND,
    ...UNKNOWN_AGENT,
  },
});

const remove = createRoute({
  method: 'delete',
  path: '/v1/schedules/{id}',
  operationId: 'deleteSchedule',
  tags,
  summary: 'Delete a schedule',
  description: 'The sessions that it has begun stay.',
  request: ofOne,
  responses: { 204: { description: 'It is gone.' }, ...REFUSED, ...NOT_FOUND },
});

const pause = createRoute({
  method: 'post',
  path: '/v1/schedules/{id}/pause',
  operationId: 'pauseSchedule',
  tags,
  summary: 'Let a schedule fire no more',
  request: {
    ...ofOne,
    body: optionalJsonBody(z.strictObject({ reason: textField(200).min(1).optional() }).openapi('PauseSchedule')),
  },
  responses: { 200: jsonOf(scheduleBody, 'It is paused.'), ...REFUSED, ...BODY_REFUSED, ...NOT_FOUND },
});

const resume = createRoute({
  method: 'post',
  path: '/v1/schedules/{id}/resume',
  operationId: 'resumeSchedule',
  tags,
  summary: 'Let a paused schedule fire again',
  description: 'From now on: what was due meanwhile does not fire.',
  request: ofOne,
  responses: { 200: jsonOf(scheduleBody, 'It fires again.'), ...REFUSED, ...NOT_FOUND },
});

const firedBody = z.object({ sessionId: z.string(), runId: z.string() }).openapi('FiredSchedule');

const run = createRoute({
  method: 'post',
  path: '/v1/schedules/{id}/run',
  operationId: 'runSchedule',
  tags,
  summary: 'Fire a schedule now',
  description:
    'Also one that is paused. Its next fire stays. With `overlap: skip` it is refused while the last run is active.',
  request: { ...ofOne, headers: idempotencyHeader },
  responses: {
    202: jsonOf(firedBody, 'The run that it has begun.'),
    ...REFUSED,
    ...NOT_FOUND,
    ...CONFLICT,
    ...UNKNOWN_AGENT,
  },
});

const next = createRoute({
  method: 'get',
  path: '/v1/schedules/{id}/next',
  operationId: 'listNextFires',
  tags,
  summary: 'The next times at which a schedule fires',
  description: 'Without jitter. A paused schedule has them, too: it would fire then.',
  request: {
    params: idParams('schedule'),
    query: z.strictObject({ n: numberField(1, 100, 'How many; 10 by default.').optional() }),
  },
  responses: { 200: jsonOf(z.object({ fires: z.array(timeBody) }), 'The times.'), ...REFUSED, ...NOT_FOUND },
});

const fires = createRoute({
  method: 'get',
  path: '/v1/schedules/{id}/fires',
  operationId: 'listFires',
  tags,
  summary: 'What became of the fires of a schedule, newest first',
  request: {
    params: idParams('schedule'),
    query: z.strictObject({ before: timeField.optional(), limit: limitField }),
  },
  responses: {
    200: jsonOf(
      z.object({
        fires: z.array(fireBody),
        next: timeBody.nullable().openapi({ description: 'Pass it as `before`; null at the end.' }),
      }),
      'A page of them.',
    ),
    ...REFUSED,
    ...NOT_FOUND,
  },
});

export function registerScheduleRoutes(app: BatonApp, deps: HttpDeps): void {
  const { db, newId } = deps;
  registerReading(app, deps);

  app.openapi(create, async (c) => {
    const fields = fieldsOf(c.req.valid('json'));
    await refuseWrong(deps, fields, await readClock(db));
    const asked = { route: create, request: fields, answer: scheduleBody };
    const { body, headers } = await workOnce(c, db, asked, async (tx) => {
      const id = newId();
      const first = nextFireAfter(id, fields, await readClock(tx));
      const row = await createSchedule(tx, { id, tenantId: tenantOf(c), ...fields, next: first });
      await auditRequest(tx, c, 'schedule:create', `/v1/schedules/${formatId('schedule', id)}`);
      return toScheduleBody(row);
    });
    return c.json(body, 201, { location: `/v1/schedules/${body.id}`, ...headers });
  });

  app.openapi(change, async (c) => {
    const [id, tenantId] = [c.req.valid('param').id, tenantOf(c)];
    const row = await inTransaction(db, async (tx) => {
      const fields = changedFields(await lockSchedule(tx, tenantId, id), c.req.valid('json'));
      const nowMs = await readClock(tx);
      await refuseWrong(deps, fields, nowMs);
      await auditRequest(tx, c, 'schedule:update');
      return changeSchedule(tx, tenantId, id, fields, nextFireAfter(id, fields, nowMs));
    });
    return c.json(toScheduleBody(row), 200);
  });

  app.openapi(remove, async (c) => {
    await inTransaction(db, async (tx) => {
      await deleteSchedule(tx, tenantOf(c), c.req.valid('param').id);
      await auditRequest(tx, c, 'schedule:delete');
    });
    return c.body(null, 204);
  });

  const setPaused = (c: Context<HttpEnv>, id: string, reason: string | null) =>
    inTransaction(db, async (tx) => {
      const before = toScheduleBody(await lockSchedule(tx, tenantOf(c), id));
      await auditRequest(tx, c, reason === null ? 'schedule:resume' : 'schedule:pause');
      return pauseSchedule(tx, tenantOf(c), id, reason, nextFireAfter(id, before, await readClock(tx)));
    });

  app.openapi(pause, async (c) => {
    const { reason = 'request' } = c.req.valid('json') ?? {};
    return c.json(toScheduleBody(await setPaused(c, c.req.valid('param').id, reason)), 200);
  });

  app.openapi(resume, async (c) => c.json(toScheduleBody(await setPaused(c, c.req.valid('param').id, null)), 200));

  app.openapi(run, async (c) => {
    const { id } = c.req.valid('param');
    const prepared = await prepareFire(deps, tenantOf(c), id, untilGone(c));
    let fired: Fired | undefined;
    const asked = { route: run, request: { id }, answer: firedBody };
    const { body, headers } = await workOnce(c, db, asked, async (tx) => {
      fired = await fireNow(tx, deps, prepared);
      await auditRequest(tx, c, 'schedule:run');
      const { sessionId, accepted } = fired;
      return { sessionId: formatId('session', sessionId), runId: formatId('run', accepted.runId) };
    });
    if (fired !== undefined) await afterFire(deps, id, fired);
    return c.json(body, 202, headers);
  });
}

function registerReading(app: BatonApp, { db }: HttpDeps): void {
  app.openapi(list, async (c) => {
    const rows = await listSchedules(db, tenantOf(c));
    return c.json({ schedules: rows.map(toScheduleBody) }, 200);
  });

  app.openapi(get, async (c) =>
    c.json(toScheduleBody(await findSchedule(db, tenantOf(c), c.req.valid('param').id)), 200),
  );

  app.openapi(next, async (c) => {
    const schedule = await findSchedule(db, tenantOf(c), c.req.valid('param').id);
    const times = nextFires(schedule, await readClock(db), c.req.valid('query').n ?? 10);
    return c.json({ fires: times.map((time) => new Date(time).toISOString()) }, 200);
  });

  app.openapi(fires, async (c) => {
    const { before, limit } = c.req.valid('query');
    const [tenantId, scheduleId] = [tenantOf(c), c.req.valid('param').id];
    await findSchedule(db, tenantId, scheduleId);
    const earlier = before === undefined ? undefined : new Date(before);
    const rows = await listFires(db, { tenantId, scheduleId, limit: limit + 1, before: earlier });
    const page = rows.slice(0, limit);
    const last = rows.length > limit ? (page.at(-1)?.fire_at.toISOString() ?? null) : null;
    return c.json({ fires: page.map(toFireBody), next: last }, 200);
  });
}

/** @throws BatonError `agent_not_found`, `invalid_request` with the field that is wrong */
async function refuseWrong({ agents }: HttpDeps, fields: ReturnType<typeof fieldsOf>, nowMs: number): Promise<void> {
  (await agents.current()).get(fields.agent);
  const problem = clockProblem(fields, nowMs);
  if (problem !== null) throw new BatonError('invalid_request', problem.message, { field: problem.field });
}
