import { setImmediate as nextRound } from 'node:timers/promises';
import type { Context, MiddlewareHandler } from 'hono';
import { ProblemError } from '../bodies/problem.ts';
import { mayHoldSchemas, parseWithSchemas } from '../bodies/schemas-in-bodies.ts';
import type { HttpEnv } from '../http-env.ts';
import { isJsonType } from './bounded-body.ts';

/** Larger bodies give other requests a round of the event loop before and between parsing and validation. */
const LARGE_BODY_CHARS = 65_536;

/** Bytes that are decoded in one round of the event loop. */
const PIECE_BYTES = 1_048_576;

/**
 * Decodes the text of the body that was read, for the validators. It comes after the request's wait for its slot, so
 * that bodies which wait are no strings on the heap.
 * @throws ProblemError `invalid_request` when it is not UTF-8
 */
export const decodedBody: MiddlewareHandler<HttpEnv> = async (c, next) => {
  const read = c.get('body');
  if (read === undefined || read.form === 'bytes') return next();
  const contentType = c.req.header('content-type');
  const text = await decodeText(read.take());
  // An empty body with a content type means "no fields", so that the validators name the missing ones.
  const body = text === '' && contentType !== undefined ? '{}' : text;
  // Hono's cache holds promises, although its type says strings.
  Object.assign(c.req.bodyCache, { text: Promise.resolve(body) });
  if (!isJsonType(contentType)) return next();
  if (body.length > LARGE_BODY_CHARS) await parseApart(c, body);
  else if (mayHoldSchemas(body)) takeParsed(c, parseJson(body));
  return next();
};

/** A text in UTF-8, without a byte order mark. @throws ProblemError `invalid_request` */
export async function decodeText(bytes: Buffer): Promise<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  if (bytes.length <= PIECE_BYTES) return decode(decoder, bytes);
  let text = '';
  for (let start = 0; start < bytes.length; start += PIECE_BYTES) {
    const end = start + PIECE_BYTES;
    text += decode(decoder, bytes.subarray(start, end), end < bytes.length);
    await nextRound();
  }
  return text;
}

function decode(decoder: InstanceType<typeof TextDecoder>, bytes: Uint8Array, stream = false): string {
  try {
    return decoder.decode(bytes, { stream });
  } catch (cause) {
    throw new ProblemError('invalid_request', 'The body is not valid UTF-8', { cause });
  }
}

/** Parses a large body in a round of the event loop of its own, before the round that validates it. */
async function parseApart(c: Context<HttpEnv>, body: string): Promise<void> {
  await nextRound();
  const value = parseJson(body);
  if (value === undefined) return;
  takeParsed(c, value);
  c.set('largeBody', value);
  await nextRound();
}

/** The validator refuses invalid JSON, which has no value here. */
function takeParsed(c: Context<HttpEnv>, value: unknown): void {
  if (value !== undefined) Object.assign(c.req, { json: async () => value });
}

function parseJson(text: string): unknown {
  try {
    return parseWithSchemas(text);
  } catch {
    return undefined;
  }
}
