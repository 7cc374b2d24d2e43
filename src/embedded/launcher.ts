import { chmod, mkdir, realpath } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { AsyncDisposableStack } from '../platform/disposable-stacks.ts';
import { findBinariesPackage, prepareBinaries } from './binaries.ts';
import { APP_NAME, clusterDirOf, openCluster } from './cluster.ts';
import { EmbeddedPostgresError } from './errors.ts';
import { keepRunning } from './keep-running.ts';
import { settleLeftover } from './leftover.ts';
import { lockDataDir } from './owner-lock.ts';
import { startPostmaster } from './postmaster.ts';
import { choosePostgresCommand } from './privileges.ts';
import { shareOwner } from './share-owner.ts';

export type EmbeddedPostgres = AsyncDisposable & {
  /** TCP on 127.0.0.1, role `baton` (not superuser), database `baton` (owned by it). Contains the password. */
  readonly connectionString: string;
  readonly port: number;
  /** Pid of the current server; a restart changes it. */
  readonly pid: number;
  /** Resolves with the cause when the server has ended by itself and cannot be restarted; never rejects. */
  readonly lost: Promise<EmbeddedPostgresError>;
};

export type EmbeddedPostgresOptions = Readonly<{
  /** Any directory of Baton's own, relative or absolute. `cluster/` in it is the database. */
  dataDir: string;
  /** Gets the server's log and Baton's remarks, line by line, without line ends. */
  log?: (line: string) => void;
  /** The server ended by itself or a restart failed. The next try comes after the delay. */
  onDown?: (error: EmbeddedPostgresError, retryInMs: number) => void;
  onUp?: (pid: number) => void;
}>;

/**
 * Starts PostgreSQL from npm's binaries on a data directory, which the first start creates.
 * - A server that ends by itself is restarted on the same port, with growing delays.
 * - It stops when the result is disposed (fast shutdown, escalating, at most about 25 s) and, on Linux, also when this
 *   process is killed.
 * - Call it from the main thread: the kernel ties the server to the calling thread.
 * @throws EmbeddedPostgresError with the code `EMBEDDED_POSTGRES_UNSUPPORTED` (no binaries for this platform: set
 * DATABASE_URL), `EMBEDDED_POSTGRES_IN_USE` (names the pid of the other owner), `EMBEDDED_POSTGRES_DATA_DIR`,
 * `EMBEDDED_POSTGRES_VERSION`, `EMBEDDED_POSTGRES_INIT_FAILED` or `EMBEDDED_POSTGRES_START_FAILED`
 */
export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const { log = () => undefined, onDown = () => undefined, onUp = () => undefined } = options;
  const packageDir = findBinariesPackage();
  const dataDir = await prepareDataDir(options.dataDir);
  const clusterDir = clusterDirOf(dataDir);
  await using resources = new AsyncDisposableStack();
  resources.use(await lockDataDir(dataDir));
  const binaries = await prepareBinaries(packageDir, join(dataDir, 'lib'));
  const command = await choosePostgresCommand(binaries, dataDir, log);
  await settleLeftover(clusterDir, log);
  const { password } = await openCluster(command, dataDir, log);
  const first = await startPostmaster({ command, clusterDir, log });
  const { port } = first;
  const server = keepRunning(first, {
    async restart(signal) {
      await settleLeftover(clusterDir, log);
      return startPostmaster({ command, clusterDir, log, pickPort: async () => port, signal });
    },
    onDown,
    onUp: ({ pid }) => onUp(pid),
  });
  resources.defer(server.stop);

  const owned = resources.move();
  let disposed: Promise<void> | undefined;
  return {
    connectionString: `postgres://${APP_NAME}:${password}@127.0.0.1:${port}/${APP_NAME}`,
    port,
    get pid() {
      return server.current().pid;
    },
    lost: server.lost,
    [Symbol.asyncDispose]() {
      disposed ??= owned.disposeAsync();
      return disposed;
    },
  };
}

async function prepareDataDir(givenPath: string): Promise<string> {
  const path = resolve(givenPath);
  try {
    const firstCreated = await mkdir(path, { recursive: true });
    if (firstCreated !== undefined) await claimCreated(path, firstCreated);
    return await realpath(path);
  } catch (cause) {
    throw new EmbeddedPostgresError('EMBEDDED_POSTGRES_DATA_DIR', `Cannot create the data directory ${path}.`, {
      cause,
    });
  }
}

async function claimCreated(path: string, firstCreated: string): Promise<void> {
  // Only the innermost directory is private: without user namespaces PostgreSQL runs under another account, which must
  // traverse the others.
  await chmod(path, 0o700);
  for (let dir = path; dir.length >= firstCreated.length; dir = dirname(dir)) {
    await shareOwner(dir, dirname(firstCreated));
  }
}
