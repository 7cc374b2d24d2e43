import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { FetchLike, Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { ErrorCode } from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';
import { BatonError } from '../../domain/errors.ts';
import { patientFetch } from '../../platform/patient-fetch.ts';

/** The SDK's transport, and the request that ends the session on the server. */
export type HttpTransport = Readonly<{ transport: Transport; terminate: () => Promise<void> }>;

/**
 * Talks to a server over streamable HTTP. If the stream of an answer breaks and cannot be resumed, the SDK would wait
 * until the call's timeout; here the call fails at once.
 * @param maxAnswerBytes of one answer with all events before it
 */
export function createHttpTransport(
  url: URL,
  headers: Readonly<Record<string, string>>,
  maxAnswerBytes: number,
): HttpTransport {
  const onBroken = (id: string | number): void => {
    const error = { code: ErrorCode.ConnectionClosed, message: 'the answer broke off' };
    transport.onmessage?.({ jsonrpc: '2.0', id, error });
  };
  const transport = new StreamableHTTPClientTransport(url, {
    requestInit: { headers },
    // The headers are credentials: another origin must not get them.
    redirectPolicy: 'same-origin',
    fetch: watchedFetch(maxAnswerBytes, onBroken),
  });
  // The SDK's type of the session id differs by an `undefined` from the interface that it implements.
  return { transport: transport as Transport, terminate: () => transport.terminateSession() };
}

const requestSchema = z.object({ id: z.union([z.string(), z.number()]), method: z.string() });

function watchedFetch(maxBytes: number, onBroken: (id: string | number) => void): FetchLike {
  return async (url, init) => {
    const response = await patientFetch(url, init);
    const id = init?.method === 'POST' && typeof init.body === 'string' ? idOf(init.body) : null;
    if (id === null || !response.ok || response.body === null) return response;
    const isStream = response.headers.get('content-type')?.startsWith('text/event-stream') === true;
    const onEnd = (isResumable: boolean): void => {
      // If the answer has already come, the SDK ignores this error as one of an unknown id.
      if (isStream && !isResumable) onBroken(id);
    };
    const { status, statusText, headers } = response;
    return new Response(watchedBody(response.body, maxBytes, onEnd), { status, statusText, headers });
  };
}

function idOf(body: string): string | number | null {
  const parsed = requestSchema.safeParse(JSON.parse(body));
  return parsed.success ? parsed.data.id : null;
}

/** Events with ids can be resumed: the SDK does so, and gives up by itself. */
const EVENT_ID = /^id:/m;

function watchedBody(
  body: ReadableStream<Uint8Array>,
  maxBytes: number,
  onEnd: (isResumable: boolean) => void,
): ReadableStream<Uint8Array> {
  async function* watched(): AsyncGenerator<Uint8Array, void, undefined> {
    let bytes = 0;
    let isResumable = false;
    try {
      for await (const chunk of body) {
        bytes += chunk.byteLength;
        if (bytes > maxBytes) throw new BatonError('payload_too_large', `the answer is larger than ${maxBytes} bytes`);
        isResumable ||= EVENT_ID.test(Buffer.from(chunk).toString('latin1'));
        yield chunk;
      }
    } finally {
      // After the reader has received the last bytes.
      setImmediate(() => onEnd(isResumable && bytes <= maxBytes));
    }
  }
  return ReadableStream.from(watched());
}
