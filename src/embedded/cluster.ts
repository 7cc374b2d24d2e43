import { execFile } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { open, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { z } from 'zod';
import { EmbeddedPostgresError } from './errors.ts';
import type { PostgresCommand } from './privileges.ts';
import { shareOwner } from './share-owner.ts';

const run = promisify(execFile);

const CLUSTER = 'cluster';
const UNFINISHED = 'cluster.init-';
const CREDENTIALS = 'baton-credentials.json';
const INIT_TIMEOUT_MS = 180_000;

/** Role and database of the application. */
export const APP_NAME = 'baton';

const credentialsSchema = z.object({
  /** Of the role `postgres`, for administration by hand. */
  superuserPassword: z.string().min(1),
  /** Of the role `baton`. */
  password: z.string().min(1),
});

/** The passwords of a cluster, kept in a 0600 file inside it. */
export type Credentials = z.infer<typeof credentialsSchema>;

export function clusterDirOf(dataDir: string): string {
  return join(dataDir, CLUSTER);
}

/**
 * Opens the cluster of a data directory, whose lock the caller must hold. The first start creates it with the role
 * `baton` and its database, under a temporary name until complete, so `cluster` is either whole or absent; the next
 * start removes an incomplete one.
 * @throws EmbeddedPostgresError `EMBEDDED_POSTGRES_VERSION` if another major version made the cluster,
 * `EMBEDDED_POSTGRES_DATA_DIR` if Baton did not make it, `EMBEDDED_POSTGRES_INIT_FAILED`
 */
export async function openCluster(
  command: PostgresCommand,
  dataDir: string,
  log: (line: string) => void,
): Promise<Credentials> {
  await removeUnfinished(dataDir, log);
  const clusterDir = clusterDirOf(dataDir);
  const version = await readIfPresent(join(clusterDir, 'PG_VERSION'));
  if (version === undefined) return await createCluster(command, dataDir, log);
  if (version.trim() !== command.majorVersion) {
    throw new EmbeddedPostgresError(
      'EMBEDDED_POSTGRES_VERSION',
      `${clusterDir} was made by PostgreSQL ${version.trim()}, the installed one is ${command.majorVersion}. ` +
        'Dump it with the old version and restore it, or choose another data directory.',
    );
  }
  return await readCredentials(clusterDir);
}

/** @throws EmbeddedPostgresError `EMBEDDED_POSTGRES_DATA_DIR` */
export async function readCredentials(clusterDir: string): Promise<Credentials> {
  const path = join(clusterDir, CREDENTIALS);
  try {
    return credentialsSchema.parse(JSON.parse(await readFile(path, 'utf8')));
  } catch (cause) {
    throw new EmbeddedPostgresError('EMBEDDED_POSTGRES_DATA_DIR', `Cannot read the passwords in ${path}.`, { cause });
  }
}

async function removeUnfinished(dataDir: string, log: (line: string) => void): Promise<void> {
  for (const name of await readdir(dataDir)) {
    if (!name.startsWith(UNFINISHED)) continue;
    log(`removing ${name} of an interrupted first start`);
    await rm(join(dataDir, name), { recursive: true, force: true, maxRetries: 3 });
  }
}

async function createCluster(
  command: PostgresCommand,
  dataDir: string,
  log: (line: string) => void,
): Promise<Credentials> {
  log('creating the database (first start)');
  const building = join(dataDir, `${UNFINISHED}${randomUUID()}`);
  const credentials = { superuserPassword: newPassword(), password: newPassword() };
  try {
    await runInitdb(command, building, credentials, dataDir);
    await createAppDatabase(command, building, credentials);
    await writePrivateFile(join(building, CREDENTIALS), JSON.stringify(credentials), dataDir);
    await rename(building, clusterDirOf(dataDir));
    await syncDirectory(dataDir);
  } catch (cause) {
    await rm(building, { recursive: true, force: true, maxRetries: 3 });
    throw initError(cause, dataDir);
  }
  return credentials;
}

async function runInitdb(
  command: PostgresCommand,
  building: string,
  credentials: Credentials,
  dataDir: string,
): Promise<void> {
  const passwordFile = `${building}.password`;
  await using _ = { [Symbol.asyncDispose]: () => rm(passwordFile, { force: true }) };
  await writePrivateFile(passwordFile, credentials.superuserPassword, dataDir);
  await runProgram(command, command.binaries.initdb, [
    `--pgdata=${building}`,
    '--username=postgres',
    `--pwfile=${passwordFile}`,
    '--auth=scram-sha-256',
    '--encoding=UTF8',
    // The built-in provider sorts alike on every machine and needs no locale of the operating system.
    '--locale=C',
    '--locale-provider=builtin',
    '--builtin-locale=C.UTF-8',
  ]);
}

async function createAppDatabase(command: PostgresCommand, building: string, credentials: Credentials): Promise<void> {
  // Single-user mode: complete before the rename, with no port open. One statement per line; passwords are base64url.
  const sql = [
    `CREATE ROLE ${APP_NAME} LOGIN NOSUPERUSER CREATEDB PASSWORD '${credentials.password}'`,
    `CREATE DATABASE ${APP_NAME} OWNER ${APP_NAME}`,
  ];
  const settings = ['-c', 'exit_on_error=on', '-c', 'log_checkpoints=off'];
  const args = ['--single', '-D', building, ...settings, 'postgres'];
  await runProgram(command, command.binaries.postgres, args, `${sql.join('\n')}\n`);
}

async function runProgram(
  command: PostgresCommand,
  program: string,
  programArgs: readonly string[],
  input = '',
): Promise<void> {
  const [file = program, ...args] = [...command.prefix, program, ...programArgs];
  const running = run(file, args, {
    cwd: command.cwd,
    env: command.binaries.env,
    timeout: INIT_TIMEOUT_MS,
    killSignal: 'SIGKILL',
  });
  // A program that ends early breaks the pipe. Its exit code reports the failure.
  running.child.stdin?.on('error', () => undefined).end(input);
  await running;
}

function initError(cause: unknown, dataDir: string): EmbeddedPostgresError {
  const stderr = cause instanceof Error && 'stderr' in cause ? String(cause.stderr).trim() : '';
  return new EmbeddedPostgresError(
    'EMBEDDED_POSTGRES_INIT_FAILED',
    `The database in ${dataDir} could not be created. ${stderr || String(cause)}`,
    { cause },
  );
}

async function writePrivateFile(path: string, content: string, dataDir: string): Promise<void> {
  await writeFile(path, content, { mode: 0o600, flag: 'wx', flush: true });
  await shareOwner(path, dataDir);
}

/** A rename is durable only after its directory is synced. */
async function syncDirectory(path: string): Promise<void> {
  await using directory = await open(path);
  await directory.sync();
}

async function readIfPresent(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw new EmbeddedPostgresError('EMBEDDED_POSTGRES_DATA_DIR', `Cannot read ${path}.`, { cause: error });
  }
}

function newPassword(): string {
  return randomBytes(24).toString('base64url');
}
