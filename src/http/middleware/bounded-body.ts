import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Context, MiddlewareHandler } from 'hono';
import { createJsonGauge, type JsonExcess } from '../../domain/json-bounds.ts';
import {
  MAX_BLOB_BYTES,
  MAX_BODY_BYTES,
  MAX_CONTENT_BODY_BYTES,
  MAX_JSON_DEPTH,
  MAX_JSON_VALUES,
} from '../../domain/tunables.ts';
import { ProblemError } from '../bodies/problem.ts';
import { FORM_BYTES } from '../bodies/upload.ts';
import type { HttpEnv } from '../http-env.ts';

/** Path of uploads: bytes as they are, or a form. */
const BLOBS_PATH = '/v1/blobs';
/** Paths whose bodies may hold files as base64. */
const CONTENT_PATHS =
  /^\/(?:v1\/sessions\/[^/]+\/(?:messages|queue\/[^/]+)|v1\/runs\/[^/]+\/tool-calls\/[^/]+|v1\/chat\/completions|v1\/responses|api\/chat|mcp)$/;

/** Larger bodies give other requests a turn of the event loop before and between parsing and validation. */
const LARGE_BODY_CHARS = 65_536;

/**
 * Reads the body before any route, up to the limit of its path, whatever `content-length` says. JSON is gauged as it
 * arrives: a body with too many values is refused before it is parsed.
 * @throws ProblemError `payload_too_large`; `invalid_request` when it is not UTF-8 or has too many levels
 */
export const boundedBody: MiddlewareHandler<HttpEnv> = async (c, next) => {
  if (c.req.method === 'GET' || c.req.method === 'HEAD') return next();
  const maxBytes = maxBytesOf(c.req.path);
  if (Number(c.req.header('content-length') ?? 0) > maxBytes) throw tooLarge(maxBytes);
  const chunks = readBounded(c.req.raw.body, maxBytes);
  // Hono's cache holds promises, although its type says strings.
  if (c.req.path === BLOBS_PATH) {
    const bytes = Buffer.concat(await Array.fromAsync(chunks));
    Object.assign(c.req.bodyCache, { arrayBuffer: Promise.resolve(bytes) });
    return next();
  }
  const contentType = c.req.header('content-type');
  const isJson = /json/i.test(contentType ?? '');
  const text = await readText(isJson ? gauged(chunks) : chunks);
  // An empty body with a content type means "no fields", so that the validators name the missing ones.
  const body = text === '' && contentType !== undefined ? '{}' : text;
  Object.assign(c.req.bodyCache, { text: Promise.resolve(body) });
  if (isJson && body.length > LARGE_BODY_CHARS) await parseApart(c, body);
  return next();
};

/** Parses a large body in a turn of the event loop of its own, before the turn that validates it. */
async function parseApart(c: Context<HttpEnv>, body: string): Promise<void> {
  await nextTurn();
  const value = parseJson(body);
  // The validator refuses invalid JSON.
  if (value === undefined) return;
  Object.assign(c.req, { json: async () => value });
  c.set('largeBody', value);
  await nextTurn();
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function maxBytesOf(path: string): number {
  if (path === BLOBS_PATH) return MAX_BLOB_BYTES + FORM_BYTES;
  return CONTENT_PATHS.test(path) ? MAX_CONTENT_BODY_BYTES : MAX_BODY_BYTES;
}

async function* readBounded(stream: ReadableStream<Uint8Array> | null, maxBytes: number): AsyncGenerator<Uint8Array> {
  let size = 0;
  // Not cancelled on the way out: that would cut the connection before the answer is sent.
  for await (const chunk of stream?.values({ preventCancel: true }) ?? []) {
    size += chunk.byteLength;
    if (size > maxBytes) throw tooLarge(maxBytes);
    yield chunk;
  }
}

async function* gauged(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const gauge = createJsonGauge();
  let excess: JsonExcess | null = null;
  for await (const chunk of chunks) {
    excess ??= gauge.take(chunk);
    if (excess === null) yield chunk;
  }
  // Thrown after the last chunk: most clients read no answer while they send.
  if (excess !== null) throw tooMuch(excess);
}

/** Decodes chunk by chunk, because decoding the whole at the end would block the event loop. */
async function readText(chunks: AsyncIterable<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  let text = '';
  for await (const chunk of chunks) text += decode(decoder, chunk);
  return text + decode(decoder);
}

function decode(decoder: InstanceType<typeof TextDecoder>, chunk?: Uint8Array): string {
  try {
    return decoder.decode(chunk, { stream: chunk !== undefined });
  } catch (cause) {
    throw new ProblemError('invalid_request', 'The body is not valid UTF-8', { cause });
  }
}

function tooLarge(maxBytes: number): ProblemError {
  // No `connection: close`: Node would cut the connection along with the answer. Without it Node reads on for a moment,
  // so that a client that still writes can read its answer, and cuts then.
  return new ProblemError('payload_too_large', `The body is larger than ${maxBytes} bytes`);
}

function tooMuch(excess: JsonExcess): ProblemError {
  if (excess === 'levels') {
    return new ProblemError('invalid_request', `The body has a value that is more than ${MAX_JSON_DEPTH} levels deep`);
  }
  const detail = `The body has more than ${MAX_JSON_VALUES} JSON values: send less at once, or as a text or a file`;
  return new ProblemError('payload_too_large', detail);
}
