import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { type JSONRPCMessage, ProgressNotificationSchema } from '@modelcontextprotocol/sdk/types.js';

// Serves an MCP server that only speaks stdio over streamable HTTP: npm run example:gateway -- PORT COMMAND ARGS…
// Each client gets a process of its own, since a server on stdio has one client. It listens on loopback and asks for no
// key: what others are to reach belongs behind a proxy that does.

/** The largest message of a server: images come as base64. */
const MAX_MESSAGE_BYTES = 16 * 1024 * 1024;

/** A client and its process. */
type Link = Readonly<{ http: StreamableHTTPServerTransport; ended: Promise<void> }>;

/** Passes messages on, unread, between a client and a process that is started when the client introduces itself. */
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
  // Rejected where its client has gone away: nobody waits for that message any more.
  stdio.onmessage = (message) => void http.send(message, answeredRequest(message)).catch(() => undefined);
  stdio.onclose = () => void http.close();
  http.onclose = () => void stdio.close().then(resolve);
  return { http, ended };
}

/**
 * Progress goes to the stream of its request, by whose id clients ask for it, other notices to the
 * one that is for no request.
 */
function answeredRequest(message: JSONRPCMessage): { relatedRequestId?: string | number } {
  const progress = ProgressNotificationSchema.safeParse(message);
  return progress.success ? { relatedRequestId: progress.data.params.progressToken } : {};
}

/** Serves the command until it is disposed, which ends all its processes. Port 0: a free one. */
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
    // A page in a browser that had its own name resolved to this machine.
    const isForeign = !/^(127\.0\.0\.1|localhost)(:\d+)?$/.test(request.headers.host ?? '');
    const link = isForeign ? undefined : linkOf(request);
    // 404 tells a client to introduce itself again.
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
