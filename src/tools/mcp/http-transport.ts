import {
  type FetchLike,
  type JSONRPCMessage,
  StreamableHTTPClientTransport,
  type Transport,
} from '@modelcontextprotocol/client';
import { z } from 'zod';
import { BatonError } from '../../domain/errors.ts';
import { patientFetch } from '../../platform/patient-fetch.ts';
import { rewriteEvents } from './event-stream.ts';
import { BROKEN_OFF, readJson, type SentRequest, toSdkMessage, unreadable } from './incoming.ts';
import { HttpRefusal } from './refusal.ts';
import { createStreamPace } from './stream-pace.ts';

/** The SDK's transport, and the request that ends the session on the server. */
export type HttpTransport = Readonly<{ transport: Transport; terminate: () => Promise<void> }>;

/** Bytes of a refusal that are read for its words. */
const MAX_REFUSAL_BYTES = 64 * 1024;

/**
 * Talks to a server over streamable HTTP. Messages are read by `toSdkMessage` before the SDK sees them. If the stream of
 * an answer breaks and cannot be resumed, the SDK would wait until the call's timeout; here the call fails at once.
 * @param maxAnswerBytes of one answer with all events before it
 * @param roomOf what waits for room for the answer to the call of this key
 */
export function createHttpTransport(
  url: URL,
  headers: Readonly<Record<string, string>>,
  maxAnswerBytes: number,
  roomOf: RoomOf = () => undefined,
): HttpTransport {
  const answers = createHeldAnswers();
  const transport = new StreamableHTTPClientTransport(url, {
    requestInit: { headers },
    // The headers are credentials: another origin must not get them.
    redirectPolicy: 'same-origin',
    fetch: readingFetch({
      maxBytes: maxAnswerBytes,
      roomOf,
      toText: answers.hold,
      deliver: (message) => transport.onmessage?.(message as JSONRPCMessage),
    }),
  });
  // The SDK's client calls this before its own handler.
  transport.onmessage = answers.putBack;
  return { transport, terminate: () => transport.terminateSession() };
}

/** Waits for room for an answer of which so many bytes have arrived, and that may have most. */
export type CallRoom = (bytes: number, mostBytes: number) => Promise<void>;
export type RoomOf = (callKey: string) => CallRoom | undefined;

type Reading = Readonly<{
  maxBytes: number;
  roomOf: RoomOf;
  /** The text that the SDK parses. */
  toText: (message: unknown) => string;
  /** Passes a message that no server has sent to the SDK. */
  deliver: (message: object) => void;
}>;

const PROTOCOL_VERSION = 'io.modelcontextprotocol/protocolVersion';
const CALL_KEY = 'baton/callKey';
const metaSchema = z.object({ [PROTOCOL_VERSION]: z.string().optional(), [CALL_KEY]: z.string().optional() });
const requestSchema = z.object({
  id: z.union([z.string(), z.number()]),
  method: z.string(),
  params: z.object({ _meta: metaSchema.optional() }).optional(),
});

function readingFetch(reading: Reading): FetchLike {
  const pace = createStreamPace();
  return async (url, init) => {
    if (init?.method === 'GET') await pace(new Headers(init.headers).has('last-event-id'), init.signal ?? undefined);
    const response = await patientFetch(url, init);
    const isPost = init?.method === 'POST';
    const request = isPost && typeof init.body === 'string' ? requestOf(init.body) : null;
    if (isPost && response.status >= 400) return refused(response, request, reading);
    const isStream = /^text\/event-stream/i.test(response.headers.get('content-type') ?? '');
    if (!response.ok || response.status === 202 || (request === null && !isStream)) return response;
    const { status, statusText, headers } = response;
    if (isStream && response.body !== null) {
      const events = readStream(response.body, request, reading);
      return new Response(ReadableStream.from(events), { status, statusText, headers });
    }
    const text = await readJsonAnswer(response, request, reading);
    const session = headers.get('mcp-session-id');
    const kept = { 'content-type': 'application/json', ...(session !== null && { 'mcp-session-id': session }) };
    return new Response(text, { status: 200, headers: kept });
  };
}

/** The answer of a server of 2026-07-28 that sends a status with its error. @throws HttpRefusal for any other refusal */
async function refused(response: Response, request: Sent | null, { toText }: Reading): Promise<Response> {
  const refusal = new HttpRefusal(response, await beginningOf(response));
  const error = request?.isModern === true ? errorOf(refusal, request) : null;
  if (error === null) throw refusal;
  return new Response(toText(error), { headers: { 'content-type': 'application/json' } });
}

type Sent = SentRequest & Readonly<{ isModern: boolean; callKey: string | undefined }>;

function requestOf(body: string): Sent | null {
  const { data } = requestSchema.safeParse(JSON.parse(body));
  if (data === undefined) return null;
  const { id, method, params } = data;
  const meta = params?._meta;
  return { id, method, isModern: meta?.[PROTOCOL_VERSION] !== undefined, callKey: meta?.[CALL_KEY] };
}

const errorSchema = z.looseObject({
  id: z.union([z.string(), z.number()]),
  error: z.looseObject({ code: z.number() }),
});

/** The error of the protocol that a server of 2026-07-28 sends with its status; null: another one. */
function errorOf({ body }: HttpRefusal, request: SentRequest): unknown {
  const { data } = errorSchema.safeParse(readJson(body));
  return data === undefined || String(data.id) !== String(request.id) ? null : toSdkMessage(data, request);
}

async function beginningOf({ body }: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  try {
    for await (const chunk of body ?? []) {
      chunks.push(chunk);
      bytes += chunk.byteLength;
      if (bytes >= MAX_REFUSAL_BYTES) break;
    }
  } catch {
    // The status says enough.
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** The answer in one piece, whatever its content type says. */
async function readJsonAnswer(
  response: Response,
  request: Sent | null,
  { maxBytes, toText, roomOf }: Reading,
): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of bounded(response.body ?? ReadableStream.from([]), maxBytes, roomFor(request, roomOf)))
    chunks.push(chunk);
  const text = Buffer.concat(chunks).toString('utf8');
  const message = readJson(text);
  if (message === undefined) {
    const type = response.headers.get('content-type') ?? 'no content type';
    return JSON.stringify(request === null ? null : unreadable(request, text === '' ? '' : `(${type}) ${text}`));
  }
  const messages = Array.isArray(message) ? message : [message];
  return `[${messages.map((item) => toText(toSdkMessage(item, request))).join()}]`;
}

/** Events with ids can be resumed: the SDK does so, and gives up by itself. */
const EVENT_ID = /^id:/m;

async function* readStream(
  body: ReadableStream<Uint8Array>,
  request: Sent | null,
  { maxBytes, toText, deliver, roomOf }: Reading,
): AsyncGenerator<Uint8Array, void, undefined> {
  let isAnswered = false;
  let isResumable = false;
  let notRead: string | null = null;
  const rewrite = (data: string): string | null => {
    const message = readJson(data);
    if (message === undefined) {
      notRead = data;
      return null;
    }
    const converted = toSdkMessage(message, request);
    isAnswered ||= request !== null && idOf(converted) === request.id;
    return toText(converted);
  };
  /** After the reader has received the last bytes. */
  const end = (tooLarge: boolean): void => {
    if (request === null || isAnswered || (isResumable && !tooLarge && notRead === null)) return;
    const { id } = request;
    if (tooLarge) deliver(unreadable(request, `it is larger than ${maxBytes} bytes`));
    else if (notRead !== null) deliver(unreadable(request, notRead));
    else deliver({ jsonrpc: '2.0', id, error: { code: BROKEN_OFF, message: 'the answer broke off' } });
  };
  const room = roomFor(request, roomOf);
  let tooLarge = false;
  try {
    for await (const chunk of rewriteEvents(bounded(body, maxBytes, room), maxBytes, rewrite)) {
      isResumable ||= EVENT_ID.test(Buffer.from(chunk).toString('latin1'));
      yield chunk;
    }
  } catch (error) {
    tooLarge = error instanceof BatonError && error.code === 'payload_too_large';
    throw error;
  } finally {
    setImmediate(() => end(tooLarge));
  }
}

const answerIdSchema = z.object({ id: z.union([z.string(), z.number()]), method: z.undefined().optional() });
const idOf = (message: unknown) => answerIdSchema.safeParse(message).data?.id ?? null;

const roomFor = (request: Sent | null, roomOf: RoomOf): CallRoom | undefined =>
  request?.callKey === undefined ? undefined : roomOf(request.callKey);

async function* bounded(
  body: AsyncIterable<Uint8Array>,
  maxBytes: number,
  room: CallRoom | undefined,
): AsyncGenerator<Uint8Array, void, undefined> {
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.byteLength;
    if (bytes > maxBytes) throw new BatonError('payload_too_large', `the answer is larger than ${maxBytes} bytes`);
    await room?.(bytes, maxBytes);
    yield chunk;
  }
}

const heldSchema = z.object({ result: z.object({ answer: z.number() }) });

/**
 * The SDK reads messages from text by `JSON.parse`, which rounds numbers. So the text has the answer's number in its
 * place, and the message gets the answer back once it is read.
 */
function createHeldAnswers() {
  const held = new Map<number, unknown>();
  let next = 0;
  return {
    hold(message: unknown): string {
      if (!isAnswer(message)) return JSON.stringify(message) ?? 'null';
      held.set(++next, message.result.answer);
      return JSON.stringify({ ...message, result: { ...message.result, answer: next } });
    },
    putBack(message: JSONRPCMessage): void {
      const { data } = heldSchema.safeParse(message);
      const place = data?.result.answer;
      if (place === undefined || !('result' in message) || !held.has(place)) return;
      message.result['answer'] = held.get(place);
      held.delete(place);
    },
  };
}

function isAnswer(message: unknown): message is { result: { answer: unknown } } {
  return (
    typeof message === 'object' &&
    message !== null &&
    'result' in message &&
    typeof message.result === 'object' &&
    message.result !== null &&
    'answer' in message.result
  );
}
