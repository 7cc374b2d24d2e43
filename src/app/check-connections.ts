import { availableParallelism } from 'node:os';
import { autoProcesses, type ConnectionNeeds, connectionNeeds, judgeConnections } from '../domain/connection-budget.ts';
import { BatonError } from '../domain/errors.ts';
import type { Config } from '../platform/config.ts';
import type { Log } from '../platform/log.ts';
import { VARIABLES } from '../platform/settings.ts';
import { QUEUE_POOL_CONNECTIONS } from '../queues/bullmq-transport.ts';
import { readConnectionRoom } from '../store/db/connection-room.ts';
import type { Db } from '../store/db/database.ts';

/** @param jobKinds kinds of jobs that the process works on */
function needsOf(config: Config, jobKinds: number): ConnectionNeeds {
  return connectionNeeds({
    poolConnections: config.databaseConnections,
    jobKinds,
    hasRedis: config.redisUrl !== undefined,
    queuePoolConnections: QUEUE_POOL_CONNECTIONS,
  });
}

const sum = (needs: ConnectionNeeds): number => Object.values(needs).reduce((total, count) => total + count, 0);

/** Number of processes that take steps by the settings, this one included. */
export async function countStepProcesses(db: Db, config: Config, jobKinds: number): Promise<number> {
  if (config.processes !== 'auto') return config.processes;
  const [own, further] = [sum(needsOf(config, jobKinds)), sum(needsOf(config, 1))];
  return autoProcesses(availableParallelism(), own, further, await readConnectionRoom(db));
}

/**
 * Compares the connections that the process may open with the limit of Postgres. Too few free connections are only
 * worth a warning, because other clients may disconnect in time.
 * @param jobKinds kinds of jobs that the process works on
 * @throws BatonError `config_invalid` if they would not fit even without any other client
 */
export async function checkConnections(db: Db, config: Config, jobKinds: number, log: Log): Promise<void> {
  const needs = needsOf(config, jobKinds);
  const { fits, needed, allowed, inUse } = judgeConnections(needs, await readConnectionRoom(db));
  if (fits === 'not_now') log('warn', { event: 'connections_scarce', needed, allowed, inUse });
  if (fits !== 'never') return;
  const parts = Object.entries(needs).flatMap(([part, count]) => (count === 0 ? [] : [`${part} ${count}`]));
  throw new BatonError(
    'config_invalid',
    `${VARIABLES.databaseConnections} (${config.databaseConnections}): the process may open ${needed} connections (${parts.join(', ')}), Postgres allows ${allowed}`,
  );
}
