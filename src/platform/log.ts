import { createRequire } from 'node:module';
import { Writable } from 'node:stream';
import { type LoggerOptions, pino } from 'pino';
import type { PinoPretty } from 'pino-pretty';
import type { BatonError, ErrorCode, ErrorRecord, ProviderFailure } from '../domain/errors.ts';
import { formatId } from '../domain/ids.ts';
import type { PendingKind, RunStatus } from '../domain/run/run.ts';
import type { FireResult } from '../domain/schedules/plan-fire.ts';
import type { Usage } from '../domain/usage.ts';
import type { LossReason } from './span-losses.ts';
import { traceIds } from './tracing.ts';

type Step = Readonly<{ sessionId: string; runId: string; step: number; attempt: number }>;

/** `broken`: the call failed, was stopped, or broke off. */
type ModelCallOutcome = 'answered' | 'broken';

/**
 * Why an API process gave up a request, an answer or a connection, so that others have room: see docs/operations.md.
 */
export const DROP_REASONS = [
  'answer_unread',
  'answers_full',
  'body_stalled',
  'intake_full',
  'door_full',
  'connections_full',
] as const;
export type DropReason = (typeof DROP_REASONS)[number];

export const RECOVERY_REASONS = ['lease_expired', 'worker_dead', 'job_lost'] as const;
export type RecoveryReason = (typeof RECOVERY_REASONS)[number];

/**
 * All log events: a closed set, so that the log can be searched, alerted on and kept free of prompts and keys. Texts that
 * are not Baton's: the lines of an MCP server and of the embedded Postgres, at `debug`; warnings of libraries; and
 * errors, of which `toSafeError` leaves out the messages of providers.
 * Failures that can repeat are said once for each cause and minute, with `repeated`: see `sayOnceAMinute`.
 */
export type LogEvent =
  | Readonly<{
      event: 'process_started';
      role: string;
      workerId: string;
      /** Version of the job protocol. */
      engine: number;
      backend: string;
      url?: string;
      monitorUrl?: string;
    }>
  | Readonly<{ event: 'process_stopping'; signal: string }>
  /** The orderly end took too long, so the process exits. Runs that it still had are recovered. */
  | Readonly<{ event: 'process_cut_short'; afterMs: number }>
  | Readonly<{ event: 'process_failed'; role: string; error: SafeError }>
  /** A warning that a library or Node would have printed. Each text is logged once. */
  | Readonly<{ event: 'library_warning'; library: string; message: string }>
  /** The process may open more connections than Postgres has free now. */
  | Readonly<{ event: 'connections_scarce'; needed: number; allowed: number; inUse: number }>
  /** The agent folder has no YAML file, so no session can be created. */
  | Readonly<{ event: 'agents_missing'; folder: string }>
  /** This worker does not take the run, because it lacks tools in code: `agent/tool`. Each is logged once a minute. */
  | Readonly<{ event: 'agent_code_missing'; runId: string; tools: readonly string[] }>
  /** The agent folder has changed. `agents`: how many are offered from now on. */
  | Readonly<{ event: 'agents_changed'; agents: number }>
  /** The agent folder has changed, but the file is wrong, so the agents stay as they were. */
  | Readonly<{ event: 'agents_rejected'; file: string; keys: readonly string[] }>
  /** No provider is configured for the agent's model, so its sessions are refused. */
  | Readonly<{ event: 'agent_without_provider'; agent: string; model: string }>
  /** The window of the agent's model is unknown, so `contextWindow` tokens are assumed. */
  | Readonly<{ event: 'agent_window_guessed'; agent: string; model: string; contextWindow: number }>
  /** In the window of its model, no compaction can bring a view of the agent below the agent's threshold. */
  | Readonly<{
      event: 'agent_threshold_low';
      agent: string;
      model: string;
      thresholdTokens: number;
      leastTokens: number;
    }>
  | Readonly<{ event: 'migrations_applied'; names: readonly string[] }>
  /** `waitedMs`: time since the pending work was due. */
  | (Readonly<{
      event: 'job_claimed';
      kind: PendingKind;
      leftovers: boolean;
      resumeCount: number;
      waitedMs: number;
    }> &
      Step)
  /** The measured size of a request that is about to be sent. */
  | (Readonly<{ event: 'context_measured'; tokens: number; isAnchored: boolean }> & Step)
  /** A model call has ended. Without `firstChunkMs` nothing was streamed. */
  | (Readonly<{
      event: 'model_called';
      purpose: 'step' | 'compaction';
      agent: string;
      model: string;
      outcome: ModelCallOutcome;
      firstChunkMs?: number;
      durationMs: number;
      usage: Usage;
      /** Null: the model's prices are unknown. */
      costUsd: number | null;
    }> &
      Step)
  /** The provider gave the answer of an earlier attempt again, so the model was not asked. */
  | (Readonly<{ event: 'answer_read_again'; responseId: string }> & Step)
  /** The worker of a call is gone, and its work elsewhere is gone on with. */
  | (Readonly<{ event: 'tool_call_resumed'; tool: string; callKey: string }> & Step)
  | (Readonly<{
      event: 'compaction_finished';
      outcome: string;
      calls: number;
      strategy?: string;
      /** Present if a round was begun, like the next three. */
      round?: number;
      /** Of the view. */
      tokensBefore?: number;
      /** Of the view; absent if it stayed as it was. */
      tokensAfter?: number;
      /** Messages that the summary replaces. */
      messages?: number;
      durationMs: number;
    }> &
      Partial<ErrorRecord> &
      Step)
  /**
   * A compaction left the view about as large as the threshold, which is said once in a session: what cannot be taken out
   * takes that much. The next one waits until the view has `waitsUntilTokens`.
   */
  | (Readonly<{
      event: 'compaction_threshold_low';
      agent: string;
      thresholdTokens: number;
      floorTokens: number;
      waitsUntilTokens: number;
    }> &
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
  /** `agent` is absent if it could not be read. */
  | Readonly<{
      event: 'run_ended';
      runId: string;
      sessionId: string;
      agent?: string;
      status: RunStatus;
      reason?: string;
    }>
  /** The step has required actions. The run waits without a worker until they are answered. */
  | (Readonly<{ event: 'run_waits'; calls: number }> & Step)
  /** The calls were not answered in time, or the run's deadline has passed. It goes on without answers. */
  | Readonly<{ event: 'run_wait_expired'; runId: string; sessionId: string; calls: number }>
  | (Readonly<{ event: 'step_failed'; retryInMs?: number }> & FailureFields & Step)
  /** The provider refused the request for its form. The step is made again with these changes. */
  | (Readonly<{ event: 'request_adapted'; model: string; changes: readonly string[] }> & Step)
  | (Readonly<{ event: 'step_fenced' }> & Step)
  /** A heartbeat's answer lacks this run: another worker has claimed it, so this worker stops its step. */
  | Readonly<{ event: 'claim_lost'; runId: string }>
  | (Readonly<{ event: 'step_handed_back' }> & Step)
  | (Readonly<{ event: 'step_cancelled' }> & Step)
  | (Readonly<{ event: 'tool_started'; tool: string; callKey: string }> & Step)
  | (Readonly<{ event: 'tool_finished'; tool: string; callKey: string; success: boolean; durationMs: number }> & Step)
  | (Readonly<{ event: 'tool_outcome_unknown'; tool: string; callKey: string; repeated: boolean }> & Step)
  /** Commands of `bash` and MCP servers over stdio can read the worker's keys here, and so the data of all tenants. */
  | Readonly<{ event: 'commands_not_apart'; reason: string }>
  | Readonly<{ event: 'mcp_server_connected'; server: string; tools: number }>
  /** The server cannot be reached, or its connection broke. The next use waits `retryInMs` and tries again. */
  | Readonly<{ event: 'mcp_server_failed'; server: string; retryInMs: number; error: SafeError }>
  | Readonly<{ event: 'mcp_server_output'; server: string; line: string }>
  /** The server printed more lines than are logged per minute. */
  | Readonly<{ event: 'mcp_server_output_left_out'; server: string; lines: number }>
  /** The server offers other tools than before, which new sessions get. */
  | Readonly<{ event: 'mcp_tools_changed'; server: string; tools: number }>
  /** The server lists a tool that no agent can be offered; its others are. */
  | Readonly<{ event: 'mcp_tool_left_out'; server: string; tool: string; reason: string }>
  /** An agent names a server whose command is not on this machine, so its new sessions are refused. */
  | Readonly<{ event: 'mcp_command_missing'; server: string; command: string }>
  | Readonly<{ event: 'mcp_server_unused'; server: string }>
  /** An agent names tools that the server does not offer. */
  | Readonly<{ event: 'mcp_tools_missing'; server: string; agent: string; tools: readonly string[] }>
  /** A session calls a tool whose definition has changed since the session was created. */
  | Readonly<{
      event: 'mcp_tool_drifted';
      server: string;
      tool: string;
      change: 'changed' | 'gone';
      sessionId: string;
      runId: string;
    }>
  /** Throttled runs of a tenant got free slots. */
  | Readonly<{ event: 'runs_released'; runIds: readonly string[] }>
  | Readonly<{ event: 'job_ignored'; runId: string; reason: string }>
  | Readonly<{ event: 'job_invalid'; queue: string; jobId: string }>
  | Readonly<{ event: 'job_failed'; runId: string; error: SafeError }>
  /** An attempt to deliver to a webhook. `status`: null, there was no response. */
  | Readonly<{
      event: 'webhook_attempted';
      deliveryId: string;
      result: 'delivered' | 'retry' | 'failed' | 'disable';
      attempt: number;
      status: number | null;
      durationMs: number;
      /** What its tenant is not told: whether its host is private, or unknown. */
      reason?: string;
    }>
  /** Its receiver answered 410, or failed for three days. */
  | Readonly<{ event: 'webhook_disabled'; webhookId: string; reason: 'gone' | 'failing' }>
  | Readonly<{ event: 'webhook_job_failed'; deliveryId: string; error: SafeError }>
  | Readonly<{ event: 'webhook_dispatch_failed'; error: SafeError }>
  /** A fire of a schedule that was due, or asked for. */
  | Readonly<{ event: 'schedule_fired'; scheduleId: string; result: FireResult; lateMs: number; error?: SafeError }>
  /** A start has put the webhooks or schedules that it declares. `undeclared`: declared before, and not any more. */
  | Readonly<{
      event: 'declarations_applied';
      what: 'webhooks' | 'schedules';
      created: number;
      changed: number;
      undeclared: number;
    }>
  | Readonly<{ event: 'schedules_failed'; error: SafeError }>
  /** Children could not be looked after; they are still due. */
  | Readonly<{ event: 'children_failed'; error: SafeError }>
  | Readonly<{ event: 'jobs_not_enqueued'; runIds: readonly string[]; error: SafeError }>
  | Readonly<{ event: 'run_recovered'; runId: string; sessionId: string; reason: RecoveryReason }>
  /** An operator retried the failed job of a run, which goes on. */
  | Readonly<{ event: 'run_retried'; runId: string; sessionId: string }>
  | Readonly<{ event: 'run_given_up'; runId: string; sessionId: string; resumeCount: number }>
  | Readonly<{ event: 'sweep_failed'; error: SafeError }>
  | Readonly<{
      event: 'retention_applied';
      /** Null: only expired sessions were removed. */
      before: string | null;
      sessions: number;
      events: number;
      blobs: number;
      auditEntries: number;
      failedJobs: number;
    }>
  /** Blobs without a reference for a day were removed. */
  | Readonly<{ event: 'blobs_collected'; blobs: number }>
  | Readonly<{ event: 'retention_failed'; error: SafeError }>
  /** The words of new messages could not be indexed. Tried again after a second. */
  | Readonly<{ event: 'words_index_failed'; error: SafeError }>
  /** Redis cannot count requests, so every request passes meanwhile. */
  | Readonly<{ event: 'request_rate_unknown'; error: SafeError }>
  /** The worker's lock is free and it gives no sign of life. Its runs went back to the queue. */
  | Readonly<{ event: 'worker_dead'; deadWorkerId: string; runs: number }>
  | Readonly<{
      event: 'step_process_ended';
      /** 2 and on: the first process is this one. */
      process: number;
      exitCode: number | null;
      signal: string | null;
      retryInMs: number;
    }>
  /** The connection with this worker's lock is gone. The worker goes on, and takes another lock. */
  | Readonly<{ event: 'worker_lock_lost'; workerId: string }>
  | Readonly<{ event: 'worker_lock_regained'; workerId: string }>
  | Readonly<{ event: 'worker_lock_error'; workerId: string; error: SafeError }>
  | Readonly<{ event: 'heartbeat_failed'; claims: number; error: SafeError }>
  | Readonly<{ event: 'queue_error'; queue: string; error: SafeError }>
  /** A process with another database uses the prefix in Redis, too: each drops jobs of the other. */
  | Readonly<{ event: 'queue_prefix_shared'; prefix: string; other: string }>
  | Readonly<{ event: 'bus_error'; error: SafeError }>
  | Readonly<{ event: 'database_connection_lost'; error: SafeError }>
  /** Postgres was promoted or restored, and may have lost commits: views are read anew, readers get a reset. */
  | Readonly<{ event: 'history_changed'; epoch: string }>
  /**
   * The function `authenticate` of the program threw, returned no caller (`fields` are wrong), or took too long. What it
   * threw is left out, but for the name of the error.
   */
  | Readonly<{
      event: 'authenticate_failed';
      reason: 'threw' | 'invalid' | 'late';
      fields?: readonly string[];
      name?: string;
    }>
  /** Another program, or a newer version, has notified the channel. What it announced is found by the reconciler. */
  | Readonly<{ event: 'notification_ignored'; channel: string; error: SafeError }>
  | Readonly<{
      event: 'http_request_failed';
      status: number;
      method: string;
      path: string;
      requestId: string;
      error: SafeError;
    }>
  /** A request, an answer or a connection that was given up, so that others have room. */
  | Readonly<{ event: 'http_dropped'; reason: DropReason }>
  | Readonly<{ event: 'metrics_source_failed'; source: 'database' | 'queue'; error: SafeError }>
  /** Ended spans that no receiver got: too many waited, or it did not take them. */
  | Readonly<{ event: 'spans_lost'; reason: LossReason; spans: number }>
  | Readonly<{ event: 'embedded_postgres'; line: string }>
  /** The embedded Postgres exited, or could not be started again. The next try comes after `retryInMs`. */
  | Readonly<{ event: 'embedded_postgres_down'; retryInMs: number; error: SafeError }>
  | Readonly<{ event: 'embedded_postgres_restarted'; pid: number }>;

/** Fields of a failure. `provider`: the provider's report, without prompt and credentials. */
type FailureFields = Readonly<{ code: ErrorCode; error: SafeError; provider?: ProviderFailure }>;

/** The loggable fields of an error. Providers put the whole prompt into their messages. */
export type SafeError = Readonly<{ name: string; code?: string; message?: string }>;

type LogLevel = 'debug' | 'info' | 'warn' | 'error';
export type Log = (level: LogLevel, event: LogEvent) => void;

type Destination = Readonly<{ write: (line: string) => void }>;

export type LogOptions = Readonly<{
  level: string;
  /** Default: stdout. */
  destination?: Destination;
  /** Whether a person reads the output. Default: whether stdout is a terminal and no destination is given. */
  isTerminal?: boolean;
}>;

/** A logger of JSON lines with trace ids, or of readable lines on a terminal. Ids are those of the API. */
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
  return logTo(logger);
}

/** The part of a logger that Baton uses. One of pino is one. */
export type GivenLogger = Readonly<Record<Exclude<LogLevel, 'silent'>, (entry: object) => void>>;

/** Logs to a logger that a program has. */
export function logTo(logger: GivenLogger): Log {
  return (name, event) => logger[name]({ ...withPublicIds(event), ...traceIds() });
}

/** Loaded only for a terminal, the only output that needs it. */
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

/** Replaces UUIDs of rows by the ids of the API, which readers of a log know. */
function withPublicIds(event: LogEvent): object {
  return {
    ...event,
    ...('runId' in event && { runId: formatId('run', event.runId) }),
    ...('deliveryId' in event && { deliveryId: formatId('delivery', event.deliveryId) }),
    ...('scheduleId' in event && { scheduleId: formatId('schedule', event.scheduleId) }),
    ...('webhookId' in event && { webhookId: formatId('webhook', event.webhookId) }),
    ...('sessionId' in event && { sessionId: formatId('session', event.sessionId) }),
    ...('runIds' in event && { runIds: event.runIds.map((id) => formatId('run', id)) }),
  };
}

/** For an error of a model call, the name of the original error; for other errors also the message. */
export function failureFields(error: BatonError): FailureFields {
  const { code, provider } = error;
  if (provider === undefined) return { code, error: toSafeError(error) };
  return { code, error: toSafeError(error.cause), provider };
}

/** Name and code of an error. The message only if it is ours or the system's, never a provider's. */
export function toSafeError(error: unknown): SafeError {
  if (!(error instanceof Error)) return { name: typeof error };
  const code = 'code' in error && typeof error.code === 'string' ? { code: error.code } : {};
  const fromProvider = error.name.startsWith('AI_') || 'requestBodyValues' in error;
  return { name: error.name, ...code, ...(fromProvider ? {} : { message: error.message.slice(0, 500) }) };
}
