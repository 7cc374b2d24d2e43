import {
  type JSONRPCMessage,
  parseJSONRPCMessage,
  serializeMessage,
  type Transport,
} from '@modelcontextprotocol/client';
import { z } from 'zod';
import { BatonError } from '../../domain/errors.ts';
import { FREE_RESULT_BYTES } from '../../domain/tunables.ts';
import { createByteLines } from './byte-lines.ts';
import type { RoomOf } from './http-transport.ts';
import { readJson, type SentRequest, toSdkMessage, unheld } from './incoming.ts';
import { lineRooms } from './line-rooms.ts';
import { type ServerCommand, type ServerProcess, startServerProcess } from './supervised-server.ts';

const BEGINNINGS: ReadonlySet<string> = new Set(['initialize', 'server/discover']);

const callSchema = z.looseObject({
  id: z.union([z.string(), z.number()]),
  method: z.literal('tools/call'),
  params: z.looseObject({ _meta: z.looseObject({ 'baton/callKey': z.string(), 'baton/tenantId': z.string() }) }),
});

/** A call without an answer. */
type Sent = Readonly<{ callKey: string; tenantId: string }>;

/**
 * Talks to a server process that ends with this one; the SDK's own transport leaves it running after a `kill -9`.
 * @param roomOf what waits for room for the answer to the call of this key
 */
export function createStdioTransport(
  command: ServerCommand,
  maxMessageBytes: number,
  roomOf: RoomOf = () => undefined,
): Transport {
  const unfinished = lineRooms.open();
  const lines = createByteLines(maxMessageBytes, unfinished);
  const answers = createAnswerRooms(roomOf);
  let server: ServerProcess | null = null;
  let beginning: SentRequest | null = null;
  const transport: Transport & Readonly<{ pid: null; stderr: null }> = {
    // By these the SDK knows a transport over stdio: there, silence to its first question means an older revision.
    pid: null,
    stderr: null,
    async start() {
      const started = await startServerProcess(command);
      server = started;
      started.input.on('error', (error) => transport.onerror?.(error));
      started.output.on('data', (bytes: Buffer) => receive(bytes));
      void started.ended.then((exitCode) => {
        unfinished[Symbol.dispose]();
        if (exitCode !== null) transport.onerror?.(new BatonError('transport', `it ended with exit code ${exitCode}`));
        transport.onclose?.();
      });
    },
    async send(message: JSONRPCMessage) {
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      if (server === null || !server.input.writable) throw new BatonError('transport', 'the server has ended');
      if ('method' in message && 'id' in message && BEGINNINGS.has(message.method)) beginning = message;
      answers.sent(message);
      server.input.write(serializeMessage(message), (error) => (error ? reject(error) : resolve()));
      await promise;
    },
    async close() {
      await server?.stop();
    },
  };

  const onError = (error: unknown): void =>
    transport.onerror?.(error instanceof Error ? error : new Error(String(error)));
  function receive(bytes: Buffer): void {
    try {
      for (const line of lines.push(bytes)) receiveLine(line);
    } catch (error) {
      onError(error);
      void server?.stop();
    }
  }
  function receiveLine(line: string): void {
    const message = readJson(line);
    try {
      // Some servers print to stdout instead of stderr.
      if (typeof message !== 'object' || message === null) throw new Error(`not a message: ${line.slice(0, 200)}`);
      for (const item of Array.isArray(message) ? message : [message])
        void answers.receive(item, Buffer.byteLength(line), pass);
    } catch (error) {
      onError(error);
    }
  }
  function pass(item: Item): void {
    const request = beginning !== null && String(item?.id) === String(beginning.id) ? beginning : null;
    try {
      transport.onmessage?.(parseJSONRPCMessage(toSdkMessage(item, request)));
    } catch (error) {
      onError(error);
    }
  }
  return transport;
}

type Item = Readonly<{ id?: unknown }>;

/** Lets large answers to calls wait for their room, and all else through. */
function createAnswerRooms(roomOf: RoomOf) {
  const calls = new Map<string, Sent>();
  return {
    /** Remembers a call until it is answered or cancelled. */
    sent(message: JSONRPCMessage): void {
      const { data } = callSchema.safeParse(message);
      if (data !== undefined) {
        const { 'baton/callKey': callKey, 'baton/tenantId': tenantId } = data.params._meta;
        calls.set(String(data.id), { callKey, tenantId });
      }
      const isCancel = 'method' in message && message.method === 'notifications/cancelled';
      if (isCancel) calls.delete(String(message.params?.['requestId']));
    },
    async receive(item: Item, bytes: number, pass: (item: object) => void): Promise<void> {
      const id = String(item?.id);
      const call = calls.get(id);
      calls.delete(id);
      const room = call === undefined || bytes <= FREE_RESULT_BYTES ? undefined : roomOf(call.callKey);
      if (call === undefined || room === undefined) return pass(item);
      using waits = lineRooms.wait(call.tenantId, bytes);
      if (waits === null) return pass(unheld(item.id, bytes));
      // It rejects once the call is over, and then nobody wants the answer.
      const isTaken = await room(bytes, bytes).then(
        () => true,
        () => false,
      );
      if (isTaken) pass(item);
    },
  };
}
