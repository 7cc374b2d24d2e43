import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { type Background, eventsAfter } from './background.ts';
import { type Delivery, eventText, sendJson, strike } from './delivery.ts';
import { errorBody } from './fault.ts';
import type { RequestOutcome } from './request.ts';
import type { SimulatorState } from './state.ts';

type Stream = Pick<Delivery, 'response' | 'signal'>;

/** The first stream of a response. A fault strikes this connection alone: the response goes on. */
export async function streamBackground(
  background: Background,
  { record, fault, ...stream }: Stream & Pick<Delivery, 'record' | 'fault'>,
): Promise<Exclude<RequestOutcome, 'in-progress'>> {
  record.status = 200;
  let chunks = 0;
  begin(stream);
  for await (const frame of eventsAfter(background, -1, stream.signal)) {
    const isDue = fault !== undefined && frame.kind !== 'open' && (frame.kind === 'end' || chunks >= fault.afterChunks);
    if (isDue && fault.kind !== 'error-in-stream') return strike({ ...stream, record, protocol: 'responses' }, fault);
    if (frame.kind === 'chunk') chunks += 1;
    await write(stream, eventText('responses', frame.event));
  }
  await end(stream);
  return background.record.status === 'failed' ? 'failed' : 'completed';
}

/** `GET /v1/responses/{id}`, also as a stream, and `POST /v1/responses/{id}/cancel`. Never rejects. */
export async function serveBackground(
  { backgrounds }: SimulatorState,
  request: IncomingMessage,
  response: ServerResponse,
  stopped: AbortSignal,
): Promise<void> {
  const { pathname, searchParams } = new URL(request.url ?? '/', 'http://simulator');
  const [, id = '', action] = /^\/v1\/responses\/([^/]+)(?:\/(\w+))?$/.exec(pathname) ?? [];
  const background = backgrounds.find(id);
  const isCancel = request.method === 'POST' && action === 'cancel';
  if (background === undefined || (!isCancel && (request.method !== 'GET' || action !== undefined))) {
    const body = errorBody(`Response with id '${id}' not found.`, 'invalid_request_error', null, 'id');
    return sendJson(response, undefined, 404, body);
  }
  if (isCancel) {
    background.cancel();
    return sendJson(response, undefined, 200, background.whole());
  }
  const { record } = background;
  if (searchParams.get('stream') !== 'true') {
    record.readWhole += 1;
    return sendJson(response, undefined, 200, background.whole());
  }
  if (!backgrounds.isStreamable(background)) {
    record.streamsRefused += 1;
    const message = `Response with id '${id}' can no longer be streamed because it is more than 5 minutes old.`;
    return sendJson(response, undefined, 400, errorBody(message, 'invalid_request_error', null, 'stream'));
  }
  record.streamedAgain += 1;
  const gone = new AbortController();
  response.once('close', () => gone.abort(new Error('The client disconnected.')));
  const stream = { response, signal: AbortSignal.any([gone.signal, stopped]) };
  try {
    begin(stream);
    const after = Number(searchParams.get('starting_after') ?? -1);
    for await (const { event } of eventsAfter(background, after, stream.signal)) {
      await write(stream, eventText('responses', event));
    }
    response.end();
  } catch {
    response.destroy();
  }
}

function begin({ response }: Stream): void {
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
  response.flushHeaders();
}

async function write({ response, signal }: Stream, text: string): Promise<void> {
  signal.throwIfAborted();
  if (!response.write(text)) await once(response, 'drain', { signal });
}

async function end({ response, signal }: Stream): Promise<void> {
  signal.throwIfAborted();
  response.end();
  if (!response.writableFinished) await once(response, 'finish', { signal });
}
