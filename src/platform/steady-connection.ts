import { Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { backOffMs } from './back-off.ts';
import { applySettings, splitSettings } from './postgres-settings.ts';

const CONNECT_TIMEOUT_MS = 5_000;
const QUERY_TIMEOUT_MS = 5_000;
const END_TIMEOUT_MS = 1_000;

/** Interval of pings on an idle connection, because a half-open one reports no error. */
const PING_INTERVAL_MS = 10_000;

const BACKOFF_FIRST_MS = 50;
const BACKOFF_CAP_MS = 2_000;
/** A connection that has lasted this long resets the pauses. One that opens and ends at once is no better than none. */
const SETTLED_AFTER_MS = 10_000;

export type SteadyConnection = AsyncDisposable &
  Readonly<{
    isUp: () => boolean;
    /** Rejects at once while the connection is away, and when an answer takes more than 5 s. */
    query: (text: string, values: readonly unknown[]) => Promise<void>;
  }>;

export type SteadyConnectionOptions = Readonly<{
  connectionString: string;
  applicationName: string;
  /** Anybody in the database can notify, so the payload may be anything. What it throws goes to `onError`. */
  onNotification?: (payload: string) => void;
  /** Run on every new connection before it counts as up. */
  prepare?: (client: pg.Client) => Promise<unknown>;
  pingIntervalMs?: number;
  /** Called when the connection is lost. It is then opened again. */
  onDown?: () => void;
  /** Called when the connection is up again. */
  onUpAgain?: () => void;
  onError: (error: unknown) => void;
}>;

type Opened = Readonly<{
  client: pg.Client;
  socket: Socket;
  ended: Promise<void>;
  /** Runs queries one after the other: the next is sent only after the answer. */
  ask: (text: string, values?: readonly unknown[]) => Promise<void>;
}>;

/** One connection to Postgres that reopens by itself. @throws when the first connection fails */
export async function openSteadyConnection(options: SteadyConnectionOptions): Promise<SteadyConnection> {
  const closing = new AbortController();
  let current: Opened | null = await open(options);
  const watching = watch(current);

  async function watch(first: Opened): Promise<void> {
    let failures = 0;
    await untilItEnds(first);
    while (!closing.signal.aborted) {
      const [opened, tries] = await reopen(failures);
      if (opened === null) return;
      if (closing.signal.aborted) return end(opened);
      current = opened;
      options.onUpAgain?.();
      const openedAtMs = performance.now();
      await untilItEnds(opened);
      failures = performance.now() - openedAtMs < SETTLED_AFTER_MS ? tries + 1 : 0;
    }
  }

  async function untilItEnds(opened: Opened): Promise<void> {
    await livesUntilItEnds(opened, options.pingIntervalMs ?? PING_INTERVAL_MS);
    current = null;
    if (!closing.signal.aborted) options.onDown?.();
  }

  /** @returns the connection, null if it was closed meanwhile, and the failures so far */
  async function reopen(failuresBefore: number): Promise<[Opened | null, number]> {
    for (let failures = failuresBefore; ; failures += 1) {
      await pause(backOffMs(failures, BACKOFF_FIRST_MS, BACKOFF_CAP_MS), closing.signal);
      if (closing.signal.aborted) return [null, failures];
      const opened = await open(options).catch(report);
      if (opened !== null) return [opened, failures];
    }
  }

  function report(error: unknown): null {
    options.onError(error);
    return null;
  }

  return {
    isUp: () => current !== null,
    async query(text, values) {
      if (current === null) throw new Error('the connection to Postgres is away');
      await current.ask(text, values);
    },
    async [Symbol.asyncDispose]() {
      closing.abort();
      if (current !== null) await end(current);
      await watching;
    },
  };
}

async function open(options: SteadyConnectionOptions): Promise<Opened> {
  const socket = new Socket();
  const { connectionString, settings } = splitSettings(options.connectionString);
  const client = new pg.Client({
    connectionString,
    application_name: options.applicationName,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    query_timeout: QUERY_TIMEOUT_MS,
    keepAlive: true,
    stream: () => socket,
  });
  client.on('error', options.onError);
  client.on('notification', ({ payload = '' }) => {
    // An error here would be an uncaught exception, and leave the client's parser in the middle of a message.
    try {
      options.onNotification?.(payload);
    } catch (error) {
      options.onError(error);
    }
  });
  const { promise: ended, resolve } = Promise.withResolvers<void>();
  client.once('end', resolve);
  try {
    await client.connect();
    // A host's limit for idle sessions would end a connection that only listens: notifications do not count.
    await applySettings(client, { idle_session_timeout: '0', ...settings });
    await options.prepare?.(client);
    return { client, socket, ended, ask: inOrder(client) };
  } catch (error) {
    socket.destroy();
    throw error;
  }
}

function inOrder(client: pg.Client): Opened['ask'] {
  let before: Promise<unknown> = Promise.resolve();
  return async (text, values = []) => {
    const querying = before.then(() => client.query(text, [...values]));
    before = querying.catch(() => undefined);
    await querying;
  };
}

async function livesUntilItEnds({ ask, socket, ended }: Opened, pingIntervalMs: number): Promise<void> {
  let isAsking = false;
  const ping = setInterval(async () => {
    if (isAsking) return;
    isAsking = true;
    await ask('select 1').catch(() => socket.destroy());
    isAsking = false;
  }, pingIntervalMs).unref();
  await ended;
  clearInterval(ping);
}

async function end({ client, socket, ended }: Opened): Promise<void> {
  const cut = setTimeout(() => socket.destroy(), END_TIMEOUT_MS);
  await client.end().catch(() => socket.destroy());
  await ended;
  clearTimeout(cut);
}

async function pause(delayMs: number, signal: AbortSignal): Promise<void> {
  await delay(delayMs, undefined, { signal, ref: false }).catch(() => undefined);
}
