import { errorIn, type WireError } from './error-event.ts';
import type { Mend } from './mend-stream.ts';
import { type Fields, isFields, readExactly } from './read-json.ts';

/** The events of Anthropic's protocol. Others may be added by a provider, and are to be skipped by its documentation. */
const EVENTS = new Set([
  'message_start',
  'content_block_start',
  'content_block_delta',
  'content_block_stop',
  'message_delta',
  'message_stop',
  'ping',
  'error',
]);

/** The blocks that other servers make. Those of Anthropic's own tools are left to the SDK. */
const DELTAS = new Set([
  'input_json_delta',
  'text_delta',
  'thinking_delta',
  'signature_delta',
  'citations_delta',
  'compaction_delta',
]);
const NEVER_READ = new Set(['server_note', 'container_upload']);

/**
 * Reads the events of Anthropic's Messages protocol as servers and gateways write them. Unknown events and deltas are
 * skipped, counts that are missing or of another form are 0, and texts that are null are empty.
 */
export function createMessagesMend(): Mend {
  let isOver = false;
  return {
    event(data) {
      const events = mendEvent(data);
      isOver ||= events.some((event) => event.includes('"type":"message_stop"') || event.includes('"type":"error"'));
      return events;
    },
    end: () => (isOver ? [] : [errorEvent({ message: 'the answer ended without message_stop' })]),
    whole: toEvents,
    error: errorEvent,
  };
}

function mendEvent(data: string): string[] {
  if (data.trim() === '[DONE]') return [];
  const event = readExactly(data);
  if (!isFields(event)) return [data];
  const error = errorIn(event);
  if (error !== null) return [errorEvent(error)];
  const { type, index } = event;
  if (typeof type !== 'string' || !EVENTS.has(type)) return typeof type === 'string' ? [] : [data];
  const placed = typeof index === 'string' && /^\d+$/.test(index) ? { ...event, index: Number(index) } : event;
  switch (type) {
    case 'message_start':
      return [JSON.stringify(mendStart(placed))];
    case 'content_block_start':
      return mendBlock(placed);
    case 'content_block_delta':
      return mendDelta(placed);
    case 'message_delta':
      return [JSON.stringify(mendEnd(placed))];
    default:
      return [JSON.stringify(placed)];
  }
}

const errorEvent = ({ message, type, code }: WireError): string =>
  JSON.stringify({ type: 'error', error: { type: type ?? 'api_error', message, ...(code !== undefined && { code }) } });

function mendStart(event: Fields): Fields {
  const message = isFields(event['message']) ? event['message'] : {};
  return { ...event, message: { ...message, usage: { input_tokens: 0, ...mendUsage(message['usage']) } } };
}

function mendBlock(event: Fields): string[] {
  const { content_block: block } = event;
  if (!isFields(block)) return [JSON.stringify(event)];
  if (NEVER_READ.has(String(block['type']))) return [];
  const texts = Object.fromEntries(
    ['text', 'thinking'].filter((name) => block['type'] === name).map((name) => [name, block[name] ?? '']),
  );
  const id = typeof block['id'] === 'number' ? { id: String(block['id']) } : {};
  const input = block['type'] === 'tool_use' && !isFields(block['input']) ? { input: {} } : {};
  const started = JSON.stringify({ ...event, content_block: { ...block, ...texts, ...id, ...input } });
  const { signature } = block;
  // A signature that comes with the start of a block would be lost.
  return block['type'] === 'thinking' && typeof signature === 'string' && signature !== ''
    ? [
        started,
        JSON.stringify({
          type: 'content_block_delta',
          index: event['index'],
          delta: { type: 'signature_delta', signature },
        }),
      ]
    : [started];
}

function mendDelta(event: Fields): string[] {
  const { delta } = event;
  if (!isFields(delta) || typeof delta['type'] !== 'string') return [JSON.stringify(event)];
  if (!DELTAS.has(delta['type'])) return [];
  const { partial_json: piece } = delta;
  const json = typeof piece === 'object' && piece !== null ? { partial_json: JSON.stringify(piece) } : {};
  return [JSON.stringify({ ...event, delta: { ...delta, ...json } })];
}

function mendEnd(event: Fields): Fields {
  const delta = isFields(event['delta']) ? event['delta'] : {};
  const { stop_reason: reason } = delta;
  const word = typeof reason === 'string' && reason.trim() !== '' ? reason : null;
  return { ...event, delta: { ...delta, stop_reason: word }, usage: mendUsage(event['usage']) };
}

const COUNTS = ['input_tokens', 'output_tokens', 'cache_creation_input_tokens', 'cache_read_input_tokens'];

/** The SDK needs the two counts, also where a gateway leaves them out. */
function mendUsage(usage: unknown): Fields {
  const billed = isFields(usage) ? usage : {};
  const counts = COUNTS.flatMap((name): [string, number][] => {
    const value = typeof billed[name] === 'string' ? Number(billed[name]) : billed[name];
    return typeof value === 'number' && Number.isFinite(value) ? [[name, value]] : [];
  });
  const { cache_creation: _, ...rest } = billed;
  const others = Object.entries(rest).filter(([name]) => !COUNTS.includes(name));
  return { output_tokens: 0, ...Object.fromEntries(others), ...Object.fromEntries(counts) };
}

/** A whole message in place of a stream, as the events that it would have been. Null: it is none. */
function toEvents(whole: Fields): string[] | null {
  const { content, stop_reason, stop_sequence, usage, ...rest } = whole;
  if (!Array.isArray(content)) return null;
  const events: Fields[] = [{ type: 'message_start', message: { ...rest, content: [], stop_reason: null, usage } }];
  for (const [index, block] of content.entries()) if (isFields(block)) events.push(...blockEvents(block, index));
  events.push({ type: 'message_delta', delta: { stop_reason, stop_sequence }, usage }, { type: 'message_stop' });
  return events.map((event) => JSON.stringify(event));
}

function blockEvents(block: Fields, index: number): Fields[] {
  const delta = (fields: Fields): Fields => ({ type: 'content_block_delta', index, delta: fields });
  const start = (content_block: Fields): Fields => ({ type: 'content_block_start', index, content_block });
  const stop = { type: 'content_block_stop', index };
  switch (block['type']) {
    case 'text':
      return [start({ ...block, text: '' }), delta({ type: 'text_delta', text: block['text'] }), stop];
    case 'thinking':
      return [
        start({ ...block, thinking: '' }),
        delta({ type: 'thinking_delta', thinking: block['thinking'] ?? '' }),
        stop,
      ];
    case 'tool_use':
      return [
        start({ ...block, input: {} }),
        delta({ type: 'input_json_delta', partial_json: JSON.stringify(block['input'] ?? {}) }),
        stop,
      ];
    default:
      return [start(block), stop];
  }
}
