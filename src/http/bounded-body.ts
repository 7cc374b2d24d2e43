import type { MiddlewareHandler } from 'hono';
import { MAX_BLOB_BYTES, MAX_BODY_BYTES, MAX_CONTENT_BODY_BYTES } from '../domain/tunables.ts';
import type { HttpEnv } from './http-deps.ts';
import { ProblemError } from './problem.ts';

/** Where bytes come as they are; around them a form has its boundaries and headers. */
const BLOBS_PATH = '/v1/blobs';
const FORM_BYTES = 4_096;
/** Where a message, or what a call came to, may bring files as base64. */
const CONTENT_PATHS =
  /^\/(?:v1\/sessions\/[^/]+\/(?:messages|queue\/[^/]+)|v1\/runs\/[^/]+\/tool-calls\/[^/]+|v1\/chat\/completions|api\/chat)$/;

/**
 * Reads the body, at most as much as its path may take, whatever `content-length` says, before any route sees the
 * request.
 * @throws ProblemError `payload_too_large`; `invalid_request` when it is not UTF-8
 */
export const boundedBody: MiddlewareHandler<HttpEnv> = async (c, next) => {
  if (c.req.method === 'GET' || c.req.method === 'HEAD') return next();
  const maxBytes = maxBytesOf(c.req.path);
  if (Number(c.req.header('content-length') ?? 0) > maxBytes) throw tooLarge(maxBytes);
  const bytes = await readBounded(c.req.raw.body, maxBytes);
  // Hono's cache holds promises, although its type says strings.
  if (c.req.path === BLOBS_PATH) {
    Object.assign(c.req.bodyCache, { arrayBuffer: Promise.resolve(bytes) });
    return next();
  }
  const text = decode(bytes);
  // A client that names a type and sends nothing means "no fields": the validators then name the missing ones.
  const body = text === '' && c.req.header('content-type') !== undefined ? '{}' : text;
  Object.assign(c.req.bodyCache, { text: Promise.resolve(body) });
  return next();
};

function maxBytesOf(path: string): number {
  if (path === BLOBS_PATH) return MAX_BLOB_BYTES + FORM_BYTES;
  return CONTENT_PATHS.test(path) ? MAX_CONTENT_BODY_BYTES : MAX_BODY_BYTES;
}

async function readBounded(stream: ReadableStream<Uint8Array> | null, maxBytes: number): Promise<Uint8Array> {
  if (stream === null) return new Uint8Array();
  const chunks: Uint8Array[] = [];
  let size = 0;
  // Not cancelled on the way out: that would cut the connection before the answer is on it.
  for await (const chunk of stream.values({ preventCancel: true })) {
    size += chunk.byteLength;
    if (size > maxBytes) throw tooLarge(maxBytes);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function decode(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (cause) {
    throw new ProblemError('invalid_request', 'The body is not valid UTF-8', { cause });
  }
}

function tooLarge(maxBytes: number): ProblemError {
  // No `connection: close`: Node would cut the connection with the answer on it. Kept, it is read on for a moment, so
  // that a client that still writes gets to read its answer, and is cut then.
  return new ProblemError('payload_too_large', `The body is larger than ${maxBytes} bytes`);
}
