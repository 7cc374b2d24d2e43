/** The most connections to Postgres that a process opens, by purpose. */
export type ConnectionNeeds = Readonly<Record<string, number>>;

/** The server's limit for roles without privileges, and the connections that others have open now. */
export type ConnectionRoom = Readonly<{ maxConnections: number; reservedConnections: number; inUse: number }>;

export type ProcessParts = Readonly<{
  /** The pool for the service's own queries. */
  poolConnections: number;
  /** Kinds of jobs that the process works on; 0: an API alone. */
  jobKinds: number;
  /** Without Redis, live events use LISTEN/NOTIFY and jobs use BullMQ's Postgres backend. */
  hasRedis: boolean;
  /** The pool of all BullMQ queues and workers. */
  queuePoolConnections: number;
}>;

export function connectionNeeds(parts: ProcessParts): ConnectionNeeds {
  const { poolConnections, jobKinds, hasRedis, queuePoolConnections } = parts;
  const isWorker = jobKinds > 0;
  return {
    queries: poolConnections,
    workerLock: isWorker ? 1 : 0,
    liveEvents: hasRedis ? 0 : 2,
    queues: hasRedis ? 0 : queuePoolConnections,
    // Each BullMQ worker listens on one more connection.
    jobWorkers: hasRedis ? 0 : jobKinds,
  };
}

export type ConnectionVerdict = Readonly<{
  /** `never`: more than the whole server allows. `not_now`: others have taken too many. */
  fits: 'yes' | 'not_now' | 'never';
  needed: number;
  allowed: number;
  inUse: number;
}>;

export function judgeConnections(needs: ConnectionNeeds, room: ConnectionRoom): ConnectionVerdict {
  const needed = Object.values(needs).reduce((sum, count) => sum + count, 0);
  const allowed = room.maxConnections - room.reservedConnections;
  const { inUse } = room;
  const fits = needed > allowed ? 'never' : needed > allowed - inUse ? 'not_now' : 'yes';
  return { fits, needed, allowed, inUse };
}

/** More processes than these take memory for little: a step mostly waits for its model. */
export const MAX_AUTO_PROCESSES = 4;

/**
 * Processes for steps where the settings name no number: one per processor, as far as Postgres has room for them.
 * @param own connections that the first process may open
 * @param further connections that each further process may open
 */
export function autoProcesses(processors: number, own: number, further: number, room: ConnectionRoom): number {
  const free = room.maxConnections - room.reservedConnections - room.inUse - own;
  const fitting = 1 + Math.max(0, Math.floor(free / further));
  return Math.min(processors, MAX_AUTO_PROCESSES, fitting);
}
