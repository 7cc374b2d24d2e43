import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { clusterDirOf, readCredentials } from '../../../src/embedded/cluster.ts';
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../../src/embedded/launcher.ts';
import { addSettings, asSuperuser, copyCluster, promote, type Running } from './cluster-copy.ts';
import { openTap } from './tap.ts';

/** `disk`: as its disk was, on the same timeline. `recovery`: to a point in time, which begins another timeline. */
export type Restoring = 'disk' | 'recovery';

/** A server that has not got all that its primary has. Dispose it if it is never started. */
type OlderCluster = AsyncDisposable &
  Readonly<{
    /** It has what was answered until then, by `performance.now()`. */
    keptAtMs: number;
    /** Starts it, or makes it a primary. */
    start: () => Promise<EmbeddedPostgres>;
  }>;

/** A backup of the server, in the folder. */
export async function restorable(server: Running, dataDir: string, restoring: Restoring): Promise<OlderCluster> {
  const keptAtMs = await copyCluster(server, dataDir);
  if (restoring === 'recovery') {
    // No archive has more than the backup.
    await addSettings(dataDir, { restore_command: 'false' });
    await writeFile(join(clusterDirOf(dataDir), 'recovery.signal'), '');
  }
  return {
    keptAtMs,
    start: () => startEmbeddedPostgres({ dataDir }),
    [Symbol.asyncDispose]: async () => undefined,
  };
}

const LOOK_EVERY_MS = 20;
const CAUGHT_UP_WITHIN_MS = 60_000;

/** A standby of the server, in the folder, which had caught up and gets nothing any more. */
export async function leaveBehind(server: Running, dataDir: string): Promise<OlderCluster> {
  await copyCluster(server, dataDir);
  await using stack = new AsyncDisposableStack();
  const line = stack.use(await openTap(server.port));
  const { superuserPassword } = await readCredentials(clusterDirOf(server.dataDir));
  await addSettings(dataDir, {
    primary_conninfo: `host=127.0.0.1 port=${line.port} user=postgres password=${superuserPassword}`,
    // It answers nobody before it is promoted: that it answers tells that it is.
    hot_standby: 'off',
  });
  await writeFile(join(clusterDirOf(dataDir), 'standby.signal'), '');
  const answering = startEmbeddedPostgres({ dataDir });
  stack.defer(async () => {
    // Only a primary can be stopped through the launcher.
    await promote(dataDir).catch(() => undefined);
    await answering.then(
      (started) => started[Symbol.asyncDispose](),
      () => undefined,
    );
  });
  const keptAtMs = await caughtUp(server);
  line.swallow();
  const owned = stack.move();
  return {
    keptAtMs,
    async start() {
      await promote(dataDir);
      const started = await answering;
      await line[Symbol.asyncDispose]();
      return started;
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Waits until the standby has all that the server had at some moment. @returns that moment */
async function caughtUp(server: Running): Promise<number> {
  const { promise: tooLate, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error('the standby does not catch up')), CAUGHT_UP_WITHIN_MS);
  const catchingUp = asSuperuser(server, async (client) => {
    const isAt = async (lsn: string): Promise<boolean> =>
      (await client.query(`select from pg_stat_replication where state = 'streaming' and flush_lsn >= $1`, [lsn]))
        .rowCount === 1;
    while (!(await isAt('0/0'))) await delay(LOOK_EVERY_MS);
    const momentMs = performance.now();
    const { rows } = await client.query<{ lsn: string }>('select pg_current_wal_flush_lsn() as lsn');
    while (!(await isAt(rows[0]?.lsn ?? ''))) await delay(LOOK_EVERY_MS);
    return momentMs;
  });
  return await Promise.race([catchingUp, tooLate]).finally(() => clearTimeout(timer));
}
