import { type ChildProcess, spawn } from 'node:child_process';
import { Socket } from 'node:net';
import { DisposableStack } from '../../platform/disposable-stacks.ts';
import { GIVE_WAY, isolationOfCommands } from '../isolation.ts';
import { killGroup } from '../kill-group.ts';
import { reducedEnvironment } from '../reduced-environment.ts';
import { WorkspaceError } from './workspace-error.ts';

/** The end of a command. `exitCode` is null if the shell was killed before it could report. */
export type CommandOutcome = Readonly<{ output: string; exitCode: number | null; timedOut: boolean }>;

type Command = Readonly<{
  command: string;
  cwd: string;
  timeoutMs: number;
  maxOutputChars: number;
  signal: AbortSignal;
}>;

const KILL_GRACE_SECONDS = 2;
const BACKSTOP_MS = (KILL_GRACE_SECONDS + 2) * 1_000;

/**
 * Runs as leader of a new process group around the command ($1).
 * - Descriptor 3 is a socket to the worker, which alone holds its other end: it ends when the worker closes it or dies
 *   in any way. The watcher then stops the group: SIGTERM, $2 seconds of grace, SIGKILL.
 * - A group is ended in no other way, so each timeout also tests the handling of a crash.
 * - The leader, the watcher and cat ignore SIGTERM; the command gets the default back.
 * - `cat` gives the command a real pipe: a script cannot open /dev/stderr when it is a socket (Node.js makes sockets).
 *   It buffers unread output, and ends when no process has the output open.
 * - The exit code goes over descriptor 3, since background processes may keep the output open long after the command.
 */
const SUPERVISOR = `
trap '' TERM
( ${GIVE_WAY} ) </dev/null >/dev/null 2>&1 3<&- &
( read -r _ <&3; kill -s TERM 0; sleep "$2"; kill -s KILL 0 ) </dev/null >/dev/null 2>&1 &
watcher=$!
{
  (
    trap - TERM
    exec 2>&1
    if command -v bash >/dev/null; then exec bash -c "$1" </dev/null 3<&-; fi
    exec sh -c "$1" </dev/null 3<&-
  )
  echo "$?" >&3
} | cat 3<&-
kill -s KILL "$watcher"
wait "$watcher" 2>/dev/null
kill -s KILL 0
`;

/**
 * Runs a shell command in its own process group, without input, stdout and stderr as one stream. POSIX only.
 * - When it ends, times out or is aborted, and when this process dies, the rest of the group is stopped (SIGTERM, then
 *   SIGKILL); the promise settles after that.
 * - It runs isolated from this process if the system allows it.
 * - Processes that leave the group (setsid) are not followed.
 * @throws WorkspaceError `ABORTED` with the output so far, `COMMAND_NOT_STARTED`
 */
export async function runSupervised({
  command,
  cwd,
  timeoutMs,
  maxOutputChars,
  signal,
}: Command): Promise<CommandOutcome> {
  const { prefix } = await isolationOfCommands();
  signal.throwIfAborted();
  using cleanup = new DisposableStack();
  const [file = '/bin/sh', ...args] = [
    ...prefix,
    '/bin/sh',
    '-c',
    SUPERVISOR,
    'sh',
    command,
    String(KILL_GRACE_SECONDS),
  ];
  const child = spawn(file, args, {
    cwd,
    env: reducedEnvironment(process.env),
    detached: true,
    stdio: ['ignore', 'pipe', 'ignore', 'pipe'],
  });
  const closed = closeOf(child);
  const output = collectOutput(child, maxOutputChars);
  const lifeline = child.stdio[3];
  let exitCode: number | null = null;
  let timedOut = false;

  const stop = (): void => {
    if (lifeline instanceof Socket) lifeline.end();
    // The command may have killed its watcher.
    const backstop = setTimeout(() => killGroup(child), BACKSTOP_MS);
    cleanup.defer(() => clearTimeout(backstop));
  };
  if (lifeline instanceof Socket) {
    let report = '';
    // The group is being stopped: a late write is no failure.
    lifeline.on('error', () => {});
    lifeline.setEncoding('latin1').on('data', (text: string) => {
      report += text;
      if (exitCode !== null || !report.endsWith('\n')) return;
      exitCode = Number.parseInt(report, 10);
      stop();
    });
  }
  const timer = setTimeout(() => {
    timedOut = exitCode === null;
    stop();
  }, timeoutMs);
  cleanup.defer(() => clearTimeout(timer));
  signal.addEventListener('abort', stop, { once: true });
  cleanup.defer(() => signal.removeEventListener('abort', stop));

  await closed;
  if (signal.aborted) throw aborted(output(), signal);
  return { output: output(), exitCode, timedOut };
}

async function closeOf(child: ChildProcess): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  child.on('error', (cause) =>
    reject(new WorkspaceError('COMMAND_NOT_STARTED', 'The command could not be started.', { cause })),
  );
  // Only a killed leader leaves processes behind; normally it ends its whole group with itself.
  child.once('exit', () => killGroup(child));
  child.once('close', () => resolve());
  return promise;
}

function collectOutput(child: ChildProcess, maxChars: number): () => string {
  const output = createBoundedOutput(maxChars);
  const decoder = new TextDecoder();
  // A pipe that breaks has said all that it will; the end of the process follows.
  child.stdout?.on('error', () => undefined);
  child.stdout?.on('data', (bytes: Buffer) => output.append(decoder.decode(bytes, { stream: true })));
  child.stdout?.once('end', () => output.append(decoder.decode()));
  return () => output.toString();
}

function aborted(output: string, signal: AbortSignal): WorkspaceError {
  const soFar = output === '' ? 'It had no output yet.' : `Output so far:\n${output}`;
  return new WorkspaceError('ABORTED', `The command was aborted and its processes were stopped. ${soFar}`, {
    cause: signal.reason,
  });
}

/** Collects text of any length in bounded memory: keeps its head and its tail. */
type BoundedOutput = Readonly<{
  append: (text: string) => void;
  /** The text; if it is longer than the limit, half of the limit from each end with a mark between them. */
  toString: () => string;
}>;

/** Growth of the tail before it is cut again: cutting for each small piece would copy all of it. */
const SLACK_CHARS = 1_000_000;

/** Keeps at most `maxChars` characters, and briefly some more. */
export function createBoundedOutput(maxChars: number): BoundedOutput {
  const headChars = Math.ceil(maxChars / 2);
  const tailChars = maxChars - headChars;
  let head = '';
  let tail = '';
  let droppedChars = 0;
  const trimTail = (): void => {
    if (tail.length <= tailChars) return;
    droppedChars += tail.length - tailChars;
    tail = tail.slice(tail.length - tailChars);
  };
  return {
    append: (text) => {
      const room = headChars - head.length;
      head += text.slice(0, room);
      tail += text.slice(room);
      if (tail.length > tailChars + SLACK_CHARS) trimTail();
    },
    toString: () => {
      trimTail();
      const mark = `\n[… ${droppedChars} characters cut here: write long output to a file and read parts of it …]\n`;
      return droppedChars === 0 ? head + tail : `${head}${mark}${tail}`;
    },
  };
}
