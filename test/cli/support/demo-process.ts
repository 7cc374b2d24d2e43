import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { processesIn, scratchDir } from '../../embedded/support.ts';
import { childEnvironment } from '../../support/child-environment.ts';

const BATON = fileURLToPath(new URL('../../../src/cli/baton.ts', import.meta.url));

export type DemoEnd = Readonly<{ exitCode: number | null; stdout: string; stderr: string }>;

type RunningDemo = Readonly<{
  pid: number;
  kill: (signal: NodeJS.Signals) => void;
  /** Resolves when the demo has shown this text as progress. @throws if it ends without it */
  shows: (text: string) => Promise<void>;
  ended: Promise<DemoEnd>;
}>;

/** A folder for the demo, isolated from this machine's services and settings. */
export type DemoPlace = AsyncDisposable &
  Readonly<{
    path: string;
    /** The folder of the embedded database's files. */
    dataDir: string;
    /** The demo puts its temporary folders here. */
    temporaryDir: string;
    start: (args: readonly string[], environment?: Readonly<Record<string, string>>) => RunningDemo;
    run: (args: readonly string[], environment?: Readonly<Record<string, string>>) => Promise<DemoEnd>;
    /** Pids of processes that work in this folder or name it on their command line. */
    processes: () => number[];
  }>;

export async function demoPlace(): Promise<DemoPlace> {
  await using stack = new AsyncDisposableStack();
  const { path } = stack.use(await scratchDir());
  const dataDir = join(path, 'data');
  const temporaryDir = join(path, 'tmp');
  await mkdir(temporaryDir);
  const base = {
    ...childEnvironment({}),
    TMPDIR: temporaryDir,
    BATON_DATA_DIR: dataDir,
  };
  const start: DemoPlace['start'] = (args, environment = {}) => {
    const child = spawn(process.execPath, [BATON, 'demo', ...args], { cwd: path, env: { ...base, ...environment } });
    const output = { stdout: '', stderr: '' };
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      output.stdout += text;
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      output.stderr += text;
    });
    const ended = once(child, 'close').then(() => ({ exitCode: child.exitCode, ...output }));
    return {
      pid: child.pid ?? 0,
      kill: (signal) => void child.kill(signal),
      shows: (text) => shows(child, () => output.stdout + output.stderr, text),
      ended,
    };
  };
  const owned = stack.move();
  return {
    path,
    dataDir,
    temporaryDir,
    start,
    run: (args, environment) => start(args, environment).ended,
    processes: () => processesIn(path),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

function shows(child: ChildProcessWithoutNullStreams, shown: () => string, text: string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const look = (): void => {
    if (shown().includes(text)) resolve();
  };
  child.stdout.on('data', look);
  child.stderr.on('data', look);
  child.once('close', () => reject(new Error(`the demo ended without showing ${JSON.stringify(text)}: ${shown()}`)));
  look();
  return promise;
}

/** The JSON line that `--json` prints last. */
export function lastLineOf({ stdout }: DemoEnd): Record<string, unknown> {
  const lines = stdout.split('\n');
  if (lines.length !== 2 || lines[1] !== '') throw new Error(`not exactly one line: ${JSON.stringify(stdout)}`);
  return JSON.parse(lines[0] ?? '');
}
