import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { type JSONRPCMessage, ProgressNotificationSchema } from '@modelcontextprotocol/sdk/types.js';

// Serves a stdio MCP server over streamable HTTP: npm run example:gateway -- PORT COMMAND ARGS… Each client gets its
// own process, because a stdio server has one client; the gateway listens on loopback without keys, so put a proxy with
// keys in front of it for others.

/** The largest message of a server: images are sent as base64. */
const MAX_MESSAGE_BYTES = 16 * 1024 * 1024;

/** A client and its process. */
type Link = Readonly<{ http: StreamableHTTPServerTransport; ended: Promise<void> }>;

/** Passes messages unread between a client and its process, which starts with the client's `initialize`. */
function createLink(command: string, args: readonly string[], onOpen: (id: string, link: Link) => void): Link {
  const { promise: ended, resolve } = Promise.withResolvers<void>();
  const stdio: Transport = new StdioClientTransport({ command, args: [...args], maxBufferSize: MAX_MESSAGE_BYTES });
  const http = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: async (id) => {
      await stdio.start();
      onOpen(id, { http, ended });
    },
  });
  http.onmessage = (message) => void stdio.send(message).catch(() => http.close());
  // Rejects if the client has gone away. Its message is then dropped.
  stdio.onmessage = (message) => void http.send(message, answeredRequest(message)).catch(() => undefined);
  stdio.onclose = () => void http.close();
  http.onclose = () => void stdio.close().then(resolve);
  return { http, ended };
}

/**
 * Progress goes to the stream of its request, which its token names; other notices go to the stream without a request.
 */
function answeredRequest(message: JSONRPCMessage): { relatedRequestId?: string | number } {
  const progress = ProgressNotificationSchema.safeParse(message);
  return progress.success ? { relatedRequestId: progress.data.params.progressToken } : {};
}

/** Serves the command until it is disposed, which ends all its processes. Port 0: any free port. */
export async function startGateway(port: number, command: string, args: readonly string[]) {
  const links = new Map<string, Link>();
  const onOpen = (id: string, link: Link): void => {
    links.set(id, link);
    void link.ended.then(() => links.delete(id));
  };
  const linkOf = ({ headers }: IncomingMessage): Link | undefined => {
    const id = headers['mcp-session-id'];
    return id === undefined ? createLink(command, args, onOpen) : links.get(String(id));
  };
  const server = createServer(async (request: IncomingMessage, response: ServerResponse) => {
    // A foreign page whose host name was made to resolve to this machine.
    const isForeign = !/^(127\.0\.0\.1|localhost)(:\d+)?$/.test(request.headers.host ?? '');
    const link = isForeign ? undefined : linkOf(request);
    // 404 makes a client initialize again.
    if (link === undefined) response.writeHead(isForeign ? 403 : 404).end();
    else await link.http.handleRequest(request, response);
  });
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`,
    async [Symbol.asyncDispose]() {
      await Promise.all([...links.values()].map(({ http, ended }) => http.close().then(() => ended)));
      server.closeAllConnections();
      await new Promise<void>((resolve) => void server.close(() => resolve()));
    },
  };
}

if (import.meta.main) {
  const [port = '', command = '', ...args] = process.argv.slice(2);
  const gateway = await startGateway(Number(port), command, args);
  process.stdout.write(`${command} is at ${gateway.url}\n`);
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => gateway[Symbol.asyncDispose]());
}
