import { hashOfTools, type PinnedTool } from '../../agents/pinned-tools.ts';
import { BatonError } from '../../domain/errors.ts';
import { currentTraceparent } from '../../platform/tracing.ts';
import { InputNeeded } from '../input-needed.ts';
import type { ToolContext } from '../tool.ts';
import { endOf, toToolError } from './call-end.ts';
import { toCallResult, toToolText, toToolValue } from './call-result.ts';
import type { McpConnection } from './connection.ts';
import { followTask, TaskForgotten } from './follow-task.ts';
import type { CallAnswer } from './requests.ts';
import { readWork } from './task.ts';
import { type Resumption, toQuestion, toResumption, type Unfinished, wordsOfRequests } from './unfinished.ts';

export type McpToolOptions = Readonly<{
  server: string;
  trust: boolean;
  connection: McpConnection;
  /** Hash of all definitions that the session has of the server. */
  pinnedHash: string;
}>;

/**
 * @param mayRepeat two calls have the effect of one
 * @throws InputNeeded if the server asks a person; errors of which the model reads the message
 */
export async function runMcpTool(options: McpToolOptions, pinned: PinnedTool, call: Called): Promise<unknown> {
  const result = toCallResult((await resume(options, call)) ?? (await begin(options, pinned, call)));
  if (!result.isError) return toToolValue(result);
  throw new BatonError('invalid_request', toToolText(result) || '[no output]');
}

type Called = Readonly<{ input: unknown; context: ToolContext; mayRepeat: boolean }>;

/**
 * Goes on with the task that an earlier worker began, or that asked for something. Null: there is none, or it is forgotten
 * and may be begun anew.
 */
async function resume(options: McpToolOptions, { context, mayRepeat }: Called): Promise<unknown> {
  const { signal, outside } = context;
  const { taskId, inputResponses: responses = {} } = resumptionOf(context) ?? {};
  const task = readWork(taskId === undefined ? (outside?.earlier ?? null) : { taskId });
  if (task === null) return null;
  try {
    return await followTask({ ...options, signal, responses }, task, outside);
  } catch (error) {
    if (mayRepeat && error instanceof TaskForgotten) return null;
    throw error;
  }
}

const resumptionOf = ({ reply }: ToolContext): Resumption | undefined =>
  reply === undefined ? undefined : toResumption(reply);

/** @throws InputNeeded; errors of which the model reads the message */
async function begin(options: McpToolOptions, pinned: PinnedTool, called: Called): Promise<unknown> {
  const { signal, outside } = called.context;
  const offered = await checkStillOffered(options, pinned, called.context);
  const asTask = offered.taskSupport === 'required';
  const { answer, task, unfinished } = await callOnce(options, pinned, asTask, called);
  if (unfinished !== null) throw neededFor(unfinished);
  if (task === null) return answer ?? {};
  const newWork = outside === undefined ? undefined : { ...outside, earlier: null };
  return followTask({ ...options, signal, responses: {} }, task, newWork);
}

/** A person is asked, or the model is told that nobody is. */
function neededFor({ requests, requestState }: Unfinished): Error {
  const question = toQuestion(requests, { requestState });
  return question === null ? new BatonError('invalid_request', wordsOfRequests(requests)) : new InputNeeded(question);
}

/** A changed tool is still called, and the drift is reported; a removed tool is not called. */
async function checkStillOffered(
  { server, connection, pinnedHash }: McpToolOptions,
  pinned: PinnedTool,
  { signal, reportDrift }: ToolContext,
): Promise<PinnedTool> {
  const offeredTool = (await connection.tools(false, signal)).get(pinned.name);
  const offered = offeredTool ?? (await connection.tools(true, signal)).get(pinned.name);
  const offeredHash = offered === undefined ? null : hashOfTools([offered]);
  if (offered !== undefined && offeredHash === hashOfTools([pinned])) return offered;
  const change = offered === undefined ? 'gone' : 'changed';
  await reportDrift?.({ server, tool: pinned.name, change, pinnedHash, offeredHash });
  if (offered !== undefined) return offered;
  throw new BatonError('not_found', `The MCP server ${server} does not offer the tool ${pinned.name} any more.`);
}

/**
 * Calls the tool. Repeats a failed call only if the server has not started it, or it may be repeated and the connection
 * is gone.
 */
async function callOnce(
  { server, connection }: McpToolOptions,
  { name, inputSchema }: PinnedTool,
  asTask: boolean,
  { input, context, mayRepeat }: Called,
): Promise<CallAnswer> {
  const { signal, callKey, tenantId, takeRoom } = context;
  const traceparent = currentTraceparent();
  const meta = {
    'baton/callKey': callKey,
    'baton/tenantId': tenantId,
    ...(traceparent !== null && { traceparent }),
  };
  const resumption = resumptionOf(context);
  const call = { tool: name, input, inputSchema, meta, asTask, signal, callKey, takeRoom, resumption };
  const link = await connection.open(signal);
  try {
    return await link.call(call);
  } catch (error) {
    const end = await endOf(link, error, signal);
    const isRepeated = end === 'not begun' || (end !== 'answered' && mayRepeat);
    // Other calls may still wait on a connection that has lost one answer.
    if (isRepeated || end === 'forgotten') await link.drop();
    if (!isRepeated) throw toToolError(server, error, signal);
  }
  const another = await connection.open(signal);
  return another.call(call).catch((error: unknown) => {
    throw toToolError(server, error, signal);
  });
}
