import { errorIn, type WireError } from './error-event.ts';
import { type Fields, isFields, readJsonText } from './read-json.ts';

/** The reader of one answer in one protocol. */
export type Mend = Readonly<{
  /** The events that take the place of one event. Both are the text after `data:`. */
  event: (data: string) => readonly string[];
  /** The events of a whole answer in place of a stream. Null: it is no answer. */
  whole: (body: Fields) => readonly string[] | null;
  /** The events at the end of a stream: an error, if the protocol's own end has not come. */
  end: () => readonly string[];
  /** The event of an error. Default: `{"error": …}`. */
  error?: (error: WireError) => string;
}>;

/** Most of a whole answer that is read in place of a stream. */
const MAX_WHOLE_BYTES = 67_108_864;
/** Most of one event. A server that never ends one must not fill the memory. */
const MAX_EVENT_CHARS = 67_108_864;

/**
 * A response to a request for a stream, with its events in the protocol's own form. A whole answer or error as JSON
 * becomes a stream. Any other response stays as it is.
 */
export async function mendResponse(response: Response, mend: Mend): Promise<Response> {
  const { body, ok } = response;
  if (!ok || body === null) return response;
  const type = response.headers.get('content-type') ?? '';
  if (/\bhtml\b/i.test(type)) return response;
  const pieces = body.pipeThrough(new TextDecoderStream());
  if (!/\bjson\b/i.test(type) || /\bndjson\b/i.test(type)) {
    return answerOf(response, ReadableStream.from(mendEvents(pieces, mend)), type);
  }
  const text = await readAll(pieces);
  const events = wholeEvents(text, mend);
  return answerOf(
    response,
    ReadableStream.from(events === null ? [text] : events.map(toEvent)),
    events && 'text/event-stream',
  );
}

function answerOf(response: Response, stream: ReadableStream<string>, type: string | null): Response {
  const { status, headers: received } = response;
  const headers = new Headers(received);
  // The body is decoded, and has another length.
  for (const name of ['content-length', 'content-encoding']) headers.delete(name);
  if (type !== null && type !== '') headers.set('content-type', type);
  const mended = new Response(stream.pipeThrough(new TextEncoderStream()), { status, headers });
  Object.defineProperty(mended, 'url', { value: response.url });
  return mended;
}

async function readAll(pieces: ReadableStream<string>): Promise<string> {
  let text = '';
  for await (const piece of pieces) {
    text += piece;
    if (text.length > MAX_WHOLE_BYTES) throw new RangeError('the answer has more than 64 MiB');
  }
  return text;
}

function wholeEvents(text: string, { whole, event, error = ofError }: Mend): readonly string[] | null {
  const body = readJsonText(text);
  const providerError = errorIn(body);
  if (providerError !== null) return [error(providerError)];
  return (isFields(body) ? whole(body) : null)?.flatMap(event) ?? null;
}

const ofError = (error: WireError): string => JSON.stringify({ error });

const toEvent = (data: string): string => `data: ${data}\n\n`;

/** The events of a stream, each as soon as it is whole. Comments go along: they keep a connection alive. */
async function* mendEvents(pieces: ReadableStream<string>, mend: Mend): AsyncGenerator<string> {
  let rest = '';
  for await (const piece of pieces) {
    rest += piece;
    const texts = rest.split(/\r?\n\r?\n/);
    rest = texts.pop() ?? '';
    if (rest.length > MAX_EVENT_CHARS) throw new RangeError('an event of the answer has more than 64 MiB');
    for (const text of texts) yield* mendEvent(text, mend);
  }
  if (rest.trim() !== '') yield* mendEvent(rest, mend);
  yield* mend.end().map(toEvent);
}

function mendEvent(text: string, mend: Mend): readonly string[] {
  const lines = text.split(/\r?\n/).map((line) => (line.startsWith('\uFEFF') ? line.slice(1) : line));
  const data = lines
    .filter((line) => line.startsWith('data:'))
    .map((line) => line.slice('data:'.length).replace(/^ /, ''));
  if (data.length === 0) {
    // A server may answer with JSON and call it a stream.
    const events = /^\s*[{[]/.test(text) ? wholeEvents(text, mend) : null;
    return events === null ? [`${text}\n\n`] : events.map(toEvent);
  }
  const whole = data.join('\n');
  const mended = mend.event(whole);
  if (mended.length === 1 && mended[0] === whole) return [`${text}\n\n`];
  return mended.map(toEvent);
}
