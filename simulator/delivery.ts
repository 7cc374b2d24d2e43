import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { errorBody, type StreamFault } from './fault.ts';
import type { Frame, JsonObject } from './frames.ts';
import { type Gates, untilAborted } from './gates.ts';
import type { OpenRecord } from './journal.ts';
import { inProtocol, messagesError } from './protocol-error.ts';
import type { ReplyGates } from './reply.ts';
import type { Protocol, RequestOutcome } from './request.ts';

export type Delivery = Readonly<{
  protocol: Protocol;
  response: ServerResponse;
  record: OpenRecord;
  gates: Gates;
  replyGates: ReplyGates;
  fault: StreamFault | undefined;
  chunkDelayMs: number;
  /** Called when everything but the last write is sent and the client is still connected. */
  onDelivered: () => void;
  /** Aborts when the client disconnects or the simulator stops. */
  signal: AbortSignal;
}>;

type End = Exclude<RequestOutcome, 'in-progress'>;

const FLUSH_CHARS = 16_384;

/**
 * Streams a reply as server-sent events, through its gates, delays and fault.
 * @returns how it ended; rejects with the signal's reason when the client leaves.
 */
export async function streamReply(delivery: Delivery, frames: Iterable<Frame>): Promise<End> {
  const { response, record } = delivery;
  record.status = 200;
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
  const writer = createWriter(delivery);
  const checkpoint = createCheckpoint(delivery, writer);
  let closing = '';
  for (const frame of frames) {
    if (frame.kind === 'end') {
      closing += eventText(delivery.protocol, frame.event);
      continue;
    }
    if (frame.kind !== 'open') {
      const struck = await checkpoint(false);
      if (struck !== undefined) return struck;
    }
    if (frame.kind === 'chunk') {
      if (delivery.chunkDelayMs > 0) {
        await writer.flush();
        await delay(delivery.chunkDelayMs, undefined, { signal: delivery.signal });
      }
      record.chunksSent += 1;
    }
    await writer.push(eventText(delivery.protocol, frame.event));
  }
  const struck = await checkpoint(true);
  if (struck !== undefined) return struck;
  await writer.flush();
  await passGate(delivery, delivery.replyGates.beforeEnd);
  await finish(delivery, closing + (delivery.protocol === 'chat' ? 'data: [DONE]\n\n' : ''));
  return 'completed';
}

/** Sends a reply as one JSON body, after all its gates and delays. The faults of streams apply too. */
export async function sendReply(delivery: Delivery, body: JsonObject): Promise<End> {
  const { replyGates, fault } = delivery;
  for (const name of [replyGates.beforeFirstChunk, replyGates.afterChunks?.gate, replyGates.beforeEnd]) {
    await passGate(delivery, name);
  }
  if (fault?.kind === 'error-in-stream') {
    const body = errorBody(fault.message, 'server_error', fault.code);
    const refusal = inProtocol(delivery.protocol, { status: 500, headers: {}, body });
    sendJson(delivery.response, delivery.record, refusal.status, refusal.body);
    return 'failed';
  }
  if (fault !== undefined) return strike(delivery, fault);
  delivery.record.status = 200;
  delivery.response.writeHead(200, { 'content-type': 'application/json' });
  await finish(delivery, JSON.stringify(body));
  return 'completed';
}

export function sendJson(
  response: ServerResponse,
  record: OpenRecord | undefined,
  status: number,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): void {
  if (record !== undefined) record.status = status;
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(typeof body === 'string' ? body : JSON.stringify(body));
}

async function finish({ response, onDelivered, signal }: Delivery, text: string): Promise<void> {
  signal.throwIfAborted();
  // Before the last bytes leave: the client's next request may follow at once and must find the script advanced.
  onDelivered();
  response.end(text);
  if (!response.writableFinished) await once(response, 'finish', { signal });
}

async function passGate({ gates, signal }: Delivery, name: string | undefined): Promise<void> {
  if (name !== undefined) await gates.pass(name, signal);
}

/** Passes the gates and triggers the fault that are due after the chunks sent so far; `isLast`: all of them. */
function createCheckpoint(delivery: Delivery, writer: Writer): (isLast: boolean) => Promise<End | undefined> {
  const { fault, replyGates, record } = delivery;
  let first = replyGates.beforeFirstChunk;
  let middle = replyGates.afterChunks;
  return async (isLast) => {
    if (first !== undefined) {
      const name = first;
      first = undefined;
      await writer.flush();
      await passGate(delivery, name);
    }
    if (middle !== undefined && (isLast || record.chunksSent >= middle.count)) {
      const name = middle.gate;
      middle = undefined;
      await writer.flush();
      await passGate(delivery, name);
    }
    if (fault === undefined || (!isLast && record.chunksSent < fault.afterChunks)) return undefined;
    await writer.flush();
    return strike(delivery, fault);
  };
}

export async function strike(
  delivery: Pick<Delivery, 'protocol' | 'response' | 'record' | 'signal'>,
  fault: StreamFault,
): Promise<End> {
  const { response, record, signal } = delivery;
  switch (fault.kind) {
    case 'cut':
      response.destroy();
      return 'cut';
    case 'stall':
      record.outcome = 'stalled';
      await untilAborted(new Promise<never>(() => {}), signal);
      return 'stalled';
    case 'error-in-stream':
      response.end(errorEvents(delivery.protocol, fault, record.chunksSent));
      if (!response.writableFinished) await once(response, 'finish', { signal });
      return 'failed';
  }
}

function errorEvents(
  protocol: Protocol,
  fault: Extract<StreamFault, { kind: 'error-in-stream' }>,
  sequence: number,
): string {
  const { code, message } = fault;
  if (protocol === 'chat') return eventText(protocol, errorBody(message, 'server_error', code));
  if (protocol === 'messages') return eventText(protocol, messagesError(code, message));
  const event =
    fault.event === 'response.failed'
      ? { type: 'response.failed', sequence_number: sequence, response: { status: 'failed', error: { code, message } } }
      : { type: 'error', sequence_number: sequence, code, message, param: null };
  return eventText(protocol, event);
}

export function eventText(protocol: Protocol, event: JsonObject): string {
  const { type } = event;
  const data = `data: ${JSON.stringify(event)}\n\n`;
  return protocol !== 'chat' ? `event: ${String(type)}\n${data}` : data;
}

type Writer = Readonly<{ push: (text: string) => Promise<void>; flush: () => Promise<void> }>;

/** Buffers events into fewer writes. Flushed before every wait of the reply (gate, delay, fault). */
function createWriter({ response, signal }: Delivery): Writer {
  let buffered = '';
  const flush = async () => {
    signal.throwIfAborted();
    if (buffered === '') return;
    const text = buffered;
    buffered = '';
    if (!response.write(text)) await once(response, 'drain', { signal });
  };
  return {
    flush,
    push: async (text) => {
      buffered += text;
      if (buffered.length >= FLUSH_CHARS) await flush();
    },
  };
}
