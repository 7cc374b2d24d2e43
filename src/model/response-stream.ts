import { z } from 'zod';
import { createEventTexts } from './wire/event-texts.ts';
import { pieceRooms } from './wire/piece-room.ts';

/** An event of a Responses stream, as it was sent. Null: it does not say. */
export type StreamedEvent = Readonly<{
  text: string;
  sequence: number | null;
  responseId: string | null;
  /** No event follows it. */
  isLast: boolean;
}>;

const eventSchema = z.looseObject({
  type: z.string(),
  sequence_number: z.number().optional(),
  response: z.looseObject({ id: z.string().optional() }).optional(),
});

/** The types of events that no other event follows. */
export const LAST_EVENTS: ReadonlySet<string> = new Set([
  'response.completed',
  'response.incomplete',
  'response.failed',
  'response.cancelled',
  'error',
]);

/** The events of a stream, each once it is whole. @throws RangeError if there is no room for one */
export async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<StreamedEvent> {
  using room = pieceRooms.open();
  const texts = createEventTexts(room);
  const decoder = new TextDecoder();
  for await (const bytes of body) {
    for (const text of texts.push(decoder.decode(bytes, { stream: true }))) yield toEvent(text);
  }
}

/** The text of an answer that came whole. @throws RangeError if there is no room for it */
export async function readText({ body }: Response): Promise<string> {
  using room = pieceRooms.open();
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  for await (const piece of body ?? []) {
    bytes += piece.byteLength;
    room.hold(bytes);
    pieces.push(piece);
  }
  return Buffer.concat(pieces).toString('utf8');
}

function toEvent(text: string): StreamedEvent {
  const line = text.split(/\r?\n/).find((each) => each.startsWith('data:'));
  const { data } = eventSchema.safeParse(parsed(line?.slice('data:'.length) ?? ''));
  return {
    text: `${text}\n\n`,
    sequence: data?.sequence_number ?? null,
    responseId: data?.response?.id ?? null,
    isLast: data !== undefined && LAST_EVENTS.has(data.type),
  };
}

export function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

const partSchema = z.looseObject({
  type: z.string(),
  text: z.string().optional(),
  refusal: z.string().optional(),
  annotations: z.array(z.unknown()).optional(),
});

const itemSchema = z.looseObject({
  type: z.string(),
  id: z.string().optional(),
  arguments: z.string().optional(),
  content: z.array(partSchema).nullish(),
  summary: z.array(partSchema).nullish(),
});
type Item = z.infer<typeof itemSchema>;

export const wholeResponseSchema = z.looseObject({
  id: z.string(),
  status: z.string(),
  output: z.array(itemSchema).nullish(),
});
export type WholeResponse = z.infer<typeof wholeResponseSchema>;

type Event = Readonly<{ type: string } & Record<string, unknown>>;

/** A response that is over, as the stream that it would have been. */
export function toStream(whole: WholeResponse): string {
  const events: Event[] = [{ type: 'response.created', response: { ...whole, status: 'in_progress', output: [] } }];
  for (const [index, item] of (whole.output ?? []).entries()) events.push(...itemEvents(item, index));
  events.push({ type: `response.${whole.status}`, response: whole });
  return events
    .map((event, no) => `event: ${event.type}\ndata: ${JSON.stringify({ ...event, sequence_number: no })}\n\n`)
    .join('');
}

function itemEvents(item: Item, index: number): Event[] {
  const at = { item_id: item.id ?? '', output_index: index };
  const opened = { ...item, ...(item.arguments !== undefined && { arguments: '' }) };
  return [
    { type: 'response.output_item.added', output_index: index, item: opened },
    ...contentEvents(item, at),
    { type: 'response.output_item.done', output_index: index, item },
  ];
}

function contentEvents(item: Item, at: Readonly<{ item_id: string; output_index: number }>): Event[] {
  if (item.type === 'function_call') {
    return [{ type: 'response.function_call_arguments.delta', ...at, delta: item.arguments ?? '' }];
  }
  if (item.type === 'reasoning') {
    return (item.summary ?? []).flatMap((part, no): Event[] => {
      const place = { ...at, summary_index: no };
      return [
        { type: 'response.reasoning_summary_part.added', ...place, part: { ...part, text: '' } },
        { type: 'response.reasoning_summary_text.delta', ...place, delta: part.text ?? '' },
        { type: 'response.reasoning_summary_part.done', ...place, part },
      ];
    });
  }
  if (item.type !== 'message') return [];
  return (item.content ?? []).flatMap((part, no): Event[] => {
    const place = { ...at, content_index: no };
    const partName = part.type === 'refusal' ? 'refusal' : 'output_text';
    const notes = (part.annotations ?? []).map((annotation, noteNo) => ({
      type: 'response.output_text.annotation.added',
      ...place,
      annotation_index: noteNo,
      annotation,
    }));
    return [{ type: `response.${partName}.delta`, ...place, delta: part.text ?? part.refusal ?? '' }, ...notes];
  });
}
