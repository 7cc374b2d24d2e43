import { Redis } from 'ioredis';
import { AsyncDisposableStack } from '../platform/disposable-stacks.ts';
import { keptConnection } from '../platform/redis-connection.ts';
import type { RedisServer } from '../platform/redis-server.ts';
import { createBusListeners } from './bus-listeners.ts';
import { createBusOutbox, type Outgoing } from './bus-outbox.ts';
import type { LiveBus, SessionListener } from './live-bus.ts';

/** Bounded, so that one message does not delay the others of a connection. */
const MAX_PAYLOAD_BYTES = 65_536;

const COMMAND_TIMEOUT_MS = 5_000;

/** Detects half-open connections, which never report an error. */
const PING_INTERVAL_MS = 10_000;

export type RedisBusOptions = RedisServer &
  Readonly<{
    /** Prefix of all channel names. */
    prefix: string;
    /** Called for lost connections and refused messages. The bus goes on. */
    onError?: (error: unknown) => void;
  }>;

/**
 * The live bus over Redis pub/sub. One connection publishes; the other is subscribed to the cancel channel and a
 * channel for each session with listeners.
 * @throws the error of the first connection
 */
export async function createRedisBus(options: RedisBusOptions): Promise<LiveBus> {
  const onError = options.onError ?? (() => undefined);
  const cancelChannel = `${options.prefix}:cancel`;
  const channelOf = (sessionId: string): string => `${options.prefix}:live:${sessionId}`;
  const listeners = createBusListeners(onError);
  await using stack = new AsyncDisposableStack();
  const publisher = stack.use(await connect(options, onError));
  const subscriber = stack.use(await connect(options, onError));

  /** Does not wait for a lost connection: the next one subscribes to all channels. */
  async function subscribe(channels: readonly string[]): Promise<void> {
    await subscriber.redis.subscribe(...channels).catch(onError);
  }

  subscriber.redis.on('message', (_channel: string, payload: string) => listeners.deliver(payload));
  subscriber.redis.on('ready', () => {
    void subscribe([cancelChannel, ...listeners.sessionIds().map(channelOf)]).then(listeners.reconnected);
  });
  await subscriber.redis.subscribe(cancelChannel);

  const outbox = stack.use(
    createBusOutbox(
      {
        isUp: () => publisher.redis.status === 'ready',
        maxPayloadBytes: MAX_PAYLOAD_BYTES,
        send: (batch) => publish(publisher.redis, batch, (id) => (id === null ? cancelChannel : channelOf(id))),
      },
      onError,
    ),
  );
  publisher.redis.on('ready', outbox.wake);

  const subscribed = new Map<string, Promise<void>>();
  const resources = stack.move();
  return {
    announce: outbox.announce,
    preview: outbox.preview,
    requestCancel: outbox.requestCancel,
    flush: outbox.flush,
    async onSession(sessionId, listener) {
      const own: SessionListener = { ...listener };
      if (listeners.addSession(sessionId, own)) subscribed.set(sessionId, subscribe([channelOf(sessionId)]));
      await subscribed.get(sessionId);
      return {
        [Symbol.dispose]() {
          if (!listeners.removeSession(sessionId, own)) return;
          subscribed.delete(sessionId);
          // A lost connection returns subscribed only to sessions that still have listeners.
          if (subscriber.redis.status !== 'ready') return;
          subscriber.redis.unsubscribe(channelOf(sessionId)).catch(onError);
        },
      };
    },
    onCancel: async (listener) => listeners.addCancel(listener),
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}

type Connection = Disposable & Readonly<{ redis: Redis }>;

/** Fails fast and reconnects. It neither queues nor repeats commands, because the outbox keeps important items. */
async function connect({ url, via, prefix }: RedisBusOptions, onError: (error: unknown) => void): Promise<Connection> {
  const redis = new Redis(url, {
    ...via,
    ...keptConnection(COMMAND_TIMEOUT_MS),
    lazyConnect: true,
    connectionName: `${prefix}-live`,
    enableOfflineQueue: false,
    autoResubscribe: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    commandTimeout: COMMAND_TIMEOUT_MS,
    keepAlive: PING_INTERVAL_MS,
  });
  redis.on('error', onError);
  // ioredis reports no error if the server closes a connection in good order.
  redis.on('reconnecting', () => onError(new Error('the connection of the live bus to Redis was lost')));
  try {
    await redis.connect();
  } catch (error) {
    redis.disconnect();
    throw error;
  }
  const ping = setInterval(() => {
    if (redis.status === 'ready') redis.ping().catch(() => redis.disconnect(true));
  }, PING_INTERVAL_MS).unref();
  return {
    redis,
    [Symbol.dispose]() {
      clearInterval(ping);
      redis.disconnect();
    },
  };
}

async function publish(
  redis: Redis,
  batch: readonly Outgoing[],
  channelOf: (sessionId: string | null) => string,
): Promise<void> {
  const pipeline = redis.pipeline();
  for (const { sessionId, payload } of batch) pipeline.publish(channelOf(sessionId), payload);
  for (const [error] of (await pipeline.exec()) ?? []) if (error !== null) throw error;
}
