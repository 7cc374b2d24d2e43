import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { childEnvironment } from '../../support/child-environment.ts';

export type LogLine = Readonly<Record<string, unknown>>;

export type Child = Readonly<{
  pid: number;
  /** Its log line `process_started`. */
  started: LogLine;
  /** @returns false if the process has ended already: no signal is sent then */
  kill: (signal: NodeJS.Signals) => boolean;
  /** Resolves with the signal that ended it, if one did. */
  ended: Promise<NodeJS.Signals | null>;
  /** Description of its end, with the last text of its stderr. Null: it runs, or was sent a signal to end it. */
  ownEnd: () => string | null;
}>;

export type ChildOptions = Readonly<{
  file: string;
  environment: Readonly<Record<string, string>>;
  /** Default: this process's. */
  cwd?: string;
  /** Called with every log line of the process, when the line is read. */
  onLine: (line: LogLine) => void;
}>;

const STDERR_CHARS = 4_000;

const ENDING: readonly NodeJS.Signals[] = ['SIGKILL', 'SIGTERM', 'SIGINT'];

/** Starts a process of the product and waits until it logs that it has started. @throws when it ends before */
export async function startChild({ file, environment, cwd, onLine }: ChildOptions): Promise<Child> {
  const child = spawn(process.execPath, [file], {
    env: childEnvironment(environment),
    cwd,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const ended = once(child, 'exit').then(() => child.signalCode);
  const { promise: started, resolve, reject } = Promise.withResolvers<LogLine>();
  let stderr = '';
  child.stderr.on('data', (text) => {
    stderr = (stderr + text).slice(-STDERR_CHARS);
  });
  createInterface({ input: child.stdout }).on('line', (text) => {
    const line = JSON.parse(text) as LogLine;
    onLine(line);
    if (line['event'] === 'process_started') resolve(line);
    if (line['event'] === 'process_failed') reject(new Error(`${file} failed: ${text}`));
  });
  void ended.then(() => reject(new Error(`${file} ended before it had started: ${stderr}`)));
  let isToldToEnd = false;
  const hasEnded = (): boolean => child.exitCode !== null || child.signalCode !== null;
  return {
    pid: child.pid ?? 0,
    started: await started,
    kill(signal) {
      if (hasEnded()) return false;
      isToldToEnd ||= ENDING.includes(signal);
      return child.kill(signal);
    },
    ended,
    ownEnd: () =>
      isToldToEnd || !hasEnded() ? null : `${child.signalCode ?? `exit code ${child.exitCode}`}: ${stderr.trim()}`,
  };
}
