import {
  createMcpHandler,
  isLegacyRequest,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server';
import type { Context } from 'hono';
import { z } from 'zod';
import { ProblemError } from '../../http/bodies/problem.ts';
import type { HttpDeps } from '../../http/http-deps.ts';
import type { HttpEnv } from '../../http/http-env.ts';
import { tenantOf } from '../../http/http-env.ts';
import { countRequest } from '../../http/middleware/request-rate.ts';
import { isGone, untilGone } from '../../http/request-signal.ts';
import { derivedId } from '../../platform/derived-id.ts';
import { AsyncDisposableStack } from '../../platform/disposable-stacks.ts';
import { findMessageRun } from '../../store/session/message-run.ts';
import { cancelRun, createAgentServer } from './agent-server.ts';

const CALL = 'tools/call';
const CLIENT_HEADER = 'mcp-session-id';
/** Most messages of one request: a batch of an older protocol version. */
const MAX_BATCH = 50;
/** https://modelcontextprotocol.io/specification/2025-06-18/changelog */
const FIRST_WITHOUT_BATCHES = '2025-06-18';

const messageSchema = z.looseObject({
  method: z.string().optional(),
  params: z.looseObject({ requestId: z.union([z.string(), z.number()]).optional() }).optional(),
});

/**
 * Answers a request of a client of MCP (streamable HTTP), to whom each agent is a tool, in the revision of the protocol
 * that the request has. The server keeps no state of a client, so that any process of the service can take any request.
 */
export async function answerMcp(c: Context<HttpEnv>, deps: HttpDeps): Promise<Response> {
  const body: unknown = await c.req.json().catch(() => undefined);
  const isLegacy = body === undefined || (await isLegacyRequest(c.req.raw, body));
  return isLegacy ? answerLegacy(c, deps, body) : answerModern(c, deps, body);
}

/**
 * A request of 2026-07-28 or later, which stands by itself. A client that closes the response has cancelled the call
 * (https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation).
 */
function answerModern(c: Context<HttpEnv>, deps: HttpDeps, parsedBody: unknown): Promise<Response> {
  const { method } = messageSchema.safeParse(parsedBody).data ?? {};
  const server = () =>
    createAgentServer(c, deps, {
      era: 'modern',
      isCall: method === CALL,
      messageOf: deps.newId,
      isCancelled: () => c.req.raw.signal.aborted && isGone(c),
    });
  const handler = createMcpHandler(server, { legacy: 'reject' });
  // A subscription has no other end than its client's: it would hold up a server that stops.
  if (method === 'subscriptions/listen') untilGone(c).addEventListener('abort', () => void handler.close());
  return handler.fetch(c.req.raw, { parsedBody });
}

/**
 * A request of 2025-11-25 or earlier. Calls are told apart by the id that the client was given and the number of its
 * request, so that any process can take a cancel or a repeated call.
 */
async function answerLegacy(c: Context<HttpEnv>, deps: HttpDeps, body: unknown): Promise<Response> {
  const messages = Array.isArray(body) ? body : [body];
  await boundBatch(c, deps, body);
  const read = messages.map((message) => messageSchema.safeParse(message).data ?? {});
  const client = c.req.header(CLIENT_HEADER) ?? null;
  for (const { method, params } of read) {
    const id = params?.requestId;
    if (method === 'notifications/cancelled' && client !== null && id !== undefined) await cancel(c, deps, client, id);
  }
  await using stack = new AsyncDisposableStack();
  const transport = new WebStandardStreamableHTTPServerTransport({});
  const server = createAgentServer(c, deps, {
    era: 'legacy',
    isCall: read.some(({ method }) => method === CALL),
    messageOf: (requestId) => (client === null ? deps.newId() : messageOf(c, client, requestId)),
    isCancelled: () => false,
  });
  stack.defer(() => server.close());
  await server.connect(transport);
  const response = await transport.handleRequest(c.req.raw, { parsedBody: body });
  if (!read.some(({ method }) => method === 'initialize')) return closing(response, stack.move());
  const named = new Response(response.body, response);
  named.headers.set(CLIENT_HEADER, deps.newId());
  return closing(named, stack.move());
}

/**
 * A batch counts as so many requests. Newer versions of the protocol have none.
 * @throws ProblemError `invalid_request`, `rate_limited`
 */
async function boundBatch(c: Context<HttpEnv>, { requestRate }: HttpDeps, body: unknown): Promise<void> {
  if (!Array.isArray(body)) return;
  const version = c.req.header('mcp-protocol-version') ?? '';
  if (version >= FIRST_WITHOUT_BATCHES) {
    throw new ProblemError('invalid_request', `MCP ${version} has no batches: send each message by itself`);
  }
  if (body.length > MAX_BATCH) {
    throw new ProblemError('invalid_request', `send at most ${MAX_BATCH} messages at once`);
  }
  if (requestRate === undefined) return;
  // The request itself was counted.
  for (let more = 1; more < body.length; more++) await countRequest(c, requestRate);
}

/** Closes the server when the response has been sent or its reader is gone. */
function closing(response: Response, stack: AsyncDisposableStack): Response {
  if (response.body === null) {
    void stack.disposeAsync();
    return response;
  }
  const reader = response.body.getReader();
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value } = await reader.read();
      if (!done) return controller.enqueue(value);
      controller.close();
      await stack.disposeAsync();
    },
    async cancel(reason) {
      await reader.cancel(reason);
      await stack.disposeAsync();
    },
  });
  return new Response(body, response);
}

/**
 * The id of the message that a call sends: with another key it is another call. Without an id of the client no call is
 * recognized again.
 */
const messageOf = (c: Context<HttpEnv>, client: string, requestId: string | number): string =>
  derivedId('mcp', tenantOf(c), c.get('caller').keyId ?? '', client, JSON.stringify(requestId));

async function cancel(c: Context<HttpEnv>, deps: HttpDeps, client: string, requestId: string | number): Promise<void> {
  const message = await findMessageRun(deps.db, tenantOf(c), messageOf(c, client, requestId));
  if (message !== null) await cancelRun(c, deps, message.runId);
}
