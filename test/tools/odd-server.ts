// A server over HTTP that speaks as it is told, right or wrong.
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { createMcpFixture } from './mcp-fixture.ts';

type Message = Readonly<{ id?: number; method: string; params: Readonly<Record<string, unknown>> }>;
/** The rest of an answer as JSON, `"result":…` or `"error":…`; or true: the response is written already. */
export type Answer = string | object | true;
export type Odd = Readonly<{
  initialize?: object;
  list?: (params: Message['params']) => Answer;
  call?: (params: Message['params'], raw: string) => Answer;
  before?: (message: Message, request: IncomingMessage, response: ServerResponse) => Answer | undefined;
  /** Session ids, by which a server knows its connections. */
  session?: () => string;
}>;

export const tool = (name: string, more: object = {}) => ({ name, inputSchema: { type: 'object' }, ...more });
export const said = (words: string) => ({ content: [{ type: 'text', text: words }] });
const GOOD = { tools: [tool('good')] };

/** A server over HTTP that speaks as it is told, right or wrong. */
async function startOdd(odd: Odd) {
  const asked: Message[] = [];
  const count = (method: string) => asked.filter((message) => message.method === method).length;
  const answerTo = (message: Message, raw: string): Answer => {
    switch (message.method) {
      case 'initialize':
        return {
          protocolVersion: message.params['protocolVersion'],
          capabilities: { tools: {} },
          serverInfo: { name: 'odd', version: '1' },
          ...odd.initialize,
        };
      case 'tools/list':
        return odd.list?.(message.params) ?? GOOD;
      case 'tools/call':
        return odd.call?.(message.params, raw) ?? said('42 rows');
      default:
        return '"error":{"code":-32601,"message":"Method not found"}';
    }
  };
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    if (request.method !== 'POST') return void response.writeHead(405).end();
    const raw = await text(request);
    const message: Message = JSON.parse(raw);
    asked.push(message);
    const early = odd.before?.(message, request, response);
    if (early === true) return;
    if (message.id === undefined) return void response.writeHead(202).end();
    const answer = early ?? answerTo(message, raw);
    if (answer === true) return;
    const isBegin = message.method === 'initialize' && odd.session !== undefined;
    response.writeHead(200, {
      'content-type': 'application/json',
      ...(isBegin && { 'mcp-session-id': odd.session?.() }),
    });
    const rest = typeof answer === 'string' ? answer : `"result":${JSON.stringify(answer)}`;
    response.end(`{"jsonrpc":"2.0","id":${message.id},${rest}}`);
  };
  const server = createServer((request, response) => void handle(request, response));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`,
    count,
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
    },
  };
}

export async function openOdd(odd: Odd, config: object = {}) {
  await using stack = new AsyncDisposableStack();
  const server = stack.use(await startOdd(odd));
  const fixture = stack.use(createMcpFixture({ m: { url: server.url, ...config } }));
  const pin = () => fixture.pin([{ mcp: 'm' }]);
  const owned = stack.move();
  return { server, fixture, pin, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
