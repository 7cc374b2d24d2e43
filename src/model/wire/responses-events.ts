import { LAST_EVENTS, toStream, wholeResponseSchema } from '../response-stream.ts';
import { errorIn, type WireError } from './error-event.ts';
import type { Mend } from './mend-stream.ts';
import { isFields, readJsonText } from './read-json.ts';

/** Reads the events of OpenAI's Responses protocol. Only errors and whole answers come in other forms. */
export function createResponsesMend(): Mend {
  let isOver = false;
  return {
    event(data) {
      const event = readJsonText(data);
      isOver ||= isFields(event) && LAST_EVENTS.has(String(event['type']));
      // The protocol's own events have a type.
      const error = isFields(event) && typeof event['type'] === 'string' ? null : errorIn(event);
      return error === null ? [data] : [errorEvent(error)];
    },
    end: () => (isOver ? [] : [errorEvent({ message: 'the answer ended without response.completed' })]),
    whole(body) {
      const { data } = wholeResponseSchema.safeParse(body);
      if (data === undefined) return null;
      return toStream(data)
        .split('\n')
        .filter((line) => line.startsWith('data: '))
        .map((line) => line.slice('data: '.length));
    },
    error: errorEvent,
  };
}

const errorEvent = ({ message, type, code }: WireError) =>
  JSON.stringify({
    type: 'error',
    sequence_number: 0,
    error: { type: type ?? 'api_error', code: code === undefined ? null : String(code), message, param: null },
  });
