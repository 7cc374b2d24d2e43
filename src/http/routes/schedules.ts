import type { z } from '@hono/zod-openapi';
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
  resumeScheduleRoute,
  runScheduleRoute,
  scheduleBody,
  type scheduleFields,
  updateScheduleRoute,
} from '../../api/schedules.ts';
import { BatonError } from '../../domain/errors.ts';
import { formatId } from '../../domain/ids.ts';
import { clockProblem, nextFires } from '../../domain/schedules/fire-times.ts';
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
import { changedSettings, toFireBody, toScheduleBody, toScheduleColumns } from '../bodies/schedule-body.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, type HttpEnv, tenantOf } from '../http-env.ts';
import { auditRequest } from '../middleware/audit-trail.ts';
import { workOnce } from '../middleware/idempotency.ts';
import { untilGone } from '../request-signal.ts';

export function registerScheduleRoutes(app: BatonApp, deps: HttpDeps): void {
  const { db, newId } = deps;
  registerReading(app, deps);

  app.openapi(createScheduleRoute, async (c) => {
    const settings = c.req.valid('json');
    await refuseWrong(deps, settings, await readClock(db));
    const submission = { route: createScheduleRoute, request: settings, answer: scheduleBody };
    const { body, headers } = await workOnce(c, db, submission, async (tx) => {
      const id = newId();
      const first = nextFireAfter(id, settings, await readClock(tx));
      const row = await createSchedule(tx, { id, tenantId: tenantOf(c), ...toScheduleColumns(settings), next: first });
      await auditRequest(tx, c, 'schedule:create', `/v1/schedules/${formatId('schedule', id)}`);
      return toScheduleBody(row);
    });
    return c.json(body, 201, { location: `/v1/schedules/${body.id}`, ...headers });
  });

  app.openapi(updateScheduleRoute, async (c) => {
    const [id, tenantId] = [c.req.valid('param').id, tenantOf(c)];
    const row = await inTransaction(db, async (tx) => {
      const settings = changedSettings(await lockSchedule(tx, tenantId, id), c.req.valid('json'));
      const nowMs = await readClock(tx);
      await refuseWrong(deps, settings, nowMs);
      await auditRequest(tx, c, 'schedule:update');
      const change = { columns: toScheduleColumns(settings), next: nextFireAfter(id, settings, nowMs) };
      return changeSchedule(tx, tenantId, id, change);
    });
    return c.json(toScheduleBody(row), 200);
  });

  app.openapi(deleteScheduleRoute, async (c) => {
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
      return pauseSchedule(tx, tenantOf(c), id, { reason, next: nextFireAfter(id, before, await readClock(tx)) });
    });

  app.openapi(pauseScheduleRoute, async (c) => {
    const { reason = 'request' } = c.req.valid('json') ?? {};
    return c.json(toScheduleBody(await setPaused(c, c.req.valid('param').id, reason)), 200);
  });

  app.openapi(resumeScheduleRoute, async (c) =>
    c.json(toScheduleBody(await setPaused(c, c.req.valid('param').id, null)), 200),
  );

  app.openapi(runScheduleRoute, async (c) => {
    const { id } = c.req.valid('param');
    const prepared = await prepareFire(deps, tenantOf(c), id, untilGone(c));
    let fired: Fired | undefined;
    const submission = { route: runScheduleRoute, request: { id }, answer: firedBody };
    const { body, headers } = await workOnce(c, db, submission, async (tx) => {
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

/** @throws BatonError `agent_not_found`, `invalid_request` with the field that is wrong */
async function refuseWrong(
  { agents }: HttpDeps,
  settings: z.output<typeof scheduleFields>,
  nowMs: number,
): Promise<void> {
  (await agents.current()).get(settings.agent);
  const problem = clockProblem(settings, nowMs);
  if (problem !== null) throw new BatonError('invalid_request', problem.message, { field: problem.field });
}
