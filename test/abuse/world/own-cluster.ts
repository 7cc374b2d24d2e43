import { execFile, spawnSync } from 'node:child_process';
import { existsSync, globSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import type { PostgresBinaries } from '../../../src/embedded/binaries.ts';
import { startEmbeddedPostgres } from '../../../src/embedded/launcher.ts';
import { startPostmaster } from '../../../src/embedded/postmaster.ts';
import { choosePostgresCommand } from '../../../src/embedded/privileges.ts';

const run = promisify(execFile);

/** A Postgres server for this suite alone. */
export type OwnCluster = AsyncDisposable &
  Readonly<{
    /** A role that may create databases. */
    url: string;
    /** One line for people: where its programs come from. */
    report: string;
  }>;

/**
 * Starts a cluster in an empty folder with the machine's Postgres binaries, else with npm's. Disposing stops it; the
 * caller removes the folder.
 */
export async function startOwnCluster(folder: string): Promise<OwnCluster> {
  const binaries = findBinaries();
  if (binaries === null) {
    const embedded = await startEmbeddedPostgres({ dataDir: folder });
    return {
      url: embedded.connectionString,
      report: "Postgres: npm's binaries, as this machine has no initdb",
      [Symbol.asyncDispose]: () => embedded[Symbol.asyncDispose](),
    };
  }
  const clusterDir = join(folder, 'cluster');
  const log = (): void => undefined;
  await mkdir(folder, { recursive: true });
  const command = await choosePostgresCommand(binaries, folder, log);
  const initdb = [...command.prefix, binaries.initdb, `--pgdata=${clusterDir}`, ...INITDB];
  const [file = binaries.initdb, ...args] = initdb;
  await run(file, args, { cwd: command.cwd, env: binaries.env });
  const postmaster = await startPostmaster({ command, clusterDir, log });
  return {
    url: `postgres://postgres@127.0.0.1:${postmaster.port}/postgres`,
    report: `Postgres ${command.majorVersion}: a cluster of its own from ${dirname(binaries.initdb)}`,
    async [Symbol.asyncDispose]() {
      await postmaster.stop();
      await rm(clusterDir, { recursive: true, force: true });
    },
  };
}

const INITDB = ['--username=postgres', '--auth=trust', '--encoding=UTF8', '--locale=C', '--no-sync'];

/** Debian's packages install the server's programs outside of the path: https://wiki.debian.org/PostgreSql */
const DEBIAN = '/usr/lib/postgresql/*/bin';

function findBinaries(): PostgresBinaries | null {
  const { PATH = '/usr/sbin:/usr/bin:/sbin:/bin' } = process.env;
  const folders = [...globSync(DEBIAN).toSorted().toReversed(), ...PATH.split(':')];
  for (const folder of folders) {
    const [initdb, postgres] = [join(folder, 'initdb'), join(folder, 'postgres')];
    if (!existsSync(initdb) || !existsSync(postgres)) continue;
    if (spawnSync(initdb, ['--version']).status === 0)
      return { initdb, postgres, env: { PATH, LC_ALL: 'C', TZ: 'UTC' } };
  }
  return null;
}
