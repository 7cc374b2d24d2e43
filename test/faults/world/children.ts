import { setTimeout as delay } from 'node:timers/promises';
import { rawId } from '../check/snapshot.ts';
import type { World } from './world.ts';

/** Longer than a dead worker's children and runs wait for the next one. */
const SETTLED_WITHIN_MS = 60_000;
const LOOK_EVERY_MS = 250;

const OPEN = `
  select ((select count(*) from children where due_at is not null or state not in ('delivered', 'dropped'))
    + (select count(*) from sessions where active_run_id is not null))::int as open`;

/** Waits until no session is at work and nothing is due for a child. At the latest after a while. */
export async function childrenSettled({ database }: Pick<World, 'database'>): Promise<void> {
  const sinceMs = performance.now();
  const isOpen = async (): Promise<boolean> =>
    (await database.query<{ open: number }>(OPEN)).rows.some(({ open }) => open > 0);
  while (performance.now() - sinceMs < SETTLED_WITHIN_MS && (await isOpen())) await delay(LOOK_EVERY_MS);
}

const ENDS_BELOW = `
  with recursive below as (
    select run_id from children where parent_run_id = $1
    union all select c.run_id from children c join below on c.parent_run_id = below.run_id)
  select runs.session_id as "sessionId", (extract(epoch from finished_at) * 1000)::float8 as "atMs"
  from below join runs on runs.id = below.run_id where extract(epoch from finished_at) * 1000 > $2::float8`;

/**
 * From each cancel of a run to the moment at which each run below it stopped, in milliseconds by the clock of this
 * machine: the provider saw its request broken off, or where none was under way, it had ended.
 */
export async function treeCancelTimes({ database, simulator, treeCancels }: World): Promise<number[]> {
  const times: number[] = [];
  for (const { runId, atMs } of treeCancels) {
    const { rows } = await database.query<{ sessionId: string; atMs: number }>(ENDS_BELOW, [rawId(runId), atMs]);
    const sentAtMs = atMs - performance.timeOrigin;
    for (const { sessionId, atMs: endedAtMs } of rows) {
      const asked = simulator.requests.findLast(
        ({ cacheKey, startedAtMs, endedAtMs: untilMs = Number.POSITIVE_INFINITY }) =>
          cacheKey === sessionId && startedAtMs <= sentAtMs && untilMs > sentAtMs,
      );
      times.push((asked?.abortedAtMs ?? endedAtMs - performance.timeOrigin) - sentAtMs);
    }
  }
  return times;
}
