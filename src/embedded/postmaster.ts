import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { EmbeddedPostgresError } from './errors.ts';
import type { PostgresCommand } from './privileges.ts';

/** Marks Baton's servers on their command line. */
export const OWN_CLUSTER_SETTING = 'cluster_name=baton-embedded';

const START_TIMEOUT_MS = 120_000;
const LINGERING_BACKENDS_TIMEOUT_MS = 15_000;
const PORT_ATTEMPTS = 5;
const KEPT_LOG_LINES = 40;

const SETTINGS = [
  OWN_CLUSTER_SETTING,
  'listen_addresses=127.0.0.1',
  // No Unix socket: its path is limited to about 100 characters, the data directory's is not.
  'unix_socket_directories=',
  'max_connections=200',
  'shared_buffers=128MB',
  'fsync=on',
  'timezone=UTC',
  'log_timezone=UTC',
  'log_destination=stderr',
  'logging_collector=off',
  'log_checkpoints=off',
  // A client that vanished must free its locks within seconds, also in the middle of a long statement.
  'tcp_keepalives_idle=5',
  'tcp_keepalives_interval=2',
  'tcp_keepalives_count=3',
  'client_connection_check_interval=1000',
];

export type Postmaster = {
  readonly port: number;
  readonly pid: number;
  /** Resolves when the server has ended; never rejects. The sentence describes an unrequested end. */
  readonly ended: Promise<string>;
  /** Fast shutdown; waits for the exit, and escalates so that it ends within half a minute. */
  stop(): Promise<void>;
};

type Options = {
  readonly command: PostgresCommand;
  readonly clusterDir: string;
  readonly log: (line: string) => void;
  readonly pickPort?: () => Promise<number>;
  /** Ends the wait for backends of a killed server. */
  readonly signal?: AbortSignal;
};

type Attempt = { readonly postmaster: Postmaster } | { readonly failure: string };

/**
 * Starts the server of a cluster on a free port of 127.0.0.1 and resolves when it accepts connections.
 * - It has a session of its own, so Ctrl-C on the terminal leaves the database running while this process drains.
 * - It is tied to the calling *thread*: Linux sends the parent-death signal when that thread ends.
 * @throws EmbeddedPostgresError `EMBEDDED_POSTGRES_START_FAILED` with the last lines of the server's log
 */
export async function startPostmaster(options: Options): Promise<Postmaster> {
  const { pickPort = freePort, log, signal } = options;
  const deadline = Date.now() + LINGERING_BACKENDS_TIMEOUT_MS;
  let portAttempts = 0;
  for (;;) {
    const attempt = await tryToStart(options, await pickPort());
    if ('postmaster' in attempt) return attempt.postmaster;
    const { failure } = attempt;
    // Another process may take the port before the server binds it.
    if (/could not bind|could not create any TCP/.test(failure) && ++portAttempts < PORT_ATTEMPTS) {
      log('the port was taken meanwhile; trying another one');
      continue;
    }
    // After a kill -9 of the server its backends need a moment to notice and end.
    if (/pre-existing shared memory block/.test(failure) && Date.now() < deadline && signal?.aborted !== true) {
      log('waiting for backends of a killed server to end');
      await sleep(100);
      continue;
    }
    throw new EmbeddedPostgresError('EMBEDDED_POSTGRES_START_FAILED', `PostgreSQL did not start.\n${failure}`);
  }
}

/**
 * Stops a server: fast shutdown, then immediate, then kill.
 * @param signal sends a signal; may throw if the process is gone
 * @param endsWithin true as soon as the process has ended, false after the given milliseconds
 * @returns whether it ended
 */
export async function escalate(
  signal: (name: NodeJS.Signals) => unknown,
  endsWithin: (patienceMs: number) => Promise<boolean>,
): Promise<boolean> {
  // An immediate shutdown kills stuck backends itself after 5 s.
  const steps = [
    { name: 'SIGINT', patienceMs: 10_000 },
    { name: 'SIGQUIT', patienceMs: 8_000 },
    { name: 'SIGKILL', patienceMs: 5_000 },
  ] as const;
  for (const { name, patienceMs } of steps) {
    try {
      signal(name);
    } catch {
      // The process is gone already; the wait finds out.
    }
    if (await endsWithin(patienceMs)) return true;
  }
  return false;
}

async function tryToStart(options: Options, port: number): Promise<Attempt> {
  const { command, clusterDir, log } = options;
  const [file = command.binaries.postgres, ...args] = [
    ...command.prefix,
    command.binaries.postgres,
    '-D',
    clusterDir,
    ...[...SETTINGS, `port=${port}`].flatMap((setting) => ['-c', setting]),
  ];
  const child = spawn(file, args, {
    cwd: command.cwd,
    env: command.binaries.env,
    detached: true,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const server = watch(child, log);
  using timer = timeout(START_TIMEOUT_MS);
  const outcome = await Promise.race([server.ready, server.ended, timer.elapsed]);
  const { pid } = child;
  if (outcome !== 'ready' || pid === undefined) {
    await stopChild(child, server);
    return { failure: server.tail() || `postgres gave no reason (${outcome}).` };
  }
  // A process that forgets to dispose must not hang. The exit hook and the parent-death signal then stop the server.
  child.unref();
  if (child.stderr instanceof Socket) child.stderr.unref();
  return {
    postmaster: {
      port,
      pid,
      ended: server.ended.then((reason) => describeEnd(reason, server.tail())),
      async stop() {
        child.ref();
        if (!(await stopChild(child, server))) log(`postgres (process ${pid}) does not end`);
      },
    },
  };
}

/** Length of the log's end that goes into the error. */
const LAST_WORDS_CHARS = 350;

function describeEnd(reason: string, tail: string): string {
  const how = reason === 'SIGKILL' ? 'SIGKILL, which the kernel sends when memory runs out' : reason;
  const lastWords = tail === '' ? '' : ` It said last: ${tail.slice(-LAST_WORDS_CHARS)}`;
  return `PostgreSQL ended by itself (${how}).${lastWords}`;
}

type Watched = {
  readonly ready: Promise<'ready'>;
  /** Resolves with a description when the process has ended or could not be started; never rejects. */
  readonly ended: Promise<string>;
  tail(): string;
};

function watch(child: ChildProcess, log: (line: string) => void): Watched {
  const ready = Promise.withResolvers<'ready'>();
  const ended = Promise.withResolvers<string>();
  const kept: string[] = [];
  if (child.stderr) {
    createInterface({ input: child.stderr }).on('line', (line) => {
      kept.push(line);
      if (kept.length > KEPT_LOG_LINES) kept.shift();
      log(line);
      if (line.includes('database system is ready to accept connections')) ready.resolve('ready');
    });
  }
  const stopAtExit = () => child.kill('SIGINT');
  process.once('exit', stopAtExit);
  const closed = Promise.withResolvers<void>();
  child.once('close', () => closed.resolve());
  const finish = async (reason: string) => {
    process.removeListener('exit', stopAtExit);
    // The last lines may still be in the pipe, but backends that outlive a killed server can hold it open.
    using timer = timeout(500);
    await Promise.race([closed.promise, timer.elapsed]);
    ended.resolve(reason);
  };
  child.on('error', (error) => void finish(String(error)));
  child.once('exit', (code, signal) => void finish(signal ?? `exit code ${code}`));
  return { ready: ready.promise, ended: ended.promise, tail: () => kept.join('\n') };
}

function stopChild(child: ChildProcess, server: Watched): Promise<boolean> {
  return escalate(
    (signal) => child.kill(signal),
    async (patienceMs) => {
      using timer = timeout(patienceMs);
      return (await Promise.race([server.ended, timer.elapsed])) !== 'timeout';
    },
  );
}

function timeout(ms: number): Disposable & { readonly elapsed: Promise<'timeout'> } {
  const { promise, resolve } = Promise.withResolvers<'timeout'>();
  const timer = setTimeout(resolve, ms, 'timeout' as const);
  return { elapsed: promise, [Symbol.dispose]: () => clearTimeout(timer) };
}

async function freePort(): Promise<number> {
  const probe = createServer();
  probe.listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const address = probe.address();
  probe.close();
  await once(probe, 'close');
  if (address === null || typeof address === 'string') throw new TypeError('a TCP listener has a port');
  return address.port;
}
