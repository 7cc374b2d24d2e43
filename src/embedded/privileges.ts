import { execFile } from 'node:child_process';
import { lstat } from 'node:fs/promises';
import { promisify } from 'node:util';
import type { PostgresBinaries } from './binaries.ts';
import { EmbeddedPostgresError } from './errors.ts';

const run = promisify(execFile);

/** The unprivileged account on every Linux system. It needs no entry in /etc/passwd. */
const NOBODY = 65534;
const PROBE_TIMEOUT_MS = 15_000;

/** A way to run PostgreSQL programs here: a prefix that lowers privileges and ties them to this process. */
export type PostgresCommand = {
  readonly prefix: readonly string[];
  readonly binaries: PostgresBinaries;
  /** A directory that the unprivileged account can read. */
  readonly cwd: string;
  /** Major version of the binaries, as in the file PG_VERSION. */
  readonly majorVersion: string;
};

type Candidate = { readonly name: string; readonly prefix: readonly string[]; readonly ownerId?: number };

/**
 * Chooses how to run PostgreSQL, which refuses to run as root. Each candidate tries to enter the data directory and to
 * run `postgres --version`.
 * - root, directory of root: a user namespace that maps root to uid 65534. Files stay root's, so it works below
 *   directories that only root may enter. Where namespaces are forbidden (many containers): as uid 65534, which then
 *   gets the directory.
 * - root, directory of another account: as that account, so that its owner can start it later without root.
 * - not root: as the current account.
 * On Linux `--pdeathsig INT` makes the kernel stop PostgreSQL when this process dies in any way.
 * @throws EmbeddedPostgresError `EMBEDDED_POSTGRES_START_FAILED` if no way works
 */
export async function choosePostgresCommand(
  binaries: PostgresBinaries,
  dataDir: string,
  log: (line: string) => void,
): Promise<PostgresCommand> {
  const failures: unknown[] = [];
  for (const candidate of await candidates(dataDir)) {
    try {
      if (candidate.ownerId !== undefined) await giveAway(dataDir, candidate.ownerId);
      const majorVersion = await probe(candidate.prefix, binaries, dataDir);
      return { prefix: candidate.prefix, binaries, cwd: dataDir, majorVersion };
    } catch (error) {
      log(`cannot run postgres ${candidate.name}: ${firstLine(error)}`);
      failures.push(error);
      if (candidate.ownerId !== undefined) await giveAway(dataDir, 0);
    }
  }
  throw new EmbeddedPostgresError(
    'EMBEDDED_POSTGRES_START_FAILED',
    `PostgreSQL cannot be run from ${binaries.postgres}: ${failures.map(firstLine).join('; ')}. As root without user namespaces, ` +
      'the data directory and the installation must be readable by other accounts. Or set DATABASE_URL.',
    { cause: new AggregateError(failures) },
  );
}

async function candidates(dataDir: string): Promise<Candidate[]> {
  const plain: Candidate = { name: 'directly', prefix: [] };
  if (process.platform !== 'linux') return [plain];
  const tied = ['--pdeathsig', 'INT', '--'];
  if (process.getuid?.() !== 0) return [{ name: 'with setpriv', prefix: ['setpriv', ...tied] }, plain];
  const { uid, gid } = await lstat(dataDir);
  const as = (user: number, group: number) => [
    'setpriv',
    `--reuid=${user}`,
    `--regid=${group}`,
    '--clear-groups',
    ...tied,
  ];
  if (uid !== 0) return [{ name: `as user ${uid}`, prefix: as(uid, gid) }];
  const namespace = ['unshare', '--user', `--map-user=${NOBODY}`, `--map-group=${NOBODY}`, 'setpriv', ...tied];
  return [
    { name: 'in a user namespace', prefix: namespace },
    { name: 'as nobody', prefix: as(NOBODY, NOBODY), ownerId: NOBODY },
  ];
}

async function probe(prefix: readonly string[], binaries: PostgresBinaries, cwd: string): Promise<string> {
  // The working directory is entered before privileges drop. Only `cd` shows whether the path can be traversed
  // afterwards.
  const script = 'cd "$1" && exec "$2" --version';
  const [file = 'sh', ...args] = [...prefix, 'sh', '-c', script, 'sh', cwd, binaries.postgres];
  const { stdout } = await run(file, args, { cwd, env: binaries.env, timeout: PROBE_TIMEOUT_MS });
  const major = /\(PostgreSQL\) (\d+)/.exec(stdout)?.[1];
  if (major === undefined) throw new Error(`unexpected version: ${stdout.trim()}`);
  return major;
}

async function giveAway(dataDir: string, ownerId: number): Promise<void> {
  await run('chown', ['-R', '-h', `${ownerId}:${ownerId}`, dataDir]);
}

function firstLine(error: unknown): string {
  const stderr = error instanceof Error && 'stderr' in error ? String(error.stderr).trim() : '';
  return (stderr || String(error)).split('\n')[0] ?? '';
}
