import { hashOfTools, type PinnedTool } from '../../agents/pinned-tools.ts';
import { BatonError } from '../../domain/errors.ts';
import type { ToolContext } from '../tool.ts';
import { type CallResult, toCallResult, toToolText, toToolValue } from './call-result.ts';
import type { McpConnection } from './connection.ts';
import { failureOf } from './failure.ts';

export type McpToolOptions = Readonly<{
  server: string;
  trust: boolean;
  connection: McpConnection;
  /** Hash of all definitions that the session has of the server. */
  pinnedHash: string;
}>;

/** @param mayRepeat two calls have the effect of one @throws errors of which the model reads the message */
export async function runMcpTool(
  options: McpToolOptions,
  pinned: PinnedTool,
  call: Readonly<{ input: unknown; context: ToolContext; mayRepeat: boolean }>,
): Promise<unknown> {
  const { server } = options;
  const { input, context, mayRepeat } = call;
  await checkStillOffered(options, pinned, context);
  const result = readResult(server, await callOnce(options, pinned, input, context, mayRepeat));
  if (!result.isError) return toToolValue(result);
  throw new BatonError('invalid_request', toToolText(result) || '[no output]');
}

/** A changed tool is still called, and the drift is reported; a removed tool is not called. */
async function checkStillOffered(
  { server, connection, pinnedHash }: McpToolOptions,
  pinned: PinnedTool,
  { signal, reportDrift }: ToolContext,
): Promise<void> {
  const known = (await connection.tools(false, signal)).get(pinned.name);
  const offered = known ?? (await connection.tools(true, signal)).get(pinned.name);
  const offeredHash = offered === undefined ? null : hashOfTools([offered]);
  if (offeredHash === hashOfTools([pinned])) return;
  const change = offered === undefined ? 'gone' : 'changed';
  await reportDrift?.({ server, tool: pinned.name, change, pinnedHash, offeredHash });
  if (offered !== undefined) return;
  throw new BatonError('not_found', `The MCP server ${server} does not offer the tool ${pinned.name} any more.`);
}

/** Calls the tool. Repeats a failed call only if the server has not started it, or it may be repeated. */
async function callOnce(
  { server, connection }: McpToolOptions,
  { name }: PinnedTool,
  input: unknown,
  { signal, callKey, tenantId }: ToolContext,
  mayRepeat: boolean,
): Promise<unknown> {
  const isObject = typeof input === 'object' && input !== null && !Array.isArray(input);
  const meta = { 'baton/callKey': callKey, 'baton/tenantId': tenantId };
  const call = { tool: name, input: isObject ? { ...input } : {}, meta, signal };
  const link = await connection.open(signal);
  try {
    return await link.call(call);
  } catch (error) {
    const failure = failureOf(error, signal);
    if (failure !== 'refused' && !(failure === 'lost' && mayRepeat)) throw toToolError(server, error, signal);
    await link.drop();
  }
  const another = await connection.open(signal);
  return another.call(call).catch((error: unknown) => {
    throw toToolError(server, error, signal);
  });
}

/** An answered call has been made, even if its answer is invalid. */
function readResult(server: string, answer: unknown): CallResult {
  try {
    return toCallResult(answer);
  } catch (cause) {
    const what = cause instanceof Error ? cause.message : String(cause);
    throw new BatonError(
      'invalid_request',
      `The MCP server ${server} answered the call with something that is no result (${what}). ` +
        'It has probably taken effect: verify before you repeat it.',
      { cause },
    );
  }
}

function toToolError(server: string, error: unknown, signal: AbortSignal): unknown {
  if (error instanceof BatonError) return error;
  switch (failureOf(error, signal)) {
    case 'answered':
      return error;
    case 'unsent':
    case 'refused':
      return new BatonError('tools_unavailable', `The MCP server ${server} cannot be reached.`, { cause: error });
    case 'stopped':
      return new BatonError('timeout', `The MCP server ${server} was told to stop the call. ${UNKNOWN}`, {
        cause: error,
      });
    case 'lost':
      return new BatonError('transport', `The connection to the MCP server ${server} was lost. ${UNKNOWN}`, {
        cause: error,
      });
  }
}

const UNKNOWN = 'The outcome of the call is unknown: it may or may not have taken effect. Verify before you repeat it.';
