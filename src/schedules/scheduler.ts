import { FIRES, PINS, SWEEP_INTERVAL_MS } from '../domain/tunables.ts';
import { createFairLanes } from '../platform/fair-lanes.ts';
import { toSafeError } from '../platform/log.ts';
import { lookEvery } from '../platform/looker.ts';
import { findDueSchedules, noteScheduleLook, type ScheduleRow } from '../store/around/schedules.ts';
import { type DueFireDeps, fireDue, readyFire } from './fire.ts';

export type Scheduler = AsyncDisposable &
  Readonly<{
    /** Looks once. Resolves when all that it found has fired. */
    look: () => Promise<void>;
  }>;

/**
 * Fires schedules that are due, in any number of processes at the same time. A look waits for no earlier one, and a fire
 * that waits for an MCP server holds no lane: those of other schedules go on.
 */
export function startScheduler(deps: DueFireDeps, intervalMs: number = SWEEP_INTERVAL_MS): Scheduler {
  const stop = new AbortController();
  const pins = createFairLanes(PINS);
  const fires = createFairLanes(FIRES);
  const inHand = new Map<string, Promise<void>>();

  /** One that fails stays due, and the others still fire. */
  const fireOne = async (schedule: ScheduleRow): Promise<void> => {
    const { signal } = stop;
    const { tenant_id: tenantId } = schedule;
    try {
      const ready = await pins.run(tenantId, async () => readyFire(deps, schedule, signal));
      await fires.run(tenantId, async () => (signal.aborted ? undefined : fireDue(deps, schedule, ready)));
    } catch (error) {
      if (!signal.aborted) deps.log('warn', { event: 'schedules_failed', error: toSafeError(error) });
    } finally {
      inHand.delete(schedule.id);
    }
  };
  const begin = async (): Promise<readonly Promise<void>[]> => {
    try {
      await noteScheduleLook(deps.db);
      const limit = FIRES.inHand - inHand.size;
      const due = await findDueSchedules(deps.db, {
        limit,
        perTenant: FIRES.inHandPerTenant,
        inHand: [...inHand.keys()],
      });
      // A look at the same time may have found the same.
      return due.flatMap((schedule) => {
        if (inHand.has(schedule.id)) return [];
        const firing = fireOne(schedule);
        inHand.set(schedule.id, firing);
        return [firing];
      });
    } catch (error) {
      deps.log('warn', { event: 'schedules_failed', error: toSafeError(error) });
      return [];
    }
  };
  const looker = lookEvery(intervalMs, begin);
  return {
    async look() {
      await Promise.all(await begin());
    },
    async [Symbol.asyncDispose]() {
      stop.abort();
      await looker[Symbol.asyncDispose]();
      await Promise.all(inHand.values());
    },
  };
}
