// An MCP server of 2026-07-28 by MCP's own package, whose tool asks a person before it orders: in the answer to its call,
// or in the task that the call becomes.
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { createMcpHandler, type Result, Server } from '@modelcontextprotocol/server';
import { z } from 'zod';

const TASKS = 'io.modelcontextprotocol/tasks';
const requestedSchema = { type: 'object', properties: { copies: { type: 'integer' } }, required: ['copies'] };
const inputRequests = { form: { method: 'elicitation/create', params: { message: 'How many?', requestedSchema } } };
const TASK_ID = 'order-1';
const times = { createdAt: '2026-11-01T00:00:00Z', lastUpdatedAt: '2026-11-01T00:00:00Z' };
const task = { taskId: TASK_ID, ...times, ttlMs: null, pollIntervalMs: 1 };

const aboutTask = { params: z.looseObject({ taskId: z.string() }) };
const contentSchema = z.looseObject({ form: z.looseObject({ content: z.looseObject({ copies: z.number() }) }) });
const ordered = (responses: unknown): Result => {
  const { copies } = contentSchema.parse(responses).form.content;
  return { content: [{ type: 'text', text: `ordered ${copies} x tea` }] };
};

/**
 * @param hangs how many cancels get no answer
 * @returns its address, the responses that it was given, and the tasks that it was to cancel
 */
export async function startQuestionServer(kind: 'call' | 'task', { hangs = 0 } = {}) {
  const responses: unknown[] = [];
  const cancels: string[] = [];
  const open = (): Server => {
    const mcp = new Server(
      { name: 'orders', version: '1' },
      { capabilities: { tools: {}, extensions: { [TASKS]: {} } } },
    );
    mcp.setRequestHandler('tools/list', () => ({
      tools: [{ name: 'order', inputSchema: { type: 'object' as const } }],
    }));
    mcp.setRequestHandler('tasks/get', aboutTask, (): Result => {
      const [response] = responses;
      return response === undefined
        ? { ...task, status: 'input_required', inputRequests }
        : { ...task, status: 'completed', result: ordered(response) };
    });
    mcp.setRequestHandler('tasks/cancel', aboutTask, async ({ taskId }): Promise<Result> => {
      if (cancels.push(taskId) <= hangs) await new Promise(() => undefined);
      return {};
    });
    // The package takes the responses out of the parameters, as of a call that is made again.
    mcp.setRequestHandler('tasks/update', aboutTask, (_params, { mcpReq }): Result => {
      responses.push(mcpReq.inputResponses);
      return {};
    });
    mcp.fallbackRequestHandler = async (_request, { mcpReq }): Promise<Result> => {
      if (kind === 'task') return { resultType: 'task', ...task, status: 'working' };
      const response = mcpReq.inputResponses ?? {};
      if (Object.keys(response).length === 0) return { resultType: 'input_required', requestState: 's', inputRequests };
      if (mcpReq.requestState() !== 's') throw new Error('the state is another one');
      responses.push(response);
      return ordered(response);
    };
    return mcp;
  };
  const server = createServer(async (request, response) => {
    const body = await buffer(request);
    const { fetch } = createMcpHandler(open, { legacy: 'reject' });
    const init = { method: request.method ?? '', headers: new Headers(request.headers as Record<string, string>) };
    const made = await fetch(new Request('http://127.0.0.1/mcp', body.length === 0 ? init : { ...init, body }));
    response.writeHead(made.status, Object.fromEntries(made.headers)).end(Buffer.from(await made.arrayBuffer()));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`,
    responses: responses as readonly unknown[],
    cancels: cancels as readonly string[],
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
    },
  };
}
