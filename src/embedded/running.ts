import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { APP_NAME, clusterDirOf, readCredentials } from './cluster.ts';
import { EmbeddedPostgresError } from './errors.ts';

/**
 * The lines of `postmaster.pid`, from 1: https://github.com/postgres/postgres/blob/master/src/include/utils/pidfile.h
 */
const PORT_LINE = 4;

/**
 * The connection string of the embedded PostgreSQL that another process of this machine runs.
 * @throws EmbeddedPostgresError `EMBEDDED_POSTGRES_DATA_DIR` if none runs there
 */
export async function connectionToRunning(dataDir: string): Promise<string> {
  const clusterDir = clusterDirOf(resolve(dataDir));
  const { password } = await readCredentials(clusterDir);
  const pidFile = await readFile(join(clusterDir, 'postmaster.pid'), 'utf8').catch(() => '');
  const port = Number(pidFile.split('\n')[PORT_LINE - 1]);
  if (Number.isInteger(port) && port > 0) return `postgres://${APP_NAME}:${password}@127.0.0.1:${port}/${APP_NAME}`;
  throw new EmbeddedPostgresError('EMBEDDED_POSTGRES_DATA_DIR', `No PostgreSQL runs on ${clusterDir}.`);
}
