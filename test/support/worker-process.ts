import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { childEnvironment } from './child-environment.ts';

export type WorkerProcess = AsyncDisposable &
  Readonly<{
    pid: number;
    /** Lines the process has logged, parsed. */
    logged: readonly Readonly<Record<string, unknown>>[];
    url: string | undefined;
    /** The output of the process on stderr so far. */
    stderr: () => string;
    kill: (signal: NodeJS.Signals) => Promise<number | null>;
  }>;

/** Starts one of the entry points in workers/ as a process of its own and waits until it says that it has started. */
export async function startWorkerProcess(
  name: 'api' | 'steps' | 'compactions' | 'prunes' | 'deliveries' | 'all',
  environment: Readonly<Record<string, string>>,
  nodeOptions: readonly string[] = [],
): Promise<WorkerProcess> {
  const file = fileURLToPath(new URL(`../../workers/${name}.ts`, import.meta.url));
  const child = spawn(process.execPath, [...nodeOptions, file], {
    env: childEnvironment(environment),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const logged: Record<string, unknown>[] = [];
  const exited = once(child, 'exit');
  let stderr = '';
  child.stderr.on('data', (text) => {
    stderr += text;
  });
  const started = new Promise<Record<string, unknown>>((resolve, reject) => {
    createInterface({ input: child.stdout }).on('line', (line) => {
      const entry = JSON.parse(line) as Record<string, unknown>;
      logged.push(entry);
      if (entry['event'] === 'process_started') resolve(entry);
    });
    child.once('exit', () => reject(new Error(`workers/${name}.ts ended: ${JSON.stringify(logged)} ${stderr}`)));
  });
  const { url } = await started;
  return {
    pid: child.pid ?? 0,
    logged,
    url: typeof url === 'string' ? url : undefined,
    stderr: () => stderr,
    kill: (signal) => kill(child, exited, signal),
    [Symbol.asyncDispose]: async () => void (await kill(child, exited, 'SIGKILL')),
  };
}

async function kill(child: ChildProcess, exited: Promise<unknown[]>, signal: NodeJS.Signals): Promise<number | null> {
  if (child.exitCode === null && child.signalCode === null) child.kill(signal);
  await exited;
  return child.exitCode;
}
