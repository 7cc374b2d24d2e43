import type { Completion } from './completion-writer.ts';
import {
  callItem,
  endedBody,
  openBody,
  type ResponseHead,
  textItem,
  textPart,
  toAnnotation,
} from './response-bodies.ts';
import type { ResponsePiece } from './response-pieces.ts';

/** Numbers of the events before the first text. */
const BEFORE_TEXT = 4;

type Event = Readonly<{ type: string }> & Readonly<Record<string, unknown>>;

/**
 * Turns the pieces of a response into OpenAI's events. A piece of text is numbered by its last character, so that every
 * replay of a response has the same numbers, however its text came in pieces.
 * https://platform.openai.com/docs/api-reference/responses-streaming
 * @param startingAfter leaves out everything up to the event with this number; -1: nothing
 */
export function createResponseFrames(
  head: ResponseHead,
  startingAfter = -1,
): (piece: ResponsePiece | 'begin') => string {
  const place = { item_id: textItem(head, '', [], 'in_progress').id, output_index: 0, content_index: 0 };
  let text = '';
  let nextNumber = 0;
  const event = ({ type, ...rest }: Event): string => {
    const number = nextNumber++;
    if (number <= startingAfter) return '';
    return `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: number, ...rest })}\n\n`;
  };
  const events = (all: readonly Event[]): string => all.map(event).join('');

  const begin = (): string => {
    const response = openBody(head, 'in_progress');
    return events([
      { type: 'response.created', response },
      { type: 'response.in_progress', response },
    ]);
  };
  const extend = (delta: string): string => {
    if (delta === '') return '';
    const beginning = text === '' ? events(beginText(head, place)) : '';
    const skippedChars = Math.max(0, startingAfter + 1 - BEFORE_TEXT - text.length);
    text += delta;
    nextNumber = BEFORE_TEXT + text.length - 1;
    const rest = { ...place, delta: delta.slice(skippedChars), logprobs: [] };
    return beginning + event({ type: 'response.output_text.delta', ...rest });
  };
  const end = (completion: Completion): string => {
    const response = endedBody(head, completion);
    const textEvents = text === '' ? [] : endText(head, place, text, completion.citations);
    const calls = completion.calls.flatMap((call, at) => callEvents(call, at + (text === '' ? 0 : 1)));
    return events([...textEvents, ...calls, { type: LAST_EVENT[response.status], response }]);
  };

  return (piece) => {
    if (piece === 'begin') return begin();
    switch (piece.kind) {
      case 'comment':
        return `: ${piece.comment}\n\n`;
      case 'text':
        return extend(piece.text);
      case 'waiting':
        return `: ${piece.message}\n\n`;
      case 'cut-off':
        // It has the number of the event before it, so that a reader who goes on from there misses nothing.
        nextNumber -= 1;
        return event({ type: 'error', ...piece.cutOff, param: null });
      case 'end':
        return end(piece.completion);
    }
  };
}

type TextPlace = Readonly<{ item_id: string; output_index: number; content_index: number }>;

const beginText = (head: ResponseHead, place: TextPlace): Event[] => [
  { type: 'response.output_item.added', output_index: 0, item: textItem(head, '', [], 'in_progress') },
  { type: 'response.content_part.added', ...place, part: textPart('', []) },
];

const endText = (head: ResponseHead, place: TextPlace, text: string, citations: Completion['citations']): Event[] => [
  ...citations.map((citation, index) => ({
    type: 'response.output_text.annotation.added',
    ...place,
    annotation_index: index,
    annotation: toAnnotation(citation),
  })),
  { type: 'response.output_text.done', ...place, text, logprobs: [] },
  { type: 'response.content_part.done', ...place, part: textPart(text, citations) },
  { type: 'response.output_item.done', output_index: 0, item: textItem(head, text, citations, 'completed') },
];

const LAST_EVENT = {
  completed: 'response.completed',
  incomplete: 'response.incomplete',
  failed: 'response.failed',
  // OpenAI has no event of its own for it. The status of the response says so.
  cancelled: 'response.failed',
} as const;

function callEvents(call: Completion['calls'][number], index: number): Event[] {
  const { id: itemId } = callItem(call, 'completed');
  const at = { item_id: itemId, output_index: index };
  return [
    { type: 'response.output_item.added', output_index: index, item: callItem(call, 'in_progress') },
    { type: 'response.function_call_arguments.delta', ...at, delta: call.args },
    { type: 'response.function_call_arguments.done', ...at, name: call.name, arguments: call.args },
    { type: 'response.output_item.done', output_index: index, item: callItem(call, 'completed') },
  ];
}
