import { hashOfTools, type PinnedTool } from '../../agents/pinned-tools.ts';
import { BatonError } from '../../domain/errors.ts';
import { currentTraceparent } from '../../platform/tracing.ts';
import type { ToolContext } from '../tool.ts';
import { toCallResult, toToolText, toToolValue } from './call-result.ts';
import type { McpConnection, McpLink } from './connection.ts';
import { doubtOf, failureOf, isUnreadable } from './failure.ts';
import { HttpRefusal, unavailableBecause } from './refusal.ts';

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
  const { input, context, mayRepeat } = call;
  await checkStillOffered(options, pinned, context);
  const result = toCallResult(await callOnce(options, pinned, input, context, mayRepeat));
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

/**
 * Calls the tool. Repeats a failed call only if the server has not started it, or it may be repeated and the connection
 * is gone.
 */
async function callOnce(
  { server, connection }: McpToolOptions,
  { name, inputSchema }: PinnedTool,
  input: unknown,
  { signal, callKey, tenantId }: ToolContext,
  mayRepeat: boolean,
): Promise<unknown> {
  const traceparent = currentTraceparent();
  const meta = {
    'baton/callKey': callKey,
    'baton/tenantId': tenantId,
    ...(traceparent !== null && { traceparent }),
  };
  const call = { tool: name, input, inputSchema, meta, signal };
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

/** How a call has failed. A server that was started again answers calls of its old connections with any error. */
async function endOf(
  link: McpLink,
  error: unknown,
  signal: AbortSignal,
): Promise<'answered' | 'not begun' | 'lost' | 'forgotten'> {
  const failure = failureOf(error, signal);
  if (failure === 'refused') return 'not begun';
  if (failure === 'lost') return 'lost';
  const doubt = failure === 'answered' ? doubtOf(error) : null;
  if (doubt === null || doubt.kind === 'none') return 'answered';
  const isKnown = await link.isKnown(signal).catch(() => true);
  if (isKnown) return 'answered';
  return doubt.begun ? 'forgotten' : 'not begun';
}

function toToolError(server: string, error: unknown, signal: AbortSignal): unknown {
  if (error instanceof BatonError && error.code !== 'payload_too_large') return error;
  switch (failureOf(error, signal)) {
    case 'answered':
      return toAnswered(server, error);
    case 'unsent':
    case 'refused':
      return new BatonError('tools_unavailable', unavailableBecause(server, error), { cause: error });
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

/** The words of the server's own errors are for the model. What cannot be read has been carried out. */
function toAnswered(server: string, error: unknown): unknown {
  if (error instanceof HttpRefusal) {
    return new BatonError('transport', `The MCP server ${server} answered the call with ${error.message}`, {
      cause: error,
    });
  }
  if (!isUnreadable(error)) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new BatonError(
    'invalid_request',
    `The MCP server ${server} answered the call with what cannot be read (${message}). ` +
      'It has probably taken effect: verify before you repeat it.',
    { cause: error },
  );
}

const UNKNOWN = 'The outcome of the call is unknown: it may or may not have taken effect. Verify before you repeat it.';
