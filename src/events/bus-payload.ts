import { z } from 'zod';
import { LIVE_SCHEMAS, type LiveEvent, withContent } from '../domain/run/events.ts';

/** News about a session: events are committed up to `seq`, or a preview. */
export type BusItem = Readonly<{ seq: number }> | Readonly<{ event: LiveEvent }>;

export type BusPayload =
  | Readonly<{ kind: 'session'; sessionId: string; items: readonly BusItem[] }>
  | Readonly<{ kind: 'cancel'; runId: string }>;

const liveEventSchema = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('llm:thinking'), data: LIVE_SCHEMAS['llm:thinking'] }),
  z.strictObject({ type: z.literal('llm:chunk'), data: LIVE_SCHEMAS['llm:chunk'] }),
  z.strictObject({ type: z.literal('llm:tool-input'), data: LIVE_SCHEMAS['llm:tool-input'] }),
]);
const itemSchema = z.union([
  z.strictObject({ seq: z.number().int().positive() }),
  z.strictObject({ event: liveEventSchema }),
]);
const payloadSchema = z.union([
  z.strictObject({ session: z.uuid(), items: z.array(z.unknown()) }),
  z.strictObject({ cancel: z.uuid() }),
]);

/** Parses a payload. Unknown payloads give null and unknown items are dropped: the sender may be newer. */
export function decodePayload(text: string): BusPayload | null {
  const payload = payloadSchema.safeParse(parseJson(text));
  if (!payload.success) return null;
  if ('cancel' in payload.data) return { kind: 'cancel', runId: payload.data.cancel };
  const items = payload.data.items.flatMap((item) => {
    const parsedItem = itemSchema.safeParse(item);
    return parsedItem.success ? [parsedItem.data] : [];
  });
  return { kind: 'session', sessionId: payload.data.session, items };
}

/**
 * The session of a payload, found without parsing it; null for other payloads. Over Postgres each process receives the
 * payloads of all sessions, most of which it has no reader for.
 */
export function sessionOf(text: string): string | null {
  return /^\{"session":"([^"]+)"/.exec(text)?.[1] ?? null;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

export function encodeCancel(runId: string): string {
  return JSON.stringify({ cancel: runId });
}

/**
 * Packs the items of one session into few payloads, in order. Text that is too long for one is split.
 * @param maxBytes of one payload in UTF-8; at least 1 000, so that every envelope fits
 */
export function encodeSession(sessionId: string, items: readonly BusItem[], maxBytes: number): string[] {
  const head = `{"session":${JSON.stringify(sessionId)},"items":[`;
  const tail = ']}';
  const room = maxBytes - head.length - tail.length;
  const payloads: string[] = [];
  let packed: string[] = [];
  let used = 0;
  const close = (): void => {
    if (packed.length > 0) payloads.push(head + packed.join(',') + tail);
    packed = [];
    used = 0;
  };
  for (const text of items.flatMap((item) => encodeItem(item, room))) {
    const size = Buffer.byteLength(text) + 1;
    if (used + size > room) close();
    packed.push(text);
    used += size;
  }
  close();
  return payloads;
}

/** One item as JSON texts of less than `room` bytes. Empty if it is too large and has no text to split. */
function encodeItem(item: BusItem, room: number): string[] {
  const text = JSON.stringify(item);
  if (Buffer.byteLength(text) < room) return [text];
  if ('seq' in item || item.event.type === 'llm:thinking') return [];
  const { event } = item;
  const { content, offset } = event.data;
  const middle = splitPoint(content);
  if (middle === 0) return [];
  const first = withContent(event, offset, content.slice(0, middle));
  const second = withContent(event, offset + middle, content.slice(middle));
  return [...encodeItem({ event: first }, room), ...encodeItem({ event: second }, room)];
}

/** The middle of a text, not within a surrogate pair. 0: there is none. */
function splitPoint(text: string): number {
  const middle = text.length >> 1;
  const code = text.charCodeAt(middle);
  return code >= 0xdc00 && code <= 0xdfff ? middle - 1 : middle;
}
