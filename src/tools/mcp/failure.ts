import { StreamableHTTPError } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ErrorCode, McpError } from '@modelcontextprotocol/sdk/types.js';
import { BatonError } from '../../domain/errors.ts';

type Failure =
  /** The server no longer knows the connection, so it has not started the request. */
  | 'refused'
  /** The connection broke during the request. */
  | 'lost'
  /** No answer in time, or the run was stopped. */
  | 'stopped'
  /** The server answered with an error. */
  | 'answered'
  /** The request was never sent. */
  | 'unsent';

/** No server at this address: not one byte of the request was sent. */
const UNREACHABLE = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH']);

export function failureOf(error: unknown, signal: AbortSignal): Failure {
  if (signal.aborted) return 'stopped';
  if (error instanceof BatonError) return 'unsent';
  if (error instanceof StreamableHTTPError) {
    const isUnknownSession = error.code === 404 || (error.code === 400 && /session/i.test(error.message));
    return isUnknownSession ? 'refused' : 'answered';
  }
  if (error instanceof McpError) {
    if (error.code === ErrorCode.ConnectionClosed) return 'lost';
    return error.code === ErrorCode.RequestTimeout ? 'stopped' : 'answered';
  }
  const cause = error instanceof Error ? error.cause : undefined;
  if (cause instanceof Error && 'code' in cause && UNREACHABLE.has(String(cause.code))) return 'unsent';
  return error instanceof Error && error.message === 'Not connected' ? 'refused' : 'lost';
}
