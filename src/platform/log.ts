import { createRequire } from 'node:module';
import { Writable } from 'node:stream';
import { type LoggerOptions, pino } from 'pino';
import type { PinoPretty } from 'pino-pretty';
import type { BatonError, ErrorCode, ErrorRecord, ProviderFailure } from '../domain/errors.ts';
import { formatId } from '../domain/ids.ts';
import type { PendingKind, RunStatus } from '../domain/run/run.ts';
import type { Usage } from '../domain/usage.ts';
import { traceIds } from './tracing.ts';

type Step = Readonly<{ sessionId: string; runId: string; step: number; attempt: number }>;

/** `broken`: it failed, was stopped, or broke off. */
type ModelCallOutcome = 'answered' | 'broken';

export const RECOVERY_REASONS = ['lease_expired', 'worker_dead', 'job_lost'] as const;
export type RecoveryReason = (typeof RECOVERY_REASONS)[number];

/**
 * Everything that is ever logged: a closed set, so that it can be searched, alerted on and kept free of prompts and keys. The only
 * texts that are not ours are what an MCP server prints on its standard error, at `debug`, and what libraries warn of.
 */
export type LogEvent =
  | Readonly<{
      event: 'process_started';
      role: string;
      workerId: string;
      /** The version of the job protocol that it speaks. */
      engine: number;
      backend: string;
      url?: string;
      monitorUrl?: string;
    }>
  | Readonly<{ event: 'process_stopping'; signal: string }>
  /**
   * Its orderly end took too long, because something does not answer: it ends without. What it
   * had in hand is recovered.
   */
  | Readonly<{ event: 'process_cut_short'; afterMs: number }>
  | Readonly<{ event: 'process_failed'; role: string; error: SafeError }>
  /** A library, or Node, would have printed this: once, however often it is said. */
  | Readonly<{ event: 'library_warning'; library: string; message: string }>
  /** The process may open more connections than Postgres has left at this moment. */
  | Readonly<{ event: 'connections_scarce'; needed: number; allowed: number; inUse: number }>
  /** The folder of agents has no YAML file: no session can be created. */
  | Readonly<{ event: 'agents_missing'; folder: string }>
  /** The folder of agents has changed, and this many are offered from now on. */
  | Readonly<{ event: 'agents_changed'; agents: number }>
  /** It has changed into something that is wrong in this place: the agents stay what they were. */
  | Readonly<{ event: 'agents_rejected'; file: string; keys: readonly string[] }>
  /** No provider is configured for the agent's model here: sessions of it are refused. */
  | Readonly<{ event: 'agent_without_provider'; agent: string; model: string }>
  /** Nobody has told how large the model's window is: it is taken to have that many tokens. */
  | Readonly<{ event: 'agent_window_guessed'; agent: string; model: string; contextWindow: number }>
  | Readonly<{ event: 'migrations_applied'; names: readonly string[] }>
  /** `waitedMs`: since the work was due. */
  | (Readonly<{
      event: 'job_claimed';
      kind: PendingKind;
      leftovers: boolean;
      resumeCount: number;
      waitedMs: number;
    }> &
      Step)
  /** A request for a step is about to be sent, and is taken to have that many tokens. */
  | (Readonly<{ event: 'context_measured'; tokens: number; isAnchored: boolean }> & Step)
  /** A model was asked and has answered, or not. Without `firstChunkMs` nothing came at all. */
  | (Readonly<{
      event: 'model_called';
      purpose: 'step' | 'compaction';
      model: string;
      outcome: ModelCallOutcome;
      firstChunkMs?: number;
      durationMs: number;
      usage: Usage;
      /** Null: nobody knows the model's prices. */
      costUsd: number | null;
    }> &
      Step)
  | (Readonly<{
      event: 'compaction_finished';
      outcome: string;
      calls: number;
      strategy?: string;
      /** Where a round was begun, as the three below. */
      round?: number;
      /** Of the view. */
      tokensBefore?: number;
      /** Of the view; absent where no other one was made. */
      tokensAfter?: number;
      /** Messages that the summary stands for. */
      messages?: number;
      durationMs: number;
    }> &
      Partial<ErrorRecord> &
      Step)
  | (Readonly<{
      event: 'step_finished';
      branch: string;
      finishReason: string;
      toolCalls: number;
      durationMs: number;
    }> &
      Step)
  | (Readonly<{ event: 'prune_finished'; prunedCount: number; savedTokens: number; durationMs: number }> & Step)
  | Readonly<{ event: 'run_ended'; runId: string; sessionId: string; status: RunStatus; reason?: string }>
  /** The step has calls that somebody is asked about: nobody works on the run until they are answered. */
  | (Readonly<{ event: 'run_waits'; calls: number }> & Step)
  /** Nobody answered in time, or the run's deadline has passed: it goes on without answers. */
  | Readonly<{ event: 'run_wait_expired'; runId: string; sessionId: string; calls: number }>
  | (Readonly<{ event: 'step_failed'; retryInMs?: number }> & FailureFields & Step)
  | (Readonly<{ event: 'step_fenced' }> & Step)
  /** A heartbeat came back without this run: another worker has it, its step is stopped. */
  | Readonly<{ event: 'claim_lost'; runId: string }>
  | (Readonly<{ event: 'step_handed_back' }> & Step)
  | (Readonly<{ event: 'step_cancelled' }> & Step)
  | (Readonly<{ event: 'tool_started'; tool: string; callKey: string }> & Step)
  | (Readonly<{ event: 'tool_finished'; tool: string; callKey: string; success: boolean; durationMs: number }> & Step)
  | (Readonly<{ event: 'tool_outcome_unknown'; tool: string; callKey: string; repeated: boolean }> & Step)
  /** Commands of `bash` and MCP servers over stdio can read the worker's keys here, so that with them there are no tenants. */
  | Readonly<{ event: 'commands_not_apart'; reason: string }>
  | Readonly<{ event: 'mcp_server_connected'; server: string; tools: number }>
  /** It cannot be reached, or its connection broke: the next use waits for that long and then tries again. */
  | Readonly<{ event: 'mcp_server_failed'; server: string; retryInMs: number; error: SafeError }>
  | Readonly<{ event: 'mcp_server_output'; server: string; line: string }>
  /** It has said more than is logged within a minute. */
  | Readonly<{ event: 'mcp_server_output_left_out'; server: string; lines: number }>
  /** It offers other tools than before: new sessions get them. */
  | Readonly<{ event: 'mcp_tools_changed'; server: string; tools: number }>
  /** An agent names a server whose command is not on this machine: new sessions of it are refused. */
  | Readonly<{ event: 'mcp_command_missing'; server: string; command: string }>
  | Readonly<{ event: 'mcp_server_unused'; server: string }>
  /** An agent names tools that the server does not offer. */
  | Readonly<{ event: 'mcp_tools_missing'; server: string; agent: string; tools: readonly string[] }>
  /** A session calls a tool that is not what it was when the session was created. */
  | Readonly<{
      event: 'mcp_tool_drifted';
      server: string;
      tool: string;
      change: 'changed' | 'gone';
      sessionId: string;
      runId: string;
    }>
  /** They had waited for others of their tenant to end. */
  | Readonly<{ event: 'runs_released'; runIds: readonly string[] }>
  | Readonly<{ event: 'job_ignored'; runId: string; reason: string }>
  | Readonly<{ event: 'job_invalid'; queue: string; jobId: string }>
  | Readonly<{ event: 'job_failed'; runId: string; error: SafeError }>
  | Readonly<{ event: 'jobs_not_enqueued'; runIds: readonly string[]; error: SafeError }>
  | Readonly<{ event: 'run_recovered'; runId: string; sessionId: string; reason: RecoveryReason }>
  /** An operator has asked for another try of a failed run, which goes on. */
  | Readonly<{ event: 'run_retried'; runId: string; sessionId: string }>
  | Readonly<{ event: 'run_given_up'; runId: string; sessionId: string; resumeCount: number }>
  | Readonly<{ event: 'sweep_failed'; error: SafeError }>
  | Readonly<{
      event: 'retention_applied';
      /** Null: only sessions that have expired were removed. */
      before: string | null;
      sessions: number;
      events: number;
      blobs: number;
      auditEntries: number;
      failedJobs: number;
    }>
  /** Nothing had referred to them for a day. */
  | Readonly<{ event: 'blobs_collected'; blobs: number }>
  | Readonly<{ event: 'retention_failed'; error: SafeError }>
  /** Redis counts no requests: they are all let through meanwhile. */
  | Readonly<{ event: 'request_rate_unknown'; error: SafeError }>
  /** Its lock is free and it gives no sign of life; whatever it had in hand has gone back to the queue. */
  | Readonly<{ event: 'worker_dead'; deadWorkerId: string; runs: number }>
  /** The connection of this worker's own lock is gone; it lives on, and takes another lock. */
  | Readonly<{ event: 'worker_lock_lost'; workerId: string }>
  | Readonly<{ event: 'worker_lock_regained'; workerId: string }>
  | Readonly<{ event: 'worker_lock_error'; workerId: string; error: SafeError }>
  | Readonly<{ event: 'heartbeat_failed'; claims: number; error: SafeError }>
  | Readonly<{ event: 'queue_error'; queue: string; error: SafeError }>
  | Readonly<{ event: 'bus_error'; error: SafeError }>
  | Readonly<{ event: 'database_connection_lost'; error: SafeError }>
  | Readonly<{ event: 'http_request_failed'; method: string; path: string; requestId: string; error: SafeError }>
  | Readonly<{ event: 'metrics_source_failed'; source: 'database' | 'queue'; error: SafeError }>
  | Readonly<{ event: 'embedded_postgres'; line: string }>
  /** The embedded Postgres has ended by itself, or could not be started again: the next try comes after the delay. */
  | Readonly<{ event: 'embedded_postgres_down'; retryInMs: number; error: SafeError }>
  | Readonly<{ event: 'embedded_postgres_restarted'; pid: number }>;

/** What a log line says of a failure: `provider` is what the provider said, without prompt and credentials. */
type FailureFields = Readonly<{ code: ErrorCode; error: SafeError; provider?: ProviderFailure }>;

/** What may be said of an error in a log: providers put the whole prompt into theirs. */
export type SafeError = Readonly<{ name: string; code?: string; message?: string }>;

type LogLevel = 'debug' | 'info' | 'warn' | 'error';
export type Log = (level: LogLevel, event: LogEvent) => void;

/** Where lines go. */
type Destination = Readonly<{ write: (line: string) => void }>;

export type LogOptions = Readonly<{
  level: string;
  /** Default: stdout. */
  destination?: Destination;
  /** Whether a person reads along. Default: where stdout is a terminal and no destination is named. */
  isTerminal?: boolean;
}>;

/**
 * A logger of JSON lines, each with the ids of the trace that it belongs to, where there is one; for a terminal, of lines
 * that a person can read. Ids are those of the API.
 */
export function createLog({ level, destination, isTerminal }: LogOptions): Log {
  const settings: LoggerOptions = {
    level,
    base: null,
    messageKey: 'event',
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (name) => ({ level: name }) },
  };
  const isRead = isTerminal ?? (destination === undefined && process.stdout.isTTY === true);
  const written = isRead ? readable(destination) : destination;
  const logger = written === undefined ? pino(settings) : pino(settings, written);
  return (name, event) => logger[name]({ ...withPublicIds(event), ...traceIds() });
}

/** Loaded only where a person reads: nothing else has a use for it. */
function readable(destination: Destination | undefined): Destination {
  const pretty = createRequire(import.meta.url)('pino-pretty') as typeof PinoPretty;
  return pretty({
    messageKey: 'event',
    translateTime: 'SYS:HH:MM:ss.l',
    singleLine: true,
    errorLikeObjectKeys: [],
    sync: true,
    ...(destination !== undefined && { destination: toStream(destination), colorize: false }),
  });
}

function toStream({ write }: Destination): Writable {
  return new Writable({
    write(chunk, _encoding, done) {
      write(String(chunk));
      done();
    },
  });
}

/** A row has a UUID; whoever reads a log knows what the API calls it. */
function withPublicIds(event: LogEvent): object {
  return {
    ...event,
    ...('runId' in event && { runId: formatId('run', event.runId) }),
    ...('sessionId' in event && { sessionId: formatId('session', event.sessionId) }),
    ...('runIds' in event && { runIds: event.runIds.map((id) => formatId('run', id)) }),
  };
}

/** Of an error that a call to a model has ended with, the name of what was thrown; of any other one its message too. */
export function failureFields(error: BatonError): FailureFields {
  const { code, provider } = error;
  if (provider === undefined) return { code, error: toSafeError(error) };
  return { code, error: toSafeError(error.cause), provider };
}

/** Name and code of an error; its message only where it is ours or the system's, never a provider's. */
export function toSafeError(error: unknown): SafeError {
  if (!(error instanceof Error)) return { name: typeof error };
  const code = 'code' in error && typeof error.code === 'string' ? { code: error.code } : {};
  const fromProvider = error.name.startsWith('AI_') || 'requestBodyValues' in error;
  return { name: error.name, ...code, ...(fromProvider ? {} : { message: error.message.slice(0, 500) }) };
}
