import type { Context } from 'hono';
import {
  createScheduleRoute,
  deleteScheduleRoute,
  firedBody,
  getScheduleRoute,
  listFiresRoute,
  listNextFiresRoute,
  listSchedulesRoute,
  pauseScheduleRoute,
  putScheduleRoute,
  resumeScheduleRoute,
  runScheduleRoute,
  scheduleBody,
  updateScheduleRoute,
} from '../../api/schedules.ts';
import { changeSchedule, createScheduleIn, deleteSchedule, setSchedulePaused } from '../../commands/change-schedule.ts';
import { afterFire, fireScheduleNowIn, type RequestedFire } from '../../commands/fire-schedule.ts';
import { putSchedule } from '../../commands/put-schedule.ts';
import { formatId } from '../../domain/ids.ts';
import { nextFires } from '../../domain/schedules/fire-times.ts';
import { checkSchedule } from '../../schedules/check-schedule.ts';
import { prepareFire } from '../../schedules/fire.ts';
import { findSchedule, listFires, listSchedules, readClock } from '../../store/around/schedules.ts';
import { changedSettings, toFireBody, toScheduleBody, toScheduleColumns } from '../bodies/schedule-body.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, type HttpEnv, tenantOf } from '../http-env.ts';
import { workOnce } from '../middleware/idempotency.ts';
import { untilGone } from '../request-signal.ts';

export function registerScheduleRoutes(app: BatonApp, deps: HttpDeps): void {
  const { db, agents } = deps;
  registerReading(app, deps);

  app.openapi(createScheduleRoute, async (c) => {
    const settings = c.req.valid('json');
    await checkSchedule(agents, settings, await readClock(db));
    const submission = { route: createScheduleRoute, request: settings, answer: scheduleBody };
    const { body, headers } = await workOnce(c, db, submission, async (tx) => {
      const schedule = { actor: c.get('caller'), columns: toScheduleColumns(settings) };
      return toScheduleBody(await createScheduleIn(tx, deps, schedule));
    });
    return c.json(body, 201, { location: `/v1/schedules/${body.id}`, ...headers });
  });

  app.openapi(putScheduleRoute, async (c) => {
    const settings = c.req.valid('json');
    await checkSchedule(agents, settings, await readClock(db));
    const put = { actor: c.get('caller'), key: c.req.valid('param').id, declaredBy: null };
    const { row, change } = await putSchedule(deps, { ...put, columns: toScheduleColumns(settings) });
    return change === 'created' ? c.json(toScheduleBody(row), 201) : c.json(toScheduleBody(row), 200);
  });

  app.openapi(updateScheduleRoute, async (c) => {
    const changes = c.req.valid('json');
    const row = await changeSchedule(deps, ofOne(c, c.req.valid('param').id), async (schedule, nowMs) => {
      const settings = changedSettings(schedule, changes);
      await checkSchedule(agents, settings, nowMs);
      return toScheduleColumns(settings);
    });
    return c.json(toScheduleBody(row), 200);
  });

  app.openapi(deleteScheduleRoute, async (c) => {
    await deleteSchedule(deps, ofOne(c, c.req.valid('param').id));
    return c.body(null, 204);
  });

  app.openapi(pauseScheduleRoute, async (c) => {
    const { reason = 'request' } = c.req.valid('json') ?? {};
    const row = await setSchedulePaused(deps, { ...ofOne(c, c.req.valid('param').id), reason });
    return c.json(toScheduleBody(row), 200);
  });

  app.openapi(resumeScheduleRoute, async (c) => {
    const row = await setSchedulePaused(deps, { ...ofOne(c, c.req.valid('param').id), reason: null });
    return c.json(toScheduleBody(row), 200);
  });

  app.openapi(runScheduleRoute, async (c) => {
    const { id } = c.req.valid('param');
    const prepared = await prepareFire(deps, c.get('caller'), id, untilGone(c));
    let fired: RequestedFire | undefined;
    const submission = { route: runScheduleRoute, request: { id }, answer: firedBody };
    const { body, headers } = await workOnce(c, db, submission, async (tx) => {
      fired = await fireScheduleNowIn(tx, deps, prepared);
      const { sessionId, accepted } = fired;
      return { sessionId: formatId('session', sessionId), runId: formatId('run', accepted.runId) };
    });
    if (fired !== undefined) await afterFire(deps, id, fired);
    return c.json(body, 202, headers);
  });
}

const ofOne = (c: Context<HttpEnv>, scheduleId: string) => ({ actor: c.get('caller'), scheduleId });

function registerReading(app: BatonApp, { db }: HttpDeps): void {
  app.openapi(listSchedulesRoute, async (c) => {
    const rows = await listSchedules(db, tenantOf(c));
    return c.json({ schedules: rows.map(toScheduleBody) }, 200);
  });

  app.openapi(getScheduleRoute, async (c) =>
    c.json(toScheduleBody(await findSchedule(db, tenantOf(c), c.req.valid('param').id)), 200),
  );

  app.openapi(listNextFiresRoute, async (c) => {
    const schedule = await findSchedule(db, tenantOf(c), c.req.valid('param').id);
    const times = nextFires(schedule, await readClock(db), c.req.valid('query').n ?? 10);
    return c.json({ fires: times.map((time) => new Date(time).toISOString()) }, 200);
  });

  app.openapi(listFiresRoute, async (c) => {
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
