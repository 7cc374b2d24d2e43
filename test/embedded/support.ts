import { type ChildProcessWithoutNullStreams, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { chmod, mkdtemp, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Client } from 'pg';
import { z } from 'zod';
import { findBinariesPackage } from '../../src/embedded/binaries.ts';
import { clusterDirOf } from '../../src/embedded/cluster.ts';
import { startEmbeddedPostgres } from '../../src/embedded/launcher.ts';
import { childEnvironment } from '../support/child-environment.ts';
import { eventually } from '../support/eventually.ts';

export const IS_ROOT = process.getuid?.() === 0;
export const NOBODY = 65534;
/** The prefix of a command that runs as the account `nobody`; needs root. */
export const NOBODY_PREFIX = ['setpriv', `--reuid=${NOBODY}`, `--regid=${NOBODY}`, '--clear-groups'];
export const HOLD_SERVER = join(import.meta.dirname, 'hold-server.ts');

/** The reason why a case that needs to become another account cannot run here; undefined when it can. */
export function whyNotAsNobody(): string | undefined {
  if (!IS_ROOT) return 'only root can become another account (all other cases run without root here)';
  const [file = '', ...args] = [
    ...NOBODY_PREFIX,
    'head',
    '-c1',
    process.execPath,
    HOLD_SERVER,
    join(findBinariesPackage(), 'package.json'),
  ];
  const tried = spawnSync(file, args, { cwd: '/' });
  return tried.status === 0 ? undefined : `nobody cannot read this installation: ${tried.stderr}`;
}

/**
 * A new directory below the system's temporary one. Disposal removes it with everything in it, and kills servers that a
 * failed test has left running there.
 */
export async function scratchDir(): Promise<AsyncDisposable & { readonly path: string }> {
  const path = await realpath(await mkdtemp(join(tmpdir(), 'baton-embedded-')));
  await chmod(path, 0o755);
  return {
    path,
    async [Symbol.asyncDispose]() {
      for (const pid of processesIn(path)) process.kill(pid, 'SIGKILL');
      await rm(path, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

export type StoppedCluster = AsyncDisposable & Readonly<{ copyTo: (dataDir: string) => void }>;

/** A stopped cluster with the value 7 in its table `kept`. Tests take copies, because making one takes seconds. */
export async function makeStoppedCluster(): Promise<StoppedCluster> {
  await using stack = new AsyncDisposableStack();
  const template = stack.use(await scratchDir());
  {
    await using postgres = await startEmbeddedPostgres({ dataDir: template.path });
    await withClient(postgres.connectionString, (client) => client.query('CREATE TABLE kept AS SELECT 7 AS value'));
  }
  const owned = stack.move();
  return {
    copyTo: (dataDir) => void execFileSync('cp', ['-a', clusterDirOf(template.path), clusterDirOf(dataDir)]),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Pids of all live processes that mention a path on their command line or work in it (other than this one). */
export function processesIn(path: string): number[] {
  if (process.platform !== 'linux') {
    const lines = execFileSync('ps', ['-axww', '-o', 'pid=,command='], { encoding: 'utf8' }).split('\n');
    return lines.filter((line) => line.includes(path)).map((line) => Number.parseInt(line, 10));
  }
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid && commandLine(name).includes(path))
    .map(Number);
}

export async function untilNoProcessIn(path: string): Promise<void> {
  await eventually(async () => processesIn(path).length === 0, `no process works in ${path}`);
}

function commandLine(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    return '';
  }
}

export async function withClient<T>(connectionString: string, use: (client: Client) => Promise<T>): Promise<T> {
  const client = new Client({ connectionString });
  client.on('error', () => undefined);
  await client.connect();
  try {
    return await use(client);
  } finally {
    await client.end();
  }
}

/** The one value of a query that returns one row with the column `value`. */
export async function queryValue(connectionString: string, sql: string): Promise<unknown> {
  const { rows } = await withClient(connectionString, (client) => client.query(sql));
  return rows[0]?.value;
}

const startedSchema = z.object({ pid: z.number(), port: z.number(), connectionString: z.string() });
const refusedSchema = z.object({ code: z.string(), message: z.string() });

export type Holder = AsyncDisposable & {
  readonly child: ChildProcessWithoutNullStreams;
  readonly pid: number;
  nextLine(): Promise<unknown>;
  started(): Promise<z.infer<typeof startedSchema>>;
  refused(): Promise<z.infer<typeof refusedSchema>>;
};

/** Runs hold-server.ts in a process (and process group) of its own; disposal ends it and waits for it. */
export function spawnHolder(
  dataDir: string,
  options: { prefix?: readonly string[]; script?: string; mode?: 'hold' | 'forget' | 'lose' } = {},
): Holder {
  const { prefix = [], script = HOLD_SERVER, mode = 'hold' } = options;
  const [file = process.execPath, ...args] = [...prefix, process.execPath, script, dataDir, mode];
  const env = { ...process.env, ...childEnvironment({}) };
  const child = spawn(file, args, { detached: true, cwd: '/', env, stdio: 'pipe' });
  const exited = once(child, 'exit');
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  let complaints = '';
  child.stderr.on('data', (chunk) => {
    complaints += chunk;
  });
  const nextLine = async () => {
    const { done, value } = await lines.next();
    if (done) throw new Error(`the process ended without a line: ${complaints}`);
    return JSON.parse(value);
  };
  if (child.pid === undefined) throw new Error(`cannot spawn ${file}`);
  return {
    child,
    pid: child.pid,
    nextLine,
    started: async () => {
      const line = await nextLine();
      const parsed = startedSchema.safeParse(line);
      if (!parsed.success) throw new Error(`not started: ${JSON.stringify(line)}`);
      return parsed.data;
    },
    refused: async () => refusedSchema.parse(await nextLine()),
    async [Symbol.asyncDispose]() {
      child.stdin.end();
      await exited;
    },
  };
}
