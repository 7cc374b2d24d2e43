import { ProtocolError, ProtocolErrorCode, SdkError, SdkErrorCode, SdkHttpError } from '@modelcontextprotocol/client';
import { z } from 'zod';
import { BatonError } from '../../domain/errors.ts';
import { BROKEN_OFF, isSentByServer } from './incoming.ts';
import { HttpRefusal } from './refusal.ts';

type Failure =
  /** The server no longer knows the connection, so it has not started the request. */
  | 'refused'
  /** The connection broke during the request. */
  | 'lost'
  /** No answer in time, or the run was stopped. */
  | 'stopped'
  /** The server answered, with an error or what cannot be read. */
  | 'answered'
  /** The request was never sent. */
  | 'unsent';

/** No server at this address: not one byte of the request was sent. */
const UNREACHABLE = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH']);

export function failureOf(error: unknown, signal: AbortSignal): Failure {
  if (signal.aborted) return 'stopped';
  if (error instanceof BatonError) return error.code === 'payload_too_large' ? 'answered' : 'unsent';
  if (error instanceof HttpRefusal) {
    const isUnknownSession = error.status === 404 || (error.status === 400 && CONNECTION_WORDS.test(error.body));
    return isUnknownSession ? 'refused' : 'answered';
  }
  // Redirects that are not followed, and answers of a kind that the SDK does not read.
  if (error instanceof SdkHttpError || error instanceof z.ZodError) return 'answered';
  if (error instanceof SdkError) return ofSdkError(error);
  if (error instanceof ProtocolError) return ofProtocolError(error);
  const cause = error instanceof Error ? error.cause : undefined;
  if (cause instanceof Error && 'code' in cause && UNREACHABLE.has(String(cause.code))) return 'unsent';
  return error instanceof Error && error.message === 'Not connected' ? 'refused' : 'lost';
}

const ofProtocolError = ({ code, data }: ProtocolError): Failure =>
  isSentByServer(data) || code !== BROKEN_OFF ? 'answered' : 'lost';

function ofSdkError({ code }: SdkError): Failure {
  switch (code) {
    case SdkErrorCode.RequestTimeout:
      return 'stopped';
    case SdkErrorCode.NotConnected:
      return 'refused';
    case SdkErrorCode.ConnectionClosed:
    case SdkErrorCode.SendFailed:
      return 'lost';
    default:
      return 'answered';
  }
}

/** An answer came, and nobody can say what it is. */
export function isUnreadable(error: unknown): boolean {
  const isParseError = error instanceof ProtocolError && error.code === ProtocolErrorCode.ParseError;
  return isParseError || !(error instanceof ProtocolError);
}

const CONNECTION_WORDS = /session|initiali[sz]/i;

/**
 * By what servers answer a connection that they forgot when they started again: invalid request or parameters (the
 * Python SDK), and the errors of servers' own.
 */
const OF_FORGOTTEN: ReadonlySet<number> = new Set([-32_600, -32_602, -32_000, -32_001, -32_002, -32_080]);

/** What an answered request shows of the connection. */
export type Doubt =
  /** The server may have forgotten the connection. `begun`: it may have carried the request out, all the same. */
  Readonly<{ kind: 'maybe-forgotten'; mayHaveRun: boolean }> | Readonly<{ kind: 'none' }>;

export function doubtOf(error: unknown): Doubt {
  if (error instanceof HttpRefusal) return { kind: 'maybe-forgotten', mayHaveRun: error.status >= 500 };
  if (error instanceof ProtocolError && isSentByServer(error.data)) {
    if (OF_FORGOTTEN.has(error.code)) return { kind: 'maybe-forgotten', mayHaveRun: false };
    if (CONNECTION_WORDS.test(error.message)) return { kind: 'maybe-forgotten', mayHaveRun: true };
  }
  return { kind: 'none' };
}
