import { spawn } from 'node:child_process';
import { Socket } from 'node:net';
import type { Readable, Writable } from 'node:stream';
import { BatonError } from '../../domain/errors.ts';
import { DisposableStack } from '../../platform/disposable-stacks.ts';
import { GIVE_WAY, isolationOfCommands } from '../isolation.ts';
import { killGroup } from '../kill-group.ts';

/** A server process. Its stderr goes to `onLine`, long lines cut. */
export type ServerCommand = Readonly<{
  command: string;
  args: readonly string[];
  cwd: string | undefined;
  environment: NodeJS.ProcessEnv;
  onLine: (line: string) => void;
}>;

export type ServerProcess = Readonly<{
  input: Writable;
  output: Readable;
  /** Ends the process group: closes its input, then sends signals. Resolves when all its processes are gone. */
  stop: () => Promise<void>;
  /** Resolves with the exit code when it has ended. Null: it was killed. */
  ended: Promise<number | null>;
}>;

const KILL_GRACE_SECONDS = 2;
/** Time to exit by itself after its input has ended. */
const END_GRACE_MS = 1_000;
/** Limits a line that never ends, for the memory and the log. */
const MAX_LINE_CHARS = 16_384;
const BACKSTOP_MS = (KILL_GRACE_SECONDS + 2) * 1_000;

/**
 * Leads a process group around the command, like the one of `bash`: descriptor 3 is a socket that ends when the worker
 * closes it or dies, however it dies, and the watcher then stops the group. The exit code goes over descriptor 3, since
 * the leader ends with its group; input and output are the command's own.
 */
const SUPERVISOR = `
trap '' TERM
grace="$1"
shift
( ${GIVE_WAY} ) </dev/null >/dev/null 2>&1 3<&- &
( read -r _ <&3; kill -s TERM 0; sleep "$grace"; kill -s KILL 0 ) </dev/null >/dev/null 2>&1 &
watcher=$!
( trap - TERM; exec "$@" 3<&- )
echo "$?" >&3
kill -s KILL "$watcher"
wait "$watcher" 2>/dev/null
kill -s KILL 0
`;

/**
 * Starts a server process that dies with this one. POSIX only.
 * @throws BatonError `internal` if not even the shell around it can be started
 */
export async function startServerProcess(server: ServerCommand): Promise<ServerProcess> {
  const { command, args, cwd, environment, onLine } = server;
  const { prefix } = await isolationOfCommands();
  const supervised = ['/bin/sh', '-c', SUPERVISOR, 'sh', String(KILL_GRACE_SECONDS), command, ...args];
  const [file = '/bin/sh', ...fileArgs] = [...prefix, ...supervised];
  const child = spawn(file, fileArgs, {
    ...(cwd === undefined ? {} : { cwd }),
    env: environment,
    detached: true,
    stdio: ['pipe', 'pipe', 'pipe', 'pipe'],
  });
  const lifeline = child.stdio[3];
  const { promise: spawned, resolve, reject } = Promise.withResolvers<void>();
  child.once('spawn', resolve);
  child.on('error', (cause) => reject(new BatonError('internal', `${command} could not be started`, { cause })));
  await spawned;
  if (child.stdin === null || child.stdout === null || child.stderr === null || !(lifeline instanceof Socket)) {
    throw new BatonError('internal', `${command} was started without its pipes`);
  }
  const { stdin, stdout, stderr } = child;
  const lines = cutLines(MAX_LINE_CHARS, onLine);
  stderr.setEncoding('utf8').on('data', lines.push).on('end', lines.end);
  let exitCode: number | null = null;
  // A pipe that breaks has said all that it will; the end of the process follows.
  for (const pipe of [stderr, stdout, lifeline]) pipe.on('error', () => undefined);
  lifeline.setEncoding('latin1').on('data', (text) => {
    exitCode = Number.parseInt(String(text), 10);
  });
  child.once('exit', () => killGroup(child));
  const ended = new Promise<number | null>((done) => child.once('close', () => done(exitCode)));
  return {
    input: stdin,
    output: stdout,
    ended,
    async stop() {
      using cleanup = new DisposableStack();
      const letGo = setTimeout(() => lifeline.end(), END_GRACE_MS);
      // For a command that has killed its watcher.
      const backstop = setTimeout(() => killGroup(child), END_GRACE_MS + BACKSTOP_MS);
      cleanup.defer(() => clearTimeout(letGo));
      cleanup.defer(() => clearTimeout(backstop));
      stdin.end();
      await ended;
    },
  };
}

type CutLines = Readonly<{
  push: (piece: string) => void;
  /** Emits the last line if it has no line break. */
  end: () => void;
}>;

/** Emits the lines that are not empty, cut to `maxChars`. An endless line is not buffered beyond that. */
function cutLines(maxChars: number, onLine: (line: string) => void): CutLines {
  let line = '';
  const tell = (): void => {
    if (line !== '') onLine(line);
    line = '';
  };
  return {
    push(piece) {
      for (const [at, text] of piece.split(/[\r\n]/).entries()) {
        if (at > 0) tell();
        line += text.slice(0, maxChars - line.length);
      }
    },
    end: tell,
  };
}
