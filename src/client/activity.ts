import { BatonError } from './baton-error.ts';
import type { Activity } from './console.ts';
import { isWorthRetrying, pause, retryDelayMs } from './retry.ts';
import { createSseReader, type SseFrame } from './sse-frames.ts';
import { type Transport, unreachable } from './transport.ts';

/** A server sends a heartbeat every 10 s, so one that is silent for this long is gone, even if TCP does not notice. */
const MAX_SILENCE_MS = 30_000;

/**
 * Follows which sessions and runs change. A connection that breaks is replaced for as long as it takes, and begins with
 * `overflow`. Only the first one is given up after `retries`.
 * @throws BatonError when the server refuses. An abort of the signal throws nothing: it ends the iteration
 */
export async function* streamActivity(
  transport: Transport,
  signal: AbortSignal | undefined,
  retries: number,
): AsyncGenerator<Activity, void, undefined> {
  let wasConnected = false;
  let failures = 0;
  while (signal?.aborted !== true) {
    try {
      for await (const change of readConnection(transport, signal)) {
        wasConnected = true;
        failures = 0;
        yield change;
      }
    } catch (error) {
      if (isAborted(signal)) return;
      if (!(error instanceof BatonError) || !isWorthRetrying(error, true)) throw error;
      if (!wasConnected && failures >= retries) throw error;
      failures += 1;
      await pause(retryDelayMs(failures, Math.random(), error.retryAfterMs), signal).catch(() => undefined);
    }
  }
}

// TypeScript narrows a property, but a signal may change during an await.
const isAborted = (signal: AbortSignal | undefined): boolean => signal?.aborted === true;

/** The changes of one connection. Throws when it ends or falls silent. */
async function* readConnection(
  transport: Transport,
  signal: AbortSignal | undefined,
): AsyncGenerator<Activity, never, undefined> {
  const connection = new AbortController();
  const both = signal === undefined ? connection.signal : AbortSignal.any([signal, connection.signal]);
  let timer = setTimeout(() => connection.abort(), MAX_SILENCE_MS);
  try {
    const init: RequestInit = { headers: { accept: 'text/event-stream' }, signal: both, cache: 'no-store' };
    const { body } = await transport.open('/v1/activity', init);
    if (body === null) throw unreachable('the stream has no body');
    const reader = body.getReader();
    const frames = createSseReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) throw unreachable('the stream ended');
      clearTimeout(timer);
      timer = setTimeout(() => connection.abort(), MAX_SILENCE_MS);
      for (const frame of frames.read(value)) yield* toActivity(transport, frame);
    }
  } catch (error) {
    throw error instanceof BatonError ? error : unreachable('the stream broke off', error);
  } finally {
    clearTimeout(timer);
    connection.abort();
  }
}

function toActivity(transport: Transport, { event, data }: SseFrame): readonly Activity[] {
  if (event === 'overflow') return [{ type: 'overflow' }];
  if (event !== 'activity') return [];
  return [{ type: 'activity', data: transport.decode(data) }];
}
