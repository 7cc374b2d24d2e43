import type { MiddlewareHandler } from 'hono';
import { MAX_BODY_BYTES } from '../domain/tunables.ts';
import type { HttpEnv } from './http-deps.ts';
import { ProblemError } from './problem.ts';

/**
 * Reads the body, at most `MAX_BODY_BYTES` of it whatever `content-length` says, before any route sees the request.
 * @throws ProblemError `payload_too_large`; `invalid_request` when it is not UTF-8
 */
export const boundedBody: MiddlewareHandler<HttpEnv> = async (c, next) => {
  if (c.req.method === 'GET' || c.req.method === 'HEAD') return next();
  if (Number(c.req.header('content-length') ?? 0) > MAX_BODY_BYTES) throw tooLarge();
  const text = decode(await readBounded(c.req.raw.body));
  // A client that names a type and sends nothing means "no fields": the validators then name the missing ones.
  const body = text === '' && c.req.header('content-type') !== undefined ? '{}' : text;
  // Hono's cache holds promises, although its type says strings.
  Object.assign(c.req.bodyCache, { text: Promise.resolve(body) });
  return next();
};

async function readBounded(stream: ReadableStream<Uint8Array> | null): Promise<Uint8Array> {
  if (stream === null) return new Uint8Array();
  const chunks: Uint8Array[] = [];
  let size = 0;
  // Not cancelled on the way out: that would cut the connection before the answer is on it.
  for await (const chunk of stream.values({ preventCancel: true })) {
    size += chunk.byteLength;
    if (size > MAX_BODY_BYTES) throw tooLarge();
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

function tooLarge(): ProblemError {
  return new ProblemError('payload_too_large', `The body is larger than ${MAX_BODY_BYTES} bytes`, {
    headers: { connection: 'close' },
  });
}
