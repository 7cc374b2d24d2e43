import pg from 'pg';
import { BatonError } from '../domain/errors.ts';
import { AsyncDisposableStack } from '../platform/disposable-stacks.ts';
import { openSteadyConnection } from '../platform/steady-connection.ts';
import { createBusListeners } from './bus-listeners.ts';
import { createBusOutbox } from './bus-outbox.ts';
import type { LiveBus, SessionListener } from './live-bus.ts';

/** Postgres refuses payloads of 8 000 bytes and more (https://www.postgresql.org/docs/current/sql-notify.html). */
const MAX_PAYLOAD_BYTES = 7_000;

/** Postgres cuts longer identifiers, so two of them could become one. */
const MAX_CHANNEL_BYTES = 63;

export type PostgresBusOptions = Readonly<{
  /** A direct connection: a pooler in transaction mode loses LISTEN. */
  connectionString: string;
  /** Part of the channel's name, because a database shares its channels. */
  prefix?: string;
  /** Called for lost connections and refused messages. The bus goes on. */
  onError?: (error: unknown) => void;
}>;

/**
 * The live bus over LISTEN/NOTIFY, with one connection for each. It notifies in batches outside of transactions,
 * because NOTIFY takes a database-wide lock until the commit.
 * @throws BatonError `config_invalid` for a prefix that is too long; the error of the first connection
 */
export async function createPostgresBus(options: PostgresBusOptions): Promise<LiveBus> {
  const onError = options.onError ?? (() => undefined);
  const channel = `${options.prefix ?? 'baton'}:live`;
  if (Buffer.byteLength(channel) > MAX_CHANNEL_BYTES) {
    throw new BatonError('config_invalid', `the prefix of the live bus is longer than ${MAX_CHANNEL_BYTES - 5} bytes`);
  }
  const listeners = createBusListeners(onError);
  await using stack = new AsyncDisposableStack();
  stack.use(
    await openSteadyConnection({
      connectionString: options.connectionString,
      applicationName: 'baton-live-listen',
      prepare: (client) => client.query(`listen ${pg.escapeIdentifier(channel)}`),
      onNotification: listeners.deliver,
      onUpAgain: listeners.reconnected,
      onError,
    }),
  );
  const notifier = stack.use(
    await openSteadyConnection({
      connectionString: options.connectionString,
      applicationName: 'baton-live-notify',
      onUpAgain: () => outbox.wake(),
      onError,
    }),
  );
  const outbox = stack.use(
    createBusOutbox(
      {
        isUp: notifier.isUp,
        maxPayloadBytes: MAX_PAYLOAD_BYTES,
        send: (batch) =>
          notifier.query('select pg_notify($1, payload) from unnest($2::text[]) as batch (payload)', [
            channel,
            batch.map(({ payload }) => payload),
          ]),
      },
      onError,
    ),
  );
  const resources = stack.move();
  return {
    announce: outbox.announce,
    preview: outbox.preview,
    requestCancel: outbox.requestCancel,
    flush: outbox.flush,
    async onSession(sessionId, listener) {
      const own: SessionListener = { ...listener };
      listeners.addSession(sessionId, own);
      return { [Symbol.dispose]: () => void listeners.removeSession(sessionId, own) };
    },
    onCancel: async (listener) => listeners.addCancel(listener),
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}
