import { setImmediate as turn } from 'node:timers/promises';
import type fc from 'fast-check';
import { Kysely, PostgresDialect } from 'kysely';
import pg from 'pg';
import type { Db } from '../../../src/store/db/database.ts';
import type { Tables } from '../../../src/store/db/tables.ts';

export type Connections = AsyncDisposable &
  Readonly<{
    /** Runs each of them on a connection of its own. The scheduler decides whose next statement is sent. */
    together: <T>(scheduler: fc.Scheduler, works: readonly ((db: Db) => Promise<T>)[]) => Promise<T[]>;
  }>;

type Gate = { open: (statement: string) => Promise<void> };

/**
 * Connections whose statements are sent one by one. The next one is chosen only when each statement before it has
 * been answered or waits for a lock, so the same choices make the same interleaving.
 */
export async function openConnections(connectionString: string, count: number): Promise<Connections> {
  const watcher = await connect(connectionString);
  const gates: Gate[] = [];
  const inFlight = new Set<number>();
  const clients: pg.Client[] = [];
  const databases: Db[] = [];
  for (let no = 0; no < count; no += 1) {
    const client = await connect(connectionString);
    const gate: Gate = { open: async () => undefined };
    gates.push(gate);
    clients.push(client);
    databases.push(new Kysely<Tables>({ dialect: new PostgresDialect({ pool: poolOf(client, gate, inFlight) }) }));
  }
  const allBlocked = async (): Promise<boolean> => {
    const { rows } = await watcher.query<{ blocked: number }>(
      'select count(*)::integer as blocked from unnest($1::integer[]) as pid where cardinality(pg_blocking_pids(pid)) > 0',
      [[...inFlight]],
    );
    return rows[0]?.blocked === inFlight.size;
  };
  const untilQuiet = async (): Promise<void> => {
    for (let quiet = 0; quiet < 2; quiet += 1) {
      await turn();
      if (inFlight.size > 0 && !(await allBlocked())) quiet = -1;
    }
  };
  return {
    async together(scheduler, works) {
      let left = works.length;
      const results = works.map(async (work, no) => {
        const db = databases[no];
        const gate = gates[no];
        if (db === undefined || gate === undefined) throw new Error('there are not so many connections');
        gate.open = (statement) => scheduler.schedule(Promise.resolve(), `${no}: ${statement.slice(0, 60)}`);
        try {
          return await work(db);
        } finally {
          left -= 1;
        }
      });
      // Awaited below. Until then a failure must not count as unhandled.
      const settled = Promise.allSettled(results);
      while (left > 0) {
        await untilQuiet();
        if (scheduler.count() > 0) await scheduler.waitOne();
      }
      await settled;
      return Promise.all(results);
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([watcher, ...clients].map((client) => client.end()));
    },
  };
}

async function connect(connectionString: string): Promise<pg.Client> {
  const int8 = 20;
  const getTypeParser: typeof pg.types.getTypeParser = (oid, format) =>
    oid === int8 ? Number : pg.types.getTypeParser(oid, format);
  const client = new pg.Client({ connectionString, types: { getTypeParser } });
  await client.connect();
  return client;
}

function poolOf(client: pg.Client, gate: Gate, inFlight: Set<number>) {
  const pid = (client as unknown as { processID: number }).processID;
  const query = async (text: string, values: readonly unknown[]) => {
    // A transaction has no snapshot before its first statement, so its begin needs no turn of its own.
    if (text !== 'begin') await gate.open(text);
    inFlight.add(pid);
    try {
      return await client.query(text, [...values]);
    } finally {
      inFlight.delete(pid);
    }
  };
  return { connect: async () => ({ query, release: () => undefined }), end: async () => undefined } as never;
}
