import { setTimeout as delay } from 'node:timers/promises';

type ReadEvent = Readonly<{ seq: number; type: string }>;

/** A client that follows a session. Whenever the stream ends, it goes on after the last event that came. */
export type Reader = Readonly<{ events: readonly ReadEvent[]; done: Promise<void> }>;

const RECONNECT_PAUSE_MS = 50;

/** Follows a session until the signal aborts. */
export function followSession(url: () => string, sessionId: string, signal: AbortSignal): Reader {
  const events: ReadEvent[] = [];
  const follow = async (): Promise<void> => {
    const after = events.at(-1)?.seq ?? 0;
    const response = await fetch(`${url()}/v1/sessions/${sessionId}/events?after=${after}`, { signal });
    if (!response.ok || response.body === null) return;
    let buffered = '';
    for await (const text of response.body.pipeThrough(new TextDecoderStream())) {
      buffered += text;
      const frames = buffered.split('\n\n');
      buffered = frames.pop() ?? '';
      for (const frame of frames) {
        const event = parseFrame(frame);
        if (event !== null) events.push(event);
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

/** A durable event. Null for a frame without an id: a snapshot, a preview or a heartbeat. */
function parseFrame(frame: string): ReadEvent | null {
  const field = (name: string): string | undefined =>
    frame
      .split('\n')
      .find((line) => line.startsWith(`${name}:`))
      ?.slice(name.length + 1)
      .trim();
  const id = field('id');
  const data = field('data');
  if (id === undefined || data === undefined) return null;
  const { type } = JSON.parse(data) as { type: string };
  return { seq: Number(id), type };
}
