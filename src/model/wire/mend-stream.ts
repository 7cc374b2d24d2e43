import { errorIn, type WireError } from './error-event.ts';
import { createEventTexts } from './event-texts.ts';
import { pieceRooms } from './piece-room.ts';
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

/** Most of a refusal that is read for its words. */
const MAX_REFUSAL_BYTES = 1_048_576;

/**
 * A response to a request for a stream, with its events in the protocol's own form. A whole answer or error as JSON
 * becomes a stream. Any other response stays as it is.
 */
export async function mendResponse(response: Response, mend: Mend): Promise<Response> {
  const { body, ok } = response;
  if (body === null) return response;
  const type = response.headers.get('content-type') ?? '';
  if (!ok || /\bhtml\b/i.test(type)) return answerOf(response, ReadableStream.from(beginningOf(body)), null);
  const pieces = body.pipeThrough(new TextDecoderStream());
  if (!/\bjson\b/i.test(type) || /\bndjson\b/i.test(type)) {
    return answerOf(response, encoded(mendEvents(pieces, mend)), type);
  }
  const text = await readAll(pieces);
  const events = wholeEvents(text, mend);
  const texts = events === null ? [text] : events.map(toEvent);
  return answerOf(response, encoded(texts), events && 'text/event-stream');
}

const encoded = (texts: Iterable<string> | AsyncIterable<string>): ReadableStream<Uint8Array> =>
  ReadableStream.from(texts).pipeThrough(new TextEncoderStream());

function answerOf(response: Response, stream: ReadableStream<Uint8Array>, type: string | null): Response {
  const { status, headers: received } = response;
  const headers = new Headers(received);
  // The body is decoded, and has another length.
  for (const name of ['content-length', 'content-encoding']) headers.delete(name);
  if (type !== null && type !== '') headers.set('content-type', type);
  const mended = new Response(stream, { status, statusText: response.statusText, headers });
  Object.defineProperty(mended, 'url', { value: response.url });
  return mended;
}

async function* beginningOf(body: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  for await (const piece of body) {
    bytes += piece.byteLength;
    yield piece;
    if (bytes >= MAX_REFUSAL_BYTES) return;
  }
}

async function readAll(pieces: ReadableStream<string>): Promise<string> {
  using room = pieceRooms.open();
  const held: string[] = [];
  let chars = 0;
  for await (const piece of pieces) {
    chars += piece.length;
    room.hold(chars);
    held.push(piece);
  }
  return held.join('');
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
  using room = pieceRooms.open();
  const texts = createEventTexts(room);
  for await (const piece of pieces) for (const text of texts.push(piece)) yield* mendEvent(text, mend);
  const rest = texts.rest();
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
