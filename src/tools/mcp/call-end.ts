import { BatonError } from '../../domain/errors.ts';
import type { McpLink } from './connection.ts';
import { doubtOf, failureOf, isUnreadable } from './failure.ts';
import { HttpRefusal, unavailableBecause } from './refusal.ts';

/** The model reads it where nobody can say what the call has done. */
export const UNKNOWN =
  'The outcome of the call is unknown: it may or may not have taken effect. Verify before you repeat it.';

/** How a call has failed. A server that was started again answers calls of its old connections with any error. */
export async function endOf(
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
  return doubt.mayHaveRun ? 'forgotten' : 'not begun';
}

/** The error of which the model reads the message. */
export function toToolError(server: string, error: unknown, signal: AbortSignal): unknown {
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
