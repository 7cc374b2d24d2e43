import { ReadBuffer, serializeMessage } from '@modelcontextprotocol/sdk/shared/stdio.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import type { JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js';
import { BatonError } from '../../domain/errors.ts';
import { type ServerCommand, type ServerProcess, startServerProcess } from './supervised-server.ts';

/** Talks to a server process that ends with this one; the SDK's own transport leaves it running after a `kill -9`. */
export function createStdioTransport(command: ServerCommand, maxMessageBytes: number): Transport {
  const buffer = new ReadBuffer({ maxBufferSize: maxMessageBytes });
  let server: ServerProcess | null = null;
  const transport: Transport = {
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
      server.input.write(serializeMessage(message), (error) => (error ? reject(error) : resolve()));
      await promise;
    },
    async close() {
      await server?.stop();
    },
  };

  function receive(bytes: Buffer): void {
    try {
      buffer.append(bytes);
    } catch (error) {
      transport.onerror?.(error instanceof Error ? error : new Error(String(error)));
      void server?.stop();
      return;
    }
    while (true) {
      try {
        const message = buffer.readMessage();
        if (message === null) return;
        transport.onmessage?.(message);
      } catch (error) {
        // The line is no message: some servers print to stdout instead of stderr.
        transport.onerror?.(error instanceof Error ? error : new Error(String(error)));
      }
    }
  }
  return transport;
}
