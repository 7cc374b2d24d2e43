import {
  type JSONRPCMessage,
  parseJSONRPCMessage,
  serializeMessage,
  type Transport,
} from '@modelcontextprotocol/client';
import { BatonError } from '../../domain/errors.ts';
import { createByteLines } from './byte-lines.ts';
import { readJson, type SentRequest, toSdkMessage } from './incoming.ts';
import { type ServerCommand, type ServerProcess, startServerProcess } from './supervised-server.ts';

const BEGINNINGS: ReadonlySet<string> = new Set(['initialize', 'server/discover']);

/** Talks to a server process that ends with this one; the SDK's own transport leaves it running after a `kill -9`. */
export function createStdioTransport(command: ServerCommand, maxMessageBytes: number): Transport {
  const lines = createByteLines(maxMessageBytes);
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
        if (exitCode !== null) transport.onerror?.(new BatonError('transport', `it ended with exit code ${exitCode}`));
        transport.onclose?.();
      });
    },
    async send(message: JSONRPCMessage) {
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      if (server === null || !server.input.writable) throw new BatonError('transport', 'the server has ended');
      if ('method' in message && 'id' in message && BEGINNINGS.has(message.method)) beginning = message;
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
      for (const item of Array.isArray(message) ? message : [message]) {
        const request = beginning !== null && String(item?.id) === String(beginning.id) ? beginning : null;
        transport.onmessage?.(parseJSONRPCMessage(toSdkMessage(item, request)));
      }
    } catch (error) {
      onError(error);
    }
  }
  return transport;
}
