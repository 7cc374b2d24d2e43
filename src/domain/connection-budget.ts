/** What one process may open of connections to Postgres, by what it opens them for. */
export type ConnectionNeeds = Readonly<Record<string, number>>;

/** What the server allows to roles without privileges, and what of it is taken at this moment by others. */
export type ConnectionRoom = Readonly<{ maxConnections: number; reservedConnections: number; inUse: number }>;

export type ProcessParts = Readonly<{
  /** Size of the pool for the service's own queries. */
  poolConnections: number;
  /** Kinds of jobs that the process works on; 0 for an API alone. */
  jobKinds: number;
  /** Live events go over LISTEN/NOTIFY, and jobs over BullMQ's Postgres backend, where there is no Redis. */
  hasRedis: boolean;
  /** BullMQ has one queue per kind of job, and a pool of this size for each queue and for each worker. */
  queuePoolConnections: number;
  queues: number;
}>;

/** Connections that a process opens at most. */
export function connectionNeeds(parts: ProcessParts): ConnectionNeeds {
  const { poolConnections, jobKinds, hasRedis, queuePoolConnections, queues } = parts;
  const isWorker = jobKinds > 0;
  return {
    queries: poolConnections,
    workerLock: isWorker ? 1 : 0,
    liveEvents: hasRedis ? 0 : 2,
    queues: hasRedis ? 0 : queues * queuePoolConnections,
    // Beside its pool a worker listens on a connection of its own.
    jobWorkers: hasRedis ? 0 : jobKinds * (queuePoolConnections + 1),
  };
}

export type ConnectionVerdict = Readonly<{
  /** `never`: not even on a server that nobody else uses. `not_now`: others have taken too many. */
  fits: 'yes' | 'not_now' | 'never';
  needed: number;
  allowed: number;
  inUse: number;
}>;

/** Whether what a process may open fits into what the server allows. */
export function judgeConnections(needs: ConnectionNeeds, room: ConnectionRoom): ConnectionVerdict {
  const needed = Object.values(needs).reduce((sum, count) => sum + count, 0);
  const allowed = room.maxConnections - room.reservedConnections;
  const { inUse } = room;
  const fits = needed > allowed ? 'never' : needed > allowed - inUse ? 'not_now' : 'yes';
  return { fits, needed, allowed, inUse };
}
