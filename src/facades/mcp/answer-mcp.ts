import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js';
import {
  CallToolRequestSchema,
  type CallToolResult,
  ErrorCode,
  ListToolsRequestSchema,
  McpError,
  type ServerNotification,
} from '@modelcontextprotocol/sdk/types.js';
import type { Context } from 'hono';
import { z } from 'zod';
import { BatonError } from '../../domain/errors.ts';
import { formatId } from '../../domain/ids.ts';
import { afterCancelled } from '../../http/after-commit.ts';
import { ProblemError } from '../../http/bodies/problem.ts';
import { readRunBody } from '../../http/bodies/run-body.ts';
import type { HttpDeps } from '../../http/http-deps.ts';
import type { HttpEnv } from '../../http/http-env.ts';
import { tenantOf } from '../../http/http-env.ts';
import { requestEntry } from '../../http/middleware/audit-trail.ts';
import { countRequest } from '../../http/middleware/request-rate.ts';
import { untilGone } from '../../http/request-signal.ts';
import { derivedId } from '../../platform/derived-id.ts';
import { AsyncDisposableStack } from '../../platform/disposable-stacks.ts';
import { requestCancel } from '../../store/cancels.ts';
import { findRun } from '../../store/runs.ts';
import { findTakenMessage } from '../../store/taken-message.ts';
import type { RunRef } from '../run-details.ts';
import { readTask, toolsOfAgents, toResult } from './agent-tools.ts';
import { followTask, startTask } from './run-task.ts';
import { readTaskOf, serveTasks, TASK_CAPABILITIES } from './tasks.ts';

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
 * Answers a request of a client of MCP (streamable HTTP), to whom each agent is a tool. The server keeps no state of a
 * client: calls are told apart by the id that the client was given and the number of its request, so that any process of
 * the service can take a cancel or a repeated call.
 */
export async function answerMcp(c: Context<HttpEnv>, deps: HttpDeps): Promise<Response> {
  const body: unknown = await c.req.json().catch(() => undefined);
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
  const server = createServer(c, deps, client);
  stack.defer(() => server.close());
  await server.connect(transport);
  const response = await transport.handleRequest(c.req.raw, { parsedBody: body });
  if (!read.some(({ method }) => method === 'initialize')) return closing(response, stack.move());
  const named = new Response(response.body, response);
  named.headers.set(CLIENT_HEADER, deps.newId());
  return closing(named, stack.move());
}

/**
 * A batch counts as so many requests of its key. Newer versions of the protocol have none.
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

/** Works on one thing after another. What was refused does not hold up the next. */
function oneByOne(): <Value>(work: () => Promise<Value>) => Promise<Value> {
  let last: Promise<unknown> = Promise.resolve();
  return (work) => {
    const next = last.then(work);
    last = next.catch(() => undefined);
    return next;
  };
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
  const taken = await findTakenMessage(deps.db, tenantOf(c), messageOf(c, client, requestId));
  if (taken !== null) await cancelRun(c, deps, taken.runId);
}

async function cancelRun(c: Context<HttpEnv>, deps: HttpDeps, runId: string): Promise<void> {
  const outcome = await requestCancel(deps.db, tenantOf(c), runId, {
    ...requestEntry(c, 'run:cancel'),
    target: `/v1/runs/${formatId('run', runId)}/cancel`,
  });
  await afterCancelled(deps, outcome);
}

function createServer(c: Context<HttpEnv>, deps: HttpDeps, client: string | null): Server {
  const server = new Server({ name: 'baton', version: '1' }, { capabilities: { tools: {}, tasks: TASK_CAPABILITIES } });
  serveTasks(server, {
    deps,
    tenantId: tenantOf(c),
    cancel: (runId) => cancelRun(c, deps, runId),
    gone: untilGone(c),
  });
  // The calls of a batch begin one by one, so that together they take no more at once than a request does.
  const inOrder = oneByOne();
  server.setRequestHandler(ListToolsRequestSchema, async () => ({
    tools: toolsOfAgents(await deps.agents.current()),
  }));
  server.setRequestHandler(
    CallToolRequestSchema,
    async ({ params }, { requestId, signal, sendNotification, _meta }) => {
      const messageId = client === null ? deps.newId() : messageOf(c, client, requestId);
      const until = AbortSignal.any([signal, untilGone(c)]);
      const token = _meta?.progressToken;
      let progress = 0;
      const tell = (message: string | undefined): void => {
        if (token === undefined) return;
        progress += 1;
        const told = { progressToken: token, progress, ...(message !== undefined && { message }) };
        const notification: ServerNotification = { method: 'notifications/progress', params: told };
        void sendNotification(notification).catch(() => undefined);
      };
      let ref: RunRef | null = null;
      try {
        const task = readTask(await deps.agents.current(), params.name, params.arguments ?? {});
        ref = await inOrder(() => startTask(deps, c.get('caller'), task, messageId, until));
        if (params.task !== undefined) return { task: await readTaskOf(deps, ref) };
        await followTask(deps, ref, until, tell);
        return await readResult(deps, ref);
      } catch (error) {
        // The answer to one that asks for a task can be nothing but a task.
        if (params.task !== undefined && error instanceof BatonError) {
          throw new McpError(ErrorCode.InvalidParams, `${error.message} (${error.code})`);
        }
        return refusal(error, ref);
      }
    },
  );
  return server;
}

async function readResult({ db }: HttpDeps, { tenantId, runId }: RunRef): Promise<CallToolResult> {
  return toResult(await readRunBody(db, tenantId, await findRun(db, tenantId, runId)));
}

/** The caller's model reads why its call was refused. Other errors are the service's. */
function refusal(error: unknown, ref: RunRef | null): CallToolResult {
  if (!(error instanceof BatonError) && ref === null) throw error;
  const session = ref === null ? '' : ` The agent goes on in session ${formatId('session', ref.sessionId)}.`;
  const text = error instanceof BatonError ? `${error.message} (${error.code})` : 'the answer was not waited for';
  return { content: [{ type: 'text', text: `${text}.${session}` }], isError: true };
}
