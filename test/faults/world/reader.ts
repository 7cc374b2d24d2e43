import { setTimeout as delay } from 'node:timers/promises';

type ReadEvent = Readonly<{ seq: number; type: string; createdAt: string; id: string }>;

/**
 * A client that follows a session. Whenever the stream ends, it goes on after the last event that came. It forgets its
 * events when it is told that they are void.
 */
export type Reader = Readonly<{ events: readonly ReadEvent[]; done: Promise<void> }>;

type Envelope = Readonly<{ type: string; createdAt?: string; data: Readonly<{ reset?: boolean }> }>;

const RECONNECT_PAUSE_MS = 50;

/** Follows a session until the signal aborts. */
export function followSession(url: () => string, sessionId: string, signal: AbortSignal): Reader {
  const events: ReadEvent[] = [];
  const follow = async (): Promise<void> => {
    const last = events.at(-1);
    const headers = last === undefined ? {} : { 'last-event-id': last.id };
    const response = await fetch(`${url()}/v1/sessions/${sessionId}/events?after=0`, { signal, headers });
    if (!response.ok || response.body === null) return;
    let buffered = '';
    for await (const text of response.body.pipeThrough(new TextDecoderStream())) {
      buffered += text;
      const frames = buffered.split('\n\n');
      buffered = frames.pop() ?? '';
      for (const frame of frames) {
        const item = parseFrame(frame);
        if (item === 'reset') events.length = 0;
        else if (item !== null) events.push(item);
      }
    }
  };
  const done = (async () => {
    while (!signal.aborted) {
      await follow().catch(() => undefined);
      await delay(RECONNECT_PAUSE_MS, undefined, { signal }).catch(() => undefined);
    }
  })();
  return { events, done };
}

/** A durable event, or a snapshot that replaces all. Null for another snapshot, a preview or a heartbeat. */
function parseFrame(frame: string): ReadEvent | 'reset' | null {
  const field = (name: string): string | undefined =>
    frame
      .split('\n')
      .find((line) => line.startsWith(`${name}:`))
      ?.slice(name.length + 1)
      .trim();
  const id = field('id');
  const data = field('data');
  if (data === undefined) return null;
  const { type, createdAt = '', data: content } = JSON.parse(data) as Envelope;
  if (id !== undefined) return { seq: Number.parseInt(id, 10), type, createdAt, id };
  return type === 'session:snapshot' && content.reset === true ? 'reset' : null;
}
