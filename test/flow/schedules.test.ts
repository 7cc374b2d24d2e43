import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { fireDue, readyFire } from '../../src/schedules/fire.ts';
import { startScheduler } from '../../src/schedules/scheduler.ts';
import {
  createSchedule,
  findDueSchedules,
  findSchedule,
  listFires,
  noteScheduleLook,
  type ScheduleColumns,
} from '../../src/store/around/schedules.ts';
import { deleteSession } from '../../src/store/session/sessions.ts';
import { eventually } from '../support/eventually.ts';
import { startTestService, type TestService } from '../support/service.ts';
import { startSilentServer } from '../support/silent-server.ts';

const tenantId = 'default';
const FIELDS: ScheduleColumns = {
  agent_name: 'tester',
  title: 'Report',
  cron: '0 9 * * *',
  timezone: 'UTC',
  content: 'Write the report',
  session_kind: 'new',
  overlap: 'skip',
  catchup: 'last',
  jitter_ms: 0,
};

async function addDue({ deps }: TestService, fields: Partial<ScheduleColumns> = {}, of = tenantId) {
  const schedule = await deps.db
    .transaction()
    .execute((tx) => createSchedule(tx, { ...FIELDS, ...fields, id: deps.newId(), tenantId: of, next: null }));
  await makeDue({ deps }, schedule.id);
  return schedule.id;
}

/** Due a second ago. */
const makeDue = ({ deps }: Pick<TestService, 'deps'>, id: string) =>
  sql`
    update schedules set next_fire_at = clock_timestamp() - interval '1 second', due_at = clock_timestamp() - interval '1 second'
    where id = ${id}`.execute(deps.db);

const fireDeps = ({ deps }: TestService) => ({ ...deps });

async function look(service: TestService): Promise<void> {
  await using scheduler = startScheduler(fireDeps(service), 3_600_000);
  await scheduler.look();
}

const findDue = ({ deps }: TestService) => findDueSchedules(deps.db, { limit: 10, perTenant: 10, inHand: [] });

const firesOf = async ({ deps }: TestService, scheduleId: string, of = tenantId) =>
  (await listFires(deps.db, { tenantId: of, scheduleId, limit: 10 })).map(({ result }) => result);
const countOf = async ({ deps }: TestService, table: 'sessions' | 'inbox' | 'runs') =>
  (await deps.db.selectFrom(table).select('id').execute()).length;

describe('a schedule', () => {
  it('fires once, by however many processes it is found due at the same time', async () => {
    await using service = await startTestService({ backend: 'postgres' });
    const id = await addDue(service);
    const [schedule] = await findDue(service);
    if (schedule === undefined) throw new Error('nothing is due');
    const { signal } = new AbortController();
    const fire = async () => fireDue(fireDeps(service), schedule, await readyFire(fireDeps(service), schedule, signal));
    await Promise.all(Array.from({ length: 8 }, fire));
    await look(service);
    expect(await firesOf(service, id)).toEqual(['fired']);
    expect([
      await countOf(service, 'sessions'),
      await countOf(service, 'inbox'),
      await countOf(service, 'runs'),
    ]).toEqual([1, 1, 1]);
    const { next_fire_at: next } = await findSchedule(service.deps.db, tenantId, id);
    expect(next?.toISOString()).toMatch(/T09:00:00\.000Z$/);
    expect(next?.getTime()).toBeGreaterThan(Date.now());
  });

  it('is worked on like any message', async () => {
    await using service = await startTestService({ backend: 'postgres' });
    service.simulator.script('test', [{ text: 'The report.' }]);
    await addDue(service);
    await service.startWorker();
    await look(service);
    const { id } = await service.deps.db.selectFrom('runs').select('id').executeTakeFirstOrThrow();
    expect(await service.ended(id)).toMatchObject({ status: 'completed' });
  });

  it('keeps to one session with `same`, and begins another one when that was deleted', async () => {
    await using service = await startTestService({ backend: 'postgres' });
    const id = await addDue(service, { session_kind: 'same', overlap: 'queue' });
    await look(service);
    const { session_id: first } = await findSchedule(service.deps.db, tenantId, id);
    await sql`update schedule_fires set fire_at = fire_at - interval '1 minute'`.execute(service.deps.db);
    await makeDue(service, id);
    await look(service);
    expect(await findSchedule(service.deps.db, tenantId, id)).toMatchObject({ session_id: first });
    expect(await countOf(service, 'inbox')).toBe(2);
    await sql`update sessions set active_run_id = null`.execute(service.deps.db);
    await sql`delete from inbox`.execute(service.deps.db);
    await deleteSession(service.deps.db, tenantId, first ?? '');
    await makeDue(service, id);
    await look(service);
    const { session_id: second } = await findSchedule(service.deps.db, tenantId, id);
    expect(second).not.toBe(first);
    expect(await firesOf(service, id)).toEqual(['fired', 'fired', 'fired']);
  });

  it.each(['new', 'same'] as const)('skips a fire while its last run is active (session: %s)', async (session) => {
    await using service = await startTestService({ backend: 'postgres' });
    const id = await addDue(service, { session_kind: session });
    await look(service);
    await makeDue(service, id);
    await look(service);
    expect(await firesOf(service, id)).toEqual(['skipped', 'fired']);
    expect(await countOf(service, 'runs')).toBe(1);
  });

  it('holds a fire until its last run has ended', async () => {
    await using service = await startTestService({ backend: 'postgres' });
    const id = await addDue(service, { overlap: 'queue' });
    await look(service);
    await makeDue(service, id);
    await look(service);
    expect(await firesOf(service, id)).toEqual(['fired']);
    expect(await findSchedule(service.deps.db, tenantId, id)).toMatchObject({ is_held: true });
    service.simulator.script('test', [{ text: 'One.' }]);
    await service.startWorker();
    const { id: runId } = await service.deps.db.selectFrom('runs').select('id').executeTakeFirstOrThrow();
    await service.ended(runId);
    // The worker's own scheduler may have the fire in hand, which this look then leaves to it.
    await eventually(async () => {
      await look(service);
      return (await firesOf(service, id)).length > 1 || null;
    }, 'the fire that was held is carried out');
    expect(await firesOf(service, id)).toEqual(['fired', 'fired']);
  });

  it.each(['new', 'same'] as const)('replaces its last run (session: %s)', async (session) => {
    await using service = await startTestService({ backend: 'postgres' });
    const id = await addDue(service, { session_kind: session, overlap: 'replace' });
    await look(service);
    await makeDue(service, id);
    await look(service);
    expect(await firesOf(service, id)).toEqual(['fired', 'fired']);
    const rows = await service.deps.db.selectFrom('runs').select('status').orderBy('created_at').execute();
    expect(rows.map(({ status }) => status)).toEqual(['cancelled', 'queued']);
    const ended = service.logged.filter(({ event }) => event === 'run_ended');
    expect(ended).toMatchObject([{ status: 'cancelled' }]);
  });

  it('notes why a fire was refused, and goes on', async () => {
    await using service = await startTestService({ backend: 'postgres' });
    const id = await addDue(service, { agent_name: 'nobody' });
    await look(service);
    const [fire] = await listFires(service.deps.db, { tenantId, scheduleId: id, limit: 1 });
    expect(fire).toMatchObject({ result: 'failed', error: { code: 'agent_not_found' } });
    expect(await findDue(service)).toEqual([]);
  });

  it('does not fire while it is paused, and what was due while no worker ran is missed', async () => {
    await using service = await startTestService({ backend: 'postgres' });
    const paused = await addDue(service);
    await sql`update schedules set paused_reason = 'request'`.execute(service.deps.db);
    const missed = await addDue(service, { catchup: 'none' });
    await sql`update schedules set due_at = due_at - interval '1 hour' where id = ${missed}`.execute(service.deps.db);
    await noteScheduleLook(service.deps.db);
    await sql`update schedule_looks set looked_at = looked_at - interval '1 hour'`.execute(service.deps.db);
    await look(service);
    expect([await firesOf(service, paused), await firesOf(service, missed)]).toEqual([[], ['missed']]);
    expect(await countOf(service, 'runs')).toBe(0);
  });

  it('fires late, and is not missed, if a worker was there', async () => {
    await using service = await startTestService({ backend: 'postgres' });
    const id = await addDue(service, { catchup: 'none' });
    await look(service);
    await sql`truncate schedule_fires`.execute(service.deps.db);
    await sql`update runs set status = 'cancelled', pending_kind = null`.execute(service.deps.db);
    await makeDue(service, id);
    await sql`update schedules set due_at = due_at - interval '1 hour'`.execute(service.deps.db);
    await sql`
      update schedule_looks set unwatched_until = unwatched_until - interval '2 hours',
        looked_at = looked_at - interval '50 seconds'`.execute(service.deps.db);
    await look(service);
    expect(await firesOf(service, id)).toEqual(['fired']);
  });

  describe('whose MCP server hangs', () => {
    const stuckAt = (url: string) => ({
      name: 'stuck',
      model: 'simulated/test',
      tools: [{ mcp: 'docs' }],
      mcpServers: { docs: { url, timeoutMs: 120_000, trust: false } },
    });

    it('keeps no schedule of another tenant waiting, however many there are of it', async () => {
      await using silent = await startSilentServer();
      await using service = await startTestService({
        backend: 'postgres',
        agents: [stuckAt(silent.url)],
        pinWithinMs: 3_600_000,
      });
      // More than may wait for MCP servers at a time.
      for (let left = 20; left > 0; left--) await addDue(service, { agent_name: 'stuck' }, 'evil');
      await using scheduler = startScheduler(fireDeps(service), 3_600_000);
      void scheduler.look();
      await eventually(async () => silent.requests() > 0, 'the server is asked');
      const id = await addDue(service, {}, 'acme');
      void scheduler.look();
      await eventually(async () => (await firesOf(service, id, 'acme')).length > 0 || null, 'the other tenant fires');
      expect(await firesOf(service, id, 'acme')).toEqual(['fired']);
      expect(silent.requests(), 'the server is still silent about the first question').toBeLessThan(2);
    });

    it('fails, and says which server it was', async () => {
      await using silent = await startSilentServer();
      const agents = [stuckAt(silent.url)];
      await using service = await startTestService({ backend: 'postgres', agents, pinWithinMs: 50 });
      const scheduleId = await addDue(service, { agent_name: 'stuck' });
      await look(service);
      expect(await listFires(service.deps.db, { tenantId, scheduleId, limit: 10 })).toMatchObject([
        {
          result: 'failed',
          error: {
            code: 'tools_unavailable',
            message: 'The MCP server docs did not list its tools within 50 ms.',
          },
        },
      ]);
    });
  });
});
