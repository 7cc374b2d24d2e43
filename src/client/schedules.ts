import type { RunError } from './api.ts';
import type { CallOptions, KeyedOptions } from './call-options.ts';
import { newKey } from './new-key.ts';
import { pathOf, type Transport } from './transport.ts';

export type NewSchedule = Readonly<{
  agent: string;
  /** Five fields: minute, hour, day, month, weekday. */
  cron: string;
  /** By IANA; default UTC. */
  timezone?: string | undefined;
  content: string;
  /** Title of the sessions that the schedule begins. */
  title?: string | null | undefined;
  /** Each fire gets a new session (default) or the same one. */
  session?: 'new' | 'same' | undefined;
  /** A fire that is due while the last run is active is left out (default), waits, or cancels that run. */
  overlap?: 'skip' | 'queue' | 'replace' | undefined;
  /** Fires that were due while no worker ran: none is made up for (default), or the last one. */
  catchup?: 'none' | 'last' | undefined;
  /** Each fire is later by up to this. Default 0. */
  jitterMs?: number | undefined;
}>;

export type Schedule = Readonly<{
  id: string;
  agent: string;
  cron: string;
  timezone: string;
  content: string;
  title: string | null;
  session: 'new' | 'same';
  overlap: 'skip' | 'queue' | 'replace';
  catchup: 'none' | 'last';
  jitterMs: number;
  paused: boolean;
  pausedReason: string | null;
  /** Time of the next fire without jitter; null: the schedule is paused, or never fires again. */
  nextFireAt: string | null;
  /** The session of a schedule with `session: 'same'`, after the first fire. */
  sessionId: string | null;
  lastRunId: string | null;
  createdAt: string;
  updatedAt: string;
}>;

export type ScheduleFire = Readonly<{
  fireAt: string;
  /** `missed`: no worker ran. */
  result: 'fired' | 'skipped' | 'missed' | 'failed';
  sessionId: string | null;
  runId: string | null;
  error: RunError | null;
  createdAt: string;
}>;

export type ScheduleMethods = Readonly<{
  create: (schedule: NewSchedule, options?: KeyedOptions) => Promise<Schedule>;
  list: (options?: CallOptions) => Promise<Readonly<{ schedules: readonly Schedule[] }>>;
  get: (scheduleId: string, options?: CallOptions) => Promise<Schedule>;
  /** Fields that are left out stay as they are. */
  update: (scheduleId: string, changes: Partial<NewSchedule>, options?: CallOptions) => Promise<Schedule>;
  /** The sessions that it has begun stay. */
  delete: (scheduleId: string, options?: CallOptions) => Promise<void>;
  pause: (scheduleId: string, options?: CallOptions & Readonly<{ reason?: string | undefined }>) => Promise<Schedule>;
  /** The schedule fires again from now on. Fires that were due during the pause are left out. */
  resume: (scheduleId: string, options?: CallOptions) => Promise<Schedule>;
  /** Fires it now, also a paused one. Its next fire stays. */
  run: (scheduleId: string, options?: KeyedOptions) => Promise<Readonly<{ sessionId: string; runId: string }>>;
  /** The next times at which it fires, by default ten. */
  next: (
    scheduleId: string,
    options?: CallOptions & Readonly<{ n?: number | undefined }>,
  ) => Promise<Readonly<{ fires: readonly string[] }>>;
  /** Newest first. `next` is the `before` of the page after. */
  fires: (
    scheduleId: string,
    options?: CallOptions & Readonly<{ before?: string | undefined; limit?: number | undefined }>,
  ) => Promise<Readonly<{ fires: readonly ScheduleFire[]; next: string | null }>>;
}>;

export function scheduleMethods({ call }: Transport): ScheduleMethods {
  const path = (id: string): string => pathOf`/v1/schedules/${id}`;
  const read = { method: 'GET', isRepeatable: true } as const;
  return {
    create: (body, { signal, idempotencyKey = newKey() } = {}) => {
      const headers = { 'idempotency-key': idempotencyKey };
      return call({ method: 'POST', path: '/v1/schedules', body, headers, signal, isRepeatable: true });
    },
    list: ({ signal } = {}) => call({ ...read, path: '/v1/schedules', signal }),
    get: (id, { signal } = {}) => call({ ...read, path: path(id), signal }),
    update: (id, body, { signal } = {}) => call({ method: 'PATCH', path: path(id), body, signal, isRepeatable: true }),
    delete: (id, { signal } = {}) => call({ method: 'DELETE', path: path(id), signal, isRepeatable: false }),
    pause: (id, { reason, signal } = {}) =>
      call({ method: 'POST', path: pathOf`/v1/schedules/${id}/pause`, body: { reason }, signal, isRepeatable: true }),
    resume: (id, { signal } = {}) =>
      call({ method: 'POST', path: pathOf`/v1/schedules/${id}/resume`, signal, isRepeatable: true }),
    run: (id, { signal, idempotencyKey = newKey() } = {}) => {
      const headers = { 'idempotency-key': idempotencyKey };
      return call({ method: 'POST', path: pathOf`/v1/schedules/${id}/run`, headers, signal, isRepeatable: true });
    },
    next: (id, { n, signal } = {}) => call({ ...read, path: pathOf`/v1/schedules/${id}/next`, query: { n }, signal }),
    fires: (id, { before, limit, signal } = {}) =>
      call({ ...read, path: pathOf`/v1/schedules/${id}/fires`, query: { before, limit }, signal }),
  };
}
