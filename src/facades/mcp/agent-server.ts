import {
  type CallToolResult,
  type JSONRPCRequest,
  ProtocolError,
  ProtocolErrorCode,
  type Result,
  Server,
  type ServerContext,
} from '@modelcontextprotocol/server';
import type { Context } from 'hono';
import { z } from 'zod';
import * as commands from '../../commands/cancel.ts';
import { BatonError } from '../../domain/errors.ts';
import { formatId } from '../../domain/ids.ts';
import { readRunBody } from '../../http/bodies/run-body.ts';
import type { HttpDeps } from '../../http/http-deps.ts';
import type { HttpEnv } from '../../http/http-env.ts';
import { tenantOf } from '../../http/http-env.ts';
import { untilGone } from '../../http/request-signal.ts';
import { findAskingRun } from '../../store/session/asking-runs.ts';
import type { RunRef } from '../run-details.ts';
import { CONTINUE_TOOL, hasContinueTool, readContinued, readTask, toolsOfAgents, toResult } from './agent-tools.ts';
import { followTask, startTask } from './run-task.ts';
import { declaresTasks, readCreatedTask, serveTaskExtension, TASK_EXTENSION } from './task-extension.ts';
import { findRunRef, readTaskOf, serveTasks, TASK_CAPABILITIES, type TaskDeps } from './tasks.ts';

/** How long a client may keep the list of agents: their files may change at any time. */
const LIST_TTL_MS = 60_000;

/** `modern`: 2026-07-28 and later, `legacy`: the revisions before it. */
export type ServedRequest = Readonly<{
  era: 'modern' | 'legacy';
  /** Whether a message of the request calls a tool. */
  isCall: boolean;
  /** The id of the message that a call sends. */
  messageOf: (requestId: string | number) => string;
  /** Whether the client has cancelled its call by leaving. */
  isCancelled: () => boolean;
}>;

const callSchema = z.looseObject({
  name: z.string(),
  arguments: z.unknown().optional(),
  /** Asks for a task, until 2025-11-25. */
  task: z.unknown().optional(),
  _meta: z.looseObject({ progressToken: z.union([z.string(), z.number()]).optional() }).optional(),
});
type Call = z.infer<typeof callSchema>;

/** A server for one request of a client: the agents are its tools, and their runs its tasks. */
export function createAgentServer(c: Context<HttpEnv>, deps: HttpDeps, served: ServedRequest): Server {
  const taskDeps: TaskDeps = {
    deps,
    tenantId: tenantOf(c),
    cancel: (runId) => cancelRun(c, deps, runId),
    gone: untilGone(c),
  };
  const isModern = served.era === 'modern';
  const tasks = isModern ? { extensions: { [TASK_EXTENSION]: {} } } : { tasks: TASK_CAPABILITIES };
  const hint = { ttlMs: LIST_TTL_MS, cacheScope: 'private' } as const;
  const server = new Server(
    { name: 'baton', version: '1' },
    { capabilities: { tools: {}, ...tasks }, cacheHints: { 'tools/list': hint, 'server/discover': hint } },
  );
  if (isModern) serveTaskExtension(server, taskDeps);
  else serveTasks(server, taskDeps);
  server.setRequestHandler('tools/list', async () => ({ tools: toolsOfAgents(await deps.agents.current()) }));
  // The calls of a batch begin one by one, so that together they take no more at once than a request does.
  const inOrder = oneByOne();
  const call = async (request: JSONRPCRequest, context: ServerContext): Promise<Result> => {
    if (request.method !== 'tools/call') throw new ProtocolError(ProtocolErrorCode.MethodNotFound, 'Method not found');
    const { data: params } = callSchema.safeParse(request.params);
    if (params === undefined) throw new ProtocolError(ProtocolErrorCode.InvalidParams, 'tools/call needs a name');
    return answerCall(c, deps, { served, params, context, inOrder });
  };
  // The SDK would let a handler of its own for calls answer with nothing but the result of a tool: no task. It answers
  // other methods by itself, because a status of HTTP goes with that.
  if (served.isCall) server.fallbackRequestHandler = call;
  return server;
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

type Called = Readonly<{
  served: ServedRequest;
  params: Call;
  context: ServerContext;
  inOrder: ReturnType<typeof oneByOne>;
}>;

async function answerCall(c: Context<HttpEnv>, deps: HttpDeps, called: Called): Promise<Result> {
  const { served, params, context, inOrder } = called;
  const until = AbortSignal.any([context.mcpReq.signal, untilGone(c)]);
  if (params.name === CONTINUE_TOOL && hasContinueTool(await deps.agents.current())) {
    return answerContinued(c, deps, called, until);
  }
  const wantsTask = served.era === 'legacy' && params.task !== undefined;
  let ref: RunRef | null = null;
  try {
    const task = readTask(await deps.agents.current(), params.name, params.arguments ?? {});
    const messageId = served.messageOf(context.mcpReq.id);
    ref = await inOrder(() => startTask(deps, c.get('caller'), task, { messageId, signal: until }));
    c.get('freeSlot')?.();
    if (wantsTask) return { task: await readTaskOf(deps, ref) };
    if (served.era === 'modern' && declaresTasks(context)) return await readCreatedTask(deps, ref);
    await followTask(deps, ref, followingOf(deps, called, until));
    return await readResult(deps, ref);
  } catch (error) {
    if (ref !== null && served.isCancelled()) await cancelRun(c, deps, ref.runId);
    if (!(error instanceof BatonError)) return refusal(error, ref);
    // A tool that does not exist is an error of the protocol, and so is all that a request for a task may be told.
    if (!wantsTask && error.code !== 'agent_not_found') return refusal(error, ref);
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, `${error.message} (${error.code})`);
  }
}

/** Goes on waiting for a run. A client that leaves meanwhile cancels nothing: it had the answer of the call itself. */
async function answerContinued(
  c: Context<HttpEnv>,
  deps: HttpDeps,
  called: Called,
  until: AbortSignal,
): Promise<Result> {
  let ref: RunRef | null = null;
  try {
    ref = await findRunRef(deps, tenantOf(c), readContinued(called.params.arguments ?? {}));
    c.get('freeSlot')?.();
    await followTask(deps, ref, followingOf(deps, called, until));
    return await readResult(deps, ref);
  } catch (error) {
    return refusal(error, ref);
  }
}

/** A client that is told of progress waits as long as it likes, any other one gives up after a minute. */
function followingOf({ mcpAnswerMs = 0 }: HttpDeps, { params, context }: Called, signal: AbortSignal) {
  const isTold = params._meta?.progressToken !== undefined;
  return { signal, tell: teller(params, context), limitMs: isTold ? 0 : mcpAnswerMs };
}

/** Tells the client of progress if it wants to know. */
function teller({ _meta }: Call, { mcpReq }: ServerContext): (message: string | undefined) => void {
  const progressToken = _meta?.progressToken;
  if (progressToken === undefined) return () => undefined;
  let progress = 0;
  return (message) => {
    progress += 1;
    const params = { progressToken, progress, ...(message !== undefined && { message }) };
    void mcpReq.notify({ method: 'notifications/progress', params }).catch(() => undefined);
  };
}

async function readResult({ db }: HttpDeps, { tenantId, runId }: RunRef): Promise<CallToolResult> {
  return toResult(await readRunBody(db, tenantId, await findAskingRun(db, tenantId, runId)));
}

/** The caller's model reads why its call was refused. Other errors are the service's. */
function refusal(error: unknown, ref: RunRef | null): CallToolResult {
  if (!(error instanceof BatonError) && ref === null) throw error;
  const session = ref === null ? '' : ` The agent goes on in session ${formatId('session', ref.sessionId)}.`;
  const text = error instanceof BatonError ? `${error.message} (${error.code})` : 'the answer was not waited for';
  return { content: [{ type: 'text', text: `${text}.${session}` }], isError: true };
}

/** Cancels the run for the caller of this request. */
export async function cancelRun(c: Context<HttpEnv>, deps: HttpDeps, runId: string): Promise<void> {
  await commands.cancelRun(deps, { actor: c.get('caller'), runId });
}
