// An MCP server by MCP's own package whose calls become tasks, of either revision. Over HTTP in the process of a test, or
// over stdio: task-server.ts <modern|legacy> <ledger>.
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { appendFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import {
  createMcpHandler,
  legacyStatelessFallback,
  ProtocolError,
  type Result,
  Server,
  type Tool,
} from '@modelcontextprotocol/server';
import { StdioServerTransport, serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';

export type TaskEra = 'modern' | 'legacy';
type Row = { name: string; status: string; asked: number };
type Tasks = Map<string, Row>;

const EXTENSION = 'io.modelcontextprotocol/tasks';
const required = { inputSchema: { type: 'object' as const }, execution: { taskSupport: 'required' as const } };
const TOOLS: readonly Tool[] = ['build', 'fail', 'stop', 'ask', 'hang'].map((name) => ({ name, ...required }));
const callSchema = z.looseObject({ name: z.string(), task: z.looseObject({ ttl: z.number() }).optional() });
const about = { params: z.looseObject({ taskId: z.string() }) };
const QUESTION = { form: { method: 'elicitation/create', params: { message: 'Which account?' } } };
const text = (words: string): Result => ({ content: [{ type: 'text', text: words }] });

/** @param note gets a line for each call, question and cancel */
function createTaskServer(era: TaskEra, tasks: Tasks, note: (line: string) => void, takesTasks = true): Server {
  const isModern = era === 'modern';
  const legacy = takesTasks ? { tasks: { cancel: {}, requests: { tools: { call: {} } } } } : {};
  const able = isModern ? { extensions: { [EXTENSION]: {} } } : legacy;
  const mcp = new Server({ name: 'tasks', version: '1' }, { capabilities: { tools: {}, ...able } });
  const told = (taskId: string, { status, name }: Row): Result => {
    const times = { createdAt: '2026-11-01T00:00:00Z', lastUpdatedAt: '2026-11-01T00:00:00Z' };
    const about = {
      taskId,
      status,
      ...times,
      ...(isModern ? { ttlMs: null, pollIntervalMs: 1 } : { ttl: null, pollInterval: 1 }),
    };
    if (!isModern) return about;
    if (status === 'completed') return { ...about, result: text(`${name} is done`) };
    if (status === 'failed') return { ...about, error: { code: -32_603, message: `${name} broke` } };
    return status === 'input_required' ? { ...about, inputRequests: QUESTION } : about;
  };
  const find = (taskId: string): Row => {
    const row = tasks.get(taskId);
    if (row === undefined) throw new ProtocolError(-32_602, `there is no task ${taskId}`);
    return row;
  };
  mcp.setRequestHandler('tools/list', () => ({ tools: [...TOOLS] }));
  mcp.setRequestHandler('tasks/get', about, ({ taskId }) => {
    const row = find(taskId);
    note(`get ${row.name}`);
    row.asked += 1;
    if (row.asked === 2) row.status = ENDS[row.name] ?? row.status;
    return told(taskId, row);
  });
  mcp.setRequestHandler('tasks/cancel', about, ({ taskId }) => {
    const row = find(taskId);
    note(`cancel ${row.name}`);
    row.status = 'cancelled';
    return isModern ? {} : told(taskId, row);
  });
  mcp.fallbackRequestHandler = async ({ method, params }) => {
    if (method === 'tasks/result' && !isModern) {
      const { name, status } = find(about.params.parse(params).taskId);
      note(`result ${name}`);
      if (status === 'failed') throw new ProtocolError(-32_603, `${name} broke`);
      return text(`${name} is done`);
    }
    if (method !== 'tools/call') throw new ProtocolError(-32_601, 'Method not found');
    const { name, task } = callSchema.parse(params);
    if (!isModern && task === undefined) throw new ProtocolError(-32_601, `${name} has to be called as a task`);
    note(`call ${name}`);
    const taskId = randomUUID();
    const row = { name, status: 'working', asked: 0 };
    tasks.set(taskId, row);
    return isModern ? { resultType: 'task', ...told(taskId, row) } : { task: told(taskId, row) };
  };
  return mcp;
}

/** How a task ends at the second question. */
const ENDS: Readonly<Record<string, string>> = {
  build: 'completed',
  fail: 'failed',
  stop: 'cancelled',
  ask: 'input_required',
};

/** The server over HTTP. */
export async function startTaskServer(era: TaskEra, { takesTasks = true } = {}) {
  const tasks: Tasks = new Map();
  const lines: string[] = [];
  const refusals: number[] = [];
  const create = () => createTaskServer(era, tasks, (line) => void lines.push(line), takesTasks);
  const serve =
    era === 'modern' ? createMcpHandler(create, { legacy: 'reject' }).fetch : legacyStatelessFallback(create);
  const server = createServer(async (request, response) => {
    const body = await buffer(request);
    const refused = body.includes('tasks/get') ? refusals.shift() : undefined;
    if (refused === 0) return void request.socket.destroy();
    if (refused !== undefined) return void response.writeHead(refused).end();
    const init = { method: request.method ?? '', headers: new Headers(request.headers as Record<string, string>) };
    const made = await serve(new Request('http://127.0.0.1/mcp', body.length === 0 ? init : { ...init, body }));
    response.writeHead(made.status, Object.fromEntries(made.headers)).end(Buffer.from(await made.arrayBuffer()));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    config: { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp` },
    /** Calls, questions and cancels, in their order. */
    lines: (): readonly string[] => lines,
    /** Ends all tasks. */
    end: () => {
      for (const row of tasks.values()) row.status = 'completed';
    },
    forget: () => tasks.clear(),
    /** Answers the next questions about tasks so; 0 breaks the connection. */
    refuse: (...statuses: readonly number[]) => void refusals.push(...statuses),
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
    },
  };
}

if (process.argv[1] === import.meta.filename) {
  const [, , era, ledger = ''] = process.argv;
  const tasks: Tasks = new Map();
  const note = (line: string): void => appendFileSync(ledger, `${line}\n`);
  // A client that waited too long for a process to start speaks an older revision.
  if (era === 'modern') serveStdio((client) => createTaskServer(client.era, tasks, note));
  else await createTaskServer('legacy', tasks, note).connect(new StdioServerTransport());
}
