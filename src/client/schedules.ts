import type { CallOptions, KeyedOptions } from './call-options.ts';
import type { NewSchedule, PutSchedule, Schedule, ScheduleFire } from './contract.ts';
import { newKey } from './new-key.ts';
import { pathOf, type Transport } from './transport.ts';

export type ScheduleMethods<AgentName extends string = string> = Readonly<{
  create(schedule: NewSchedule & Readonly<{ agent: AgentName }>, options?: KeyedOptions): Promise<Schedule>;
  /**
   * Creates or changes the schedule of a key, which stands for its id in every method as `key:` and the key. An equal
   * schedule is left as it is.
   */
  put(key: string, schedule: PutSchedule & Readonly<{ agent: AgentName }>, options?: CallOptions): Promise<Schedule>;
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
    put: (key, body, { signal } = {}) =>
      call({ method: 'PUT', path: pathOf`/v1/schedules/key:${key}`, body, signal, isRepeatable: true }),
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
