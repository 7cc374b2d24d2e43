import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import type { Simulator } from '../../../simulator/server.ts';
import { agentSchema, agentVersion } from '../../../src/agents/agent.ts';
import { newId } from '../../../src/platform/new-id.ts';
import { createJobQueues } from '../../../src/queues/bullmq-queues.ts';
import { openDatabase } from '../../../src/store/db/database.ts';
import { insertSession } from '../../../src/store/session/sessions.ts';
import { acceptMessage } from '../../support/unlimited.ts';

/** Another tenant, whose runs have all slots of all workers and stand first in the queue. */
export type PlayedCrowd = Readonly<{
  /** Requests of its runs to the model, each of which holds a slot. */
  hung: () => number;
  /** Takes the crowd away. Resolves with the longest time that a run of the traffic has waited for a worker. */
  leave: () => Promise<number>;
}>;

/** `redisUrl`: null, the queues are in Postgres. */
export type CrowdedWorld = Readonly<{
  simulator: Simulator;
  database: pg.Pool;
  databaseUrl: string;
  redisUrl: string | null;
  prefix: string;
}>;

/** The model of the crowd. No request of it is the traffic's. */
export const CROWD_MODEL = 'crowd';
const TENANT = 'crowd';

/** An answer of the crowd's model comes letter by letter, so that no worker takes it for silent, for two minutes. */
const ANSWER = { text: 'x'.repeat(240), chunkChars: 1, chunkDelayMs: 500 };
const LANES = 6;

const ALL_HANG_WITHIN_MS = 30_000;
const LOOK_EVERY_MS = 50;

/** Resolves when the crowd has all slots. */
export async function startCrowd(
  { runs, slots }: Readonly<{ runs: number; slots: number }>,
  world: CrowdedWorld,
): Promise<PlayedCrowd> {
  let hung = 0;
  world.simulator.script(CROWD_MODEL, () => {
    hung += 1;
    return ANSWER;
  });
  await sendAll(runs, world);
  for (const since = performance.now(); hung < slots && performance.now() - since < ALL_HANG_WITHIN_MS; ) {
    await delay(LOOK_EVERY_MS);
  }
  return {
    hung: () => hung,
    async leave() {
      const { rows } = await world.database.query<{ waitedMs: number }>(LONGEST_WAIT, [TENANT]);
      await world.database.query('delete from sessions where tenant_id = $1', [TENANT]);
      return rows[0]?.waitedMs ?? 0;
    },
  };
}

const LONGEST_WAIT = `
  select coalesce(max(extract(epoch from coalesce(started_at, clock_timestamp()) - created_at) * 1000), 0)::float8 as "waitedMs"
  from runs where tenant_id <> $1 and (started_at is not null or finished_at is null)`;

/** Does the API's work for a message in each of many sessions. The API itself knows only one tenant here. */
async function sendAll(runs: number, { databaseUrl, redisUrl, prefix }: CrowdedWorld): Promise<void> {
  const log = (): void => undefined;
  await using stack = new AsyncDisposableStack();
  const db = stack.adopt(openDatabase({ connectionString: databaseUrl }), (opened) => opened.destroy());
  const jobs = stack.use(
    createJobQueues(
      redisUrl === null
        ? { backend: 'postgres', connectionString: databaseUrl, log }
        : { backend: 'redis', url: redisUrl, prefix, log },
    ),
  );
  const agent = agentSchema.parse({ name: TENANT, model: `simulated/${CROWD_MODEL}` });
  const snapshot = { agentName: agent.name, agentVersion: agentVersion(agent), agentSnapshot: agent };
  let left = runs;
  const lane = async (): Promise<void> => {
    while (left-- > 0) {
      const ids = { tenantId: TENANT, sessionId: newId(), messageId: newId(), runId: newId() };
      await insertSession(db, { id: ids.sessionId, tenantId: TENANT, ...snapshot, title: null, metadata: {} });
      const { job } = await acceptMessage(db, { ...ids, content: [{ type: 'text', text: 'Go' }] });
      if (job !== null) await jobs.add([job]);
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
}
