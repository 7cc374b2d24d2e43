// The shapes of the API. Written by "npm run generate" from src/api; never change it here.
import type { Json } from './json.ts';
import type { Part } from './parts.ts';

export type Delivery = 'steer' | 'followup' | 'interrupt' | 'reject';

export type ErrorCode =
  | 'agent_not_found'
  | 'already_answered'
  | 'auth'
  | 'blocked_transition'
  | 'byte_overflow'
  | 'config_invalid'
  | 'conflict'
  | 'content_policy'
  | 'context_exhausted'
  | 'fenced'
  | 'forbidden'
  | 'idempotency_conflict'
  | 'inbox_full'
  | 'input_overflow'
  | 'intake_full'
  | 'internal'
  | 'invalid_request'
  | 'limit_exceeded'
  | 'malformed_history'
  | 'method_not_allowed'
  | 'model_not_allowed'
  | 'model_unavailable'
  | 'not_acceptable'
  | 'not_found'
  | 'output_invalid'
  | 'output_reserve_overflow'
  | 'overloaded'
  | 'payload_too_large'
  | 'price_unknown'
  | 'quota'
  | 'quota_exceeded'
  | 'rate_limited'
  | 'resume_limit'
  | 'session_busy'
  | 'silent_truncation'
  | 'storage_exceeded'
  | 'store_unavailable'
  | 'summary_invalid'
  | 'timeout'
  | 'tools_unavailable'
  | 'tools_unsupported'
  | 'transport'
  | 'unauthenticated'
  | 'unsupported_media_type';

export type FinishReason = 'stop' | 'length' | 'content-filter' | 'tool-calls' | 'error' | 'other' | 'aborted';

export type IncompleteReason =
  | 'max_steps'
  | 'budget'
  | 'deadline'
  | 'doom_loop'
  | 'context_exhausted'
  | 'output_invalid';

export type LimitReason = 'max_steps' | 'budget' | 'deadline' | 'doom_loop';

export type RunErrorCode =
  | 'agent_not_found'
  | 'already_answered'
  | 'auth'
  | 'blocked_transition'
  | 'byte_overflow'
  | 'config_invalid'
  | 'conflict'
  | 'content_policy'
  | 'context_exhausted'
  | 'fenced'
  | 'idempotency_conflict'
  | 'inbox_full'
  | 'input_overflow'
  | 'intake_full'
  | 'internal'
  | 'invalid_request'
  | 'limit_exceeded'
  | 'malformed_history'
  | 'model_not_allowed'
  | 'model_unavailable'
  | 'not_found'
  | 'output_invalid'
  | 'output_reserve_overflow'
  | 'overloaded'
  | 'payload_too_large'
  | 'price_unknown'
  | 'quota'
  | 'quota_exceeded'
  | 'rate_limited'
  | 'resume_limit'
  | 'session_busy'
  | 'silent_truncation'
  | 'storage_exceeded'
  | 'store_unavailable'
  | 'summary_invalid'
  | 'timeout'
  | 'tools_unavailable'
  | 'tools_unsupported'
  | 'transport';

export type RunStatus =
  | 'queued'
  | 'running'
  | 'requires_action'
  | 'cancelling'
  | 'completed'
  | 'failed'
  | 'cancelled'
  | 'incomplete';

export type SessionStatus = 'idle' | 'busy' | 'requires_action';

export type SwitchReason = 'timeout' | 'overloaded' | 'transport' | 'rate_limited' | 'quota' | 'empty_answer';

export type UsageDimension = 'day' | 'agent' | 'model' | 'tenant';

export type WebhookEvent = 'run:completed' | 'run:failed' | 'run:cancelled' | 'run:incomplete' | 'run:requires-action';

export type Agent = Readonly<{
  name: string;
  version: string;
  description: string | null;
  /** True: a chat or a task that names no agent gets this one. */
  isDefault: boolean;
  model: string;
  /** Models that are asked one after another while the agent’s model cannot answer. */
  fallbacks: readonly string[];
  /** Other models that sessions may use. A name that ends with `*` stands for all that begin so. */
  models: readonly string[];
  /**
   * Tool names as the model calls them. `SERVER__*` stands for the tools of an MCP server. Empty if the tools
   * cannot be loaded.
   */
  tools: readonly string[];
  /** Tools of the agent’s MCP servers that the model is not offered, as this process saw them last. */
  leftOutTools: readonly Readonly<{ server: string; tool: string; reason: string }>[];
  /** Strategy and thresholds that keep the context small, as the agent’s file has them. */
  context: Readonly<{
    strategy: string;
    /**
     * Writer of summaries: a model, `agent:NAME`, or `__same__` for the model of the session. Strategies that need
     * no model do not use it.
     */
    summarizer: string;
    /** Share of the usable tokens from which old tool outputs are cleared. null: only on request. */
    pruneAtPercent: number | null;
    /** Share of the usable tokens from which a compaction begins if it pays. null: only when a request does not fit. */
    compactAtPercent: number | null;
    /** Share of the usable tokens from which a compaction begins whatever it costs. null: as above. */
    compactByPercent: number | null;
  }>;
  /** Reasons why no session of the agent can be created now. Empty: one can. */
  problems: readonly string[];
}>;

export type AgentLimits = Readonly<{
  maxSteps?: number | undefined;
  maxTokens?: number | undefined;
  maxCostUsd?: number | undefined;
  deadlineMs?: number | undefined;
  finalAnswer?: boolean | undefined;
}>;

/**
 * Differences of the session from its agent: another model, instructions after the agent’s own, the output
 * schema of its runs, and single settings and limits. Tools and approvals are the agent’s.
 */
export type AgentOverrides = Readonly<{
  model?: string | undefined;
  instructions?: string | undefined;
  settings?: ModelSettings | undefined;
  output?: OutputFormat | undefined;
  limits?: AgentLimits | undefined;
}>;

export type AllErrorGroups = Readonly<{
  since: string;
  complete: boolean;
  groups: readonly Readonly<{
    /** Fingerprint of the cause: equal for equal causes at any time. */
    fingerprint: string;
    code: RunErrorCode;
    provider: string | null;
    /** Model of the run’s last answer. null: the run had no answer. */
    model: string | null;
    agent: string;
    count: number;
    firstAt: string;
    lastAt: string;
    /** Hours (UTC) with failures. */
    hours: readonly Readonly<{ hour: string; count: number }>[];
    tenants: number;
    newest: readonly Readonly<{ runId: string; sessionId: string; at: string; tenant: string }>[];
  }>[];
}>;

export type AnsweredToolCall = Readonly<{
  runId: string;
  toolCallId: string;
  kind: 'approval' | 'output' | 'unknown_outcome' | 'input';
  /** Status of the run after this answer. */
  status: 'requires_action' | 'running';
  /** Calls that the run still waited for after this answer. */
  open: number;
}>;

export type ApiKey = Readonly<{
  id: string;
  name: string;
  /** The first characters of the key. */
  shown: string;
  scopes: readonly ('read' | 'write' | 'admin' | 'operator')[];
  createdAt: string;
  /** Last use of the key, exact to the minute. */
  lastUsedAt: string | null;
  /** Time at which the key expires. null: never. */
  expiresAt: string | null;
  revokedAt: string | null;
}>;

export type AuditEntry = Readonly<{
  seq: number;
  action:
    | 'admin:request'
    | 'console:login'
    | 'key:create'
    | 'key:revoke'
    | 'message:change'
    | 'message:limits'
    | 'message:remove'
    | 'message:webhook'
    | 'queue:clear'
    | 'run:cancel'
    | 'schedule:create'
    | 'schedule:delete'
    | 'schedule:pause'
    | 'schedule:resume'
    | 'schedule:run'
    | 'schedule:update'
    | 'session:agent'
    | 'session:cancel'
    | 'session:compact'
    | 'session:delete'
    | 'session:fork'
    | 'session:prune'
    | 'session:repin'
    | 'session:resume'
    | 'session:revert'
    | 'session:token'
    | 'session:unrevert'
    | 'session:update'
    | 'tool-call:answer'
    | 'webhook:create'
    | 'webhook:delete'
    | 'webhook:disable'
    | 'webhook:redeliver'
    | 'webhook:test'
    | 'webhook:update';
  /** Path of the request, or id of the changed thing. */
  target: string;
  /** Id of the API key. null: the command line acted, or no key existed yet. */
  keyId: string | null;
  createdAt: string;
}>;

export type Caller = Readonly<{
  tenant: string;
  /** Id of the API key. null: the service needs no key yet. */
  keyId: string | null;
  scopes: readonly ('read' | 'write' | 'admin' | 'operator')[];
  /** True: a page of the queues is at /admin/queues. */
  board: boolean;
  /** URL of the page of a trace, with `{traceId}` in it. null: none is configured. */
  traceUrl: string | null;
}>;

export type CallQuestion = Readonly<{
  key: string;
  /** Words of the tool for the person who answers. */
  message: string;
  /** Form to fill in, as a JSON Schema of an object. */
  schema?: Readonly<Record<string, Json>>;
  /** Page that the person opens, in place of a form. */
  url?: string;
}>;

export type CancelledSession = Readonly<{
  sessionId: string;
  runId: string | null;
  /** Status of the run. `idle`: none was active. */
  status:
    | 'queued'
    | 'running'
    | 'requires_action'
    | 'cancelling'
    | 'completed'
    | 'failed'
    | 'cancelled'
    | 'incomplete'
    | 'idle';
}>;

export type CompactionRow = Readonly<{
  kind: 'compaction';
  round: number;
  strategy: string;
  reason: string;
  state: string;
  tokensBefore: number;
  tokensAfter: number | null;
  /** US dollars. null if the price of a call is not known. */
  costUsd: number | null;
  error: RunError | null;
  /** Changes of the request for the summary after the provider had refused its form. null: none. */
  adapted: string | null;
  startedAt: string;
  finishedAt: string | null;
}>;

export type CompactRequest = Readonly<{
  model: string;
  instructions?: string | null | undefined;
  previous_response_id?: string | null | undefined;
  conversation?: string | Readonly<{ id: string }> | null | undefined;
  text?:
    | Readonly<{
        format?:
          | Readonly<{ type: 'text' }>
          | Readonly<{ type: 'json_object' }>
          | Readonly<{
              type: 'json_schema';
              name: string;
              description?: string | null | undefined;
              schema: Readonly<Record<string, Json>>;
              strict?: boolean | null | undefined;
            }>
          | null
          | undefined;
        verbosity?: 'medium' | undefined;
      }>
    | null
    | undefined;
  tools?:
    | readonly Readonly<{
        type: 'function';
        name: string;
        description?: string | null | undefined;
        parameters?: Readonly<Record<string, Json>> | null | undefined;
        strict?: boolean | null | undefined;
      }>[]
    | null
    | undefined;
  tool_choice?:
    | ('auto' | 'none' | 'required')
    | Readonly<{ type: 'function'; name: string }>
    | Readonly<{
        type: 'allowed_tools';
        mode: 'auto' | 'required';
        tools: readonly Readonly<{ type: 'function'; name: string }>[];
      }>
    | null
    | undefined;
  reasoning?:
    | Readonly<{
        effort?: 'none' | 'minimal' | 'low' | 'medium' | 'high' | 'xhigh' | 'max' | null | undefined;
        summary?: string | null | undefined;
        generate_summary?: string | null | undefined;
      }>
    | null
    | undefined;
  parallel_tool_calls?: boolean | null | undefined;
  truncation?: 'auto' | 'disabled' | null | undefined;
  user?: string | null | undefined;
  safety_identifier?: string | null | undefined;
  input?:
    | string
    | readonly (
        | Readonly<{
            type: 'message';
            role: 'user' | 'assistant' | 'system' | 'developer';
            content: string | readonly Readonly<{ type: string; [field: string]: unknown }>[];
            id?: string | null | undefined;
            status?: string | null | undefined;
            phase?: string | null | undefined;
          }>
        | Readonly<{
            type: 'function_call';
            call_id: string;
            name: string;
            arguments: string;
            [field: string]: unknown;
          }>
        | Readonly<{
            type: 'function_call_output';
            call_id: string;
            output: string | readonly Readonly<{ type: string; [field: string]: unknown }>[];
            [field: string]: unknown;
          }>
        | Readonly<{ type: 'reasoning'; [field: string]: unknown }>
        | Readonly<{ type: 'item_reference'; id: string }>
        | Readonly<{
            type: 'compaction';
            encrypted_content: string;
            id?: string | null | undefined;
            [field: string]: unknown;
          }>
      )[]
    | null
    | undefined;
  metadata?: Readonly<Record<string, Json>> | null | undefined;
  store?: boolean | null | undefined;
  service_tier?: string | null | undefined;
  prediction?: Readonly<Record<string, Json>> | null | undefined;
  prompt_cache_key?: string | null | undefined;
  prompt_cache_options?: Readonly<Record<string, Json>> | null | undefined;
  prompt_cache_retention?: string | null | undefined;
  image?: Readonly<Record<string, Json>> | null | undefined;
}>;

export type ContextMeter = Readonly<{
  model: string;
  /** Tokens of input and output together. */
  window: number;
  /** True: no source names the window of the model, and no call has shown it yet. */
  guessed: boolean;
  /** Tokens that a request may hold. */
  usable: number;
  /** Tokens of the next request, as everything that acts on the context counts them. */
  used: number;
  /** `used / usable`. */
  share: number;
  /**
   * False: the session has so many messages that only the newest 2000 were measured. Without an `anchor` more
   * tokens are used then.
   */
  complete: boolean;
  byKind: Readonly<{
    instructions: number;
    tools: number;
    user: number;
    assistant: number;
    reasoning: number;
    toolCalls: number;
    toolResults: number;
    files: number;
    summary: number;
  }>;
  thresholds: Readonly<Record<string, number>>;
  /** Call whose bill `used` rests on. null: `used` is an estimate only. */
  anchor: Readonly<{ messageSeq: number; inputTokens: number; outputTokens: number }> | null;
  strategy: string;
  /** Reason why compactions wait for more than their threshold, and what to change. null: they do not wait. */
  warning: string | null;
  compactingSince: string | null;
  /** All ended compactions of the session. `compactions` lists the latest ones. */
  compactionSums: Readonly<{
    completed: number;
    /** Compactions that left the context as it was. */
    failed: number;
    /** US dollars. null if the price of a call is not known. */
    costUsd: number | null;
    /** Cost of the failed ones, a part of `costUsd`. */
    failedCostUsd: number | null;
  }>;
  compactions: readonly Readonly<{
    round: number;
    strategy: string;
    reason: string;
    state: string;
    tokensBefore: number;
    tokensAfter: number | null;
    /** First message that was compacted. */
    fromSeq: number;
    /** Last message that was compacted. */
    uptoSeq: number;
    /** Id of the summary, which stands for the compacted messages. */
    summaryMessageId: string | null;
    usage: Usage | null;
    attempts: number;
    /** US dollars. null if the price of a call is not known. */
    costUsd: number | null;
    error: RunError | null;
    startedAt: string;
    finishedAt: string | null;
  }>[];
}>;

export type ErrorGroups = Readonly<{
  since: string;
  complete: boolean;
  groups: readonly Readonly<{
    /** Fingerprint of the cause: equal for equal causes at any time. */
    fingerprint: string;
    code: RunErrorCode;
    provider: string | null;
    /** Model of the run’s last answer. null: the run had no answer. */
    model: string | null;
    agent: string;
    count: number;
    firstAt: string;
    lastAt: string;
    /** Hours (UTC) with failures. */
    hours: readonly Readonly<{ hour: string; count: number }>[];
    /** The message without numbers, ids, addresses and quoted texts. */
    text: string;
    newest: readonly Readonly<{ runId: string; sessionId: string; at: string; message: string }>[];
  }>[];
}>;

export type Fleet = Readonly<{
  workers: readonly Readonly<{
    /** Id of the worker: host, process and a unique suffix. */
    id: string;
    kinds: readonly ('step' | 'compaction' | 'prune' | 'delivery')[];
    /** Version of the worker’s job protocol. */
    engine: number;
    /** True: the worker holds its presence lock. A worker without it is about to be retired. */
    isAlive: boolean;
    /** Time since which the worker holds its presence lock. */
    since: string;
    /** Last sign of life of the worker. */
    seenAt: string;
    /** Number of runs that the worker has claimed. */
    inHand: number;
    runs: readonly Readonly<{
      runId: string;
      sessionId: string;
      tenant: string;
      kind: 'step' | 'compaction' | 'prune' | null;
      step: number;
      status: RunStatus;
      leaseExpiresAt: string | null;
    }>[];
  }>[];
  queues: readonly Readonly<{
    kind: 'step' | 'compaction' | 'prune' | 'delivery';
    /** Jobs in the queue by state. null: the queue cannot be reached. */
    waiting: number | null;
    delayed: number | null;
    active: number | null;
    failed: number | null;
    /** Unclaimed work, by Postgres. */
    due: number;
    oldestDueAt: string | null;
  }>[];
}>;

export type InputTokensRequest = Readonly<{
  model: string;
  instructions?: string | null | undefined;
  previous_response_id?: string | null | undefined;
  conversation?: string | Readonly<{ id: string }> | null | undefined;
  text?:
    | Readonly<{
        format?:
          | Readonly<{ type: 'text' }>
          | Readonly<{ type: 'json_object' }>
          | Readonly<{
              type: 'json_schema';
              name: string;
              description?: string | null | undefined;
              schema: Readonly<Record<string, Json>>;
              strict?: boolean | null | undefined;
            }>
          | null
          | undefined;
        verbosity?: 'medium' | undefined;
      }>
    | null
    | undefined;
  tools?:
    | readonly Readonly<{
        type: 'function';
        name: string;
        description?: string | null | undefined;
        parameters?: Readonly<Record<string, Json>> | null | undefined;
        strict?: boolean | null | undefined;
      }>[]
    | null
    | undefined;
  tool_choice?:
    | ('auto' | 'none' | 'required')
    | Readonly<{ type: 'function'; name: string }>
    | Readonly<{
        type: 'allowed_tools';
        mode: 'auto' | 'required';
        tools: readonly Readonly<{ type: 'function'; name: string }>[];
      }>
    | null
    | undefined;
  reasoning?:
    | Readonly<{
        effort?: 'none' | 'minimal' | 'low' | 'medium' | 'high' | 'xhigh' | 'max' | null | undefined;
        summary?: string | null | undefined;
        generate_summary?: string | null | undefined;
      }>
    | null
    | undefined;
  parallel_tool_calls?: boolean | null | undefined;
  truncation?: 'auto' | 'disabled' | null | undefined;
  user?: string | null | undefined;
  safety_identifier?: string | null | undefined;
  input?:
    | string
    | readonly (
        | Readonly<{
            type: 'message';
            role: 'user' | 'assistant' | 'system' | 'developer';
            content: string | readonly Readonly<{ type: string; [field: string]: unknown }>[];
            id?: string | null | undefined;
            status?: string | null | undefined;
            phase?: string | null | undefined;
          }>
        | Readonly<{
            type: 'function_call';
            call_id: string;
            name: string;
            arguments: string;
            [field: string]: unknown;
          }>
        | Readonly<{
            type: 'function_call_output';
            call_id: string;
            output: string | readonly Readonly<{ type: string; [field: string]: unknown }>[];
            [field: string]: unknown;
          }>
        | Readonly<{ type: 'reasoning'; [field: string]: unknown }>
        | Readonly<{ type: 'item_reference'; id: string }>
        | Readonly<{
            type: 'compaction';
            encrypted_content: string;
            id?: string | null | undefined;
            [field: string]: unknown;
          }>
      )[]
    | null
    | undefined;
}>;

export type ListedSession = Session &
  Readonly<{
    /** Name that a client of a chat protocol gave the session. */
    externalKey: string | null;
    /**
     * Newest message in which the search `q` found its words, and its text around the first of them, at most 200
     * characters. Null: they are those of the session, or nothing was searched.
     */
    hit: Readonly<{ messageId: string; seq: number; role: 'user' | 'assistant'; text: string }> | null;
    overview: Readonly<{
      /** Last words of the session, at most 200 characters. An empty text was too large for a list. */
      lastWords: Readonly<{ role: 'user' | 'assistant'; text: string; at: string }> | null;
      lastRun: Readonly<{
        id: string;
        kind: 'task' | 'maintenance';
        status: RunStatus;
        reason: string | null;
        errorCode: RunErrorCode | null;
        steps: number;
        maxSteps: number | null;
        createdAt: string;
        startedAt: string | null;
        finishedAt: string | null;
      }> | null;
      waitsFor: Wait | null;
      /** Size of the context after the last step, prune or compaction. */
      context: Readonly<{ usedTokens: number; usableTokens: number; share: number }> | null;
      /** Queued messages, of which at most 1000 are counted. */
      queued: number;
    }>;
  }>;

export type Maintenance = Readonly<{
  sessionId: string;
  runId: string;
  /** A run is at work. The work is done before its next step. */
  queued: boolean;
}>;

export type McpAnswer = Readonly<{ jsonrpc: '2.0'; id?: string | number | null; [field: string]: unknown }>;

export type McpMessage = Readonly<{
  jsonrpc: '2.0';
  id?: string | number | undefined;
  method?: string | undefined;
  params?: Readonly<Record<string, Json>> | undefined;
  [field: string]: unknown;
}>;

export type Message = Readonly<{
  id: string;
  /** Place of the message in the transcript. */
  seq: number;
  role: 'user' | 'assistant';
  runId: string | null;
  step: number | null;
  model: string | null;
  /** Reason why the model stopped. null while the message is written. */
  finishReason: string | null;
  usage: Usage | null;
  /** Error because of which the message is incomplete. */
  error: RunError | null;
  isSummary: boolean;
  /** The messages that a summary stands for, and the round of compaction that wrote it. */
  summaryOf: Readonly<{ round: number; fromSeq: number; uptoSeq: number }> | null;
  parts: readonly Part[];
  createdAt: string;
}>;

export type ModelSettings = Readonly<{
  temperature?: number | undefined;
  topP?: number | undefined;
  topK?: number | undefined;
  seed?: number | undefined;
  stopSequences?: readonly string[] | undefined;
  maxOutputTokens?: number | undefined;
  reasoning?: 'none' | 'minimal' | 'low' | 'medium' | 'high' | 'xhigh' | 'max' | undefined;
}>;

export type NewApiKey = Readonly<{
  /** Holder of the key. Two keys may have the same name. */
  name: string;
  /** Rights of the key, of which the caller has each. */
  scopes?: readonly ('read' | 'write' | 'admin' | 'operator')[] | undefined;
  /** Time until the key expires. Default: it lasts until it is revoked. */
  expiresInSeconds?: number | undefined;
}>;

export type NewSchedule = Readonly<{
  agent: string;
  /** Five fields: minute, hour, day, month, weekday. */
  cron: string;
  /** Time zone of IANA. Default: UTC. */
  timezone?: string | undefined;
  content: string;
  /** Title of the sessions that the schedule begins. */
  title?: string | null | undefined;
  /** `new`: one session for each fire (default). `same`: one session for all fires. */
  session?: 'new' | 'same' | undefined;
  /**
   * A fire that is due while the last run is active: `skip` leaves it out, `queue` has it wait, `replace` cancels
   * that run. Default: `skip`.
   */
  overlap?: 'skip' | 'queue' | 'replace' | undefined;
  /** Fires that were due while no worker ran: `none` is made up for, or the `last` one. Default: `none`. */
  catchup?: 'none' | 'last' | undefined;
  /** Longest random delay of each fire, in milliseconds. Default: 0. */
  jitterMs?: number | undefined;
}>;

export type NewSession = Readonly<{
  agent: string;
  /** Your own name for the session. An existing session with the name is returned as it is. */
  key?: string | undefined;
  title?: string | null | undefined;
  /** At most 16 keys of at most 64 characters. */
  metadata?: Readonly<Record<string, string>> | undefined;
  expiresAt?: string | null | undefined;
  overrides?: AgentOverrides | undefined;
}>;

export type NewWebhook = Readonly<{
  url: string;
  /**
   * Signs what is sent, by Standard Webhooks: `whsec_` and Base64, or visible ASCII, of 24 to 64 bytes. It is
   * never shown.
   */
  secret: string;
  /** Events to deliver. Default: all. */
  events?: readonly WebhookEvent[] | undefined;
  /** Agent whose runs are reported. Default: all agents. */
  agent?: string | null | undefined;
}>;

export type OperatorRun = Readonly<{
  id: string;
  sessionId: string;
  tenant: string;
  agent: string;
  kind: 'task' | 'maintenance';
  status: RunStatus;
  reason: string | null;
  errorCode: RunErrorCode | null;
  steps: number;
  usage: Usage;
  /** US dollars. null if the price of a call is not known. */
  costUsd: number | null;
  createdAt: string;
  startedAt: string | null;
  finishedAt: string | null;
  /** Cause for which the run waits. null also while calls wait for a person, because calls are content. */
  waitsFor: Wait | null;
}>;

export type OutputFormat = Readonly<{
  /** A JSON Schema of an object, whose root may refer to a definition: at most 32768 bytes and 32 levels. */
  schema: Readonly<Record<string, unknown>>;
  /**
   * `native`: the provider makes every answer fit. `tool`: the model calls a tool with the result. `last`: a step
   * more without tools. `auto` (default): the first of them that the provider can do.
   */
  mode?: 'auto' | 'native' | 'tool' | 'last' | undefined;
  /** Name of the schema, which the provider is told. */
  name?: string | undefined;
}>;

export type PruneRow = Readonly<{
  kind: 'prune';
  prunedCount: number;
  savedTokens: number;
  prunedTools: readonly string[];
  at: string;
}>;

export type PutSchedule = Readonly<{
  agent: string;
  /** Five fields: minute, hour, day, month, weekday. */
  cron: string;
  /** Time zone of IANA. Default: UTC. */
  timezone?: string | undefined;
  content: string;
  /** Title of the sessions that the schedule begins. */
  title?: string | null | undefined;
  /** `new`: one session for each fire (default). `same`: one session for all fires. */
  session?: 'new' | 'same' | undefined;
  /**
   * A fire that is due while the last run is active: `skip` leaves it out, `queue` has it wait, `replace` cancels
   * that run. Default: `skip`.
   */
  overlap?: 'skip' | 'queue' | 'replace' | undefined;
  /** Fires that were due while no worker ran: `none` is made up for, or the `last` one. Default: `none`. */
  catchup?: 'none' | 'last' | undefined;
  /** Longest random delay of each fire, in milliseconds. Default: 0. */
  jitterMs?: number | undefined;
}>;

export type PutWebhook = Readonly<{
  url: string;
  /** Signs what is sent. Default: the secret that the webhook has; a new webhook needs one. */
  secret?: string | undefined;
  /** Events to deliver. Default: all. */
  events?: readonly WebhookEvent[] | undefined;
  /** Agent whose runs are reported. Default: all agents. */
  agent?: string | null | undefined;
}>;

export type QueuePage = Readonly<{ messages: readonly WaitingMessage[]; nextCursor: string | null }>;

export type Readiness = Readonly<{
  ready: boolean;
  checks: Readonly<Record<string, Readonly<{ ok: boolean; message?: string }>>>;
  /** Job kinds without a worker. Their work waits. Only API processes report this. */
  unattended?: readonly ('step' | 'compaction' | 'prune' | 'delivery')[];
}>;

/** A file that cannot be used. While there is one, all agents stay as they were before. */
export type RejectedAgentFile = Readonly<{
  file: string;
  keys: readonly string[];
  /** Message that may quote the file. null for a key without the scopes `admin` and `operator`. */
  problem: string | null;
}>;

export type RepinnedTools = Readonly<{
  sessionId: string;
  /** Differences by server: tools that were added, changed and removed, by their own names. */
  changes: readonly Readonly<{
    server: string;
    added: readonly string[];
    changed: readonly string[];
    removed: readonly string[];
  }>[];
}>;

/**
 * `approval`: approve or deny. `output`: run it and give the output. `unknown_outcome`: it is not known whether
 * the call took effect; approve runs it again, deny tells the model, an output is taken as its result. `input`:
 * the tool has begun and asks the `questions`; give the filled form as the output, or deny.
 */
export type RequiredAction = Readonly<{
  id: string;
  kind: 'approval' | 'output' | 'unknown_outcome' | 'input';
  messageId: string;
  toolName: string;
  args: Json;
  /**
   * Questions of a tool that has begun. The output of the answer is the filled form; with several questions it is
   * an object with one form by each key.
   */
  questions?: readonly CallQuestion[];
  child?: Readonly<{ sessionId: string; runId: string; agent: string }>;
}>;

export type ResumedSession = Readonly<{ runId: string; status: RunStatus }>;

export type RevertedSession = Readonly<{
  sessionId: string;
  /** The last message that stayed. */
  messageId: string;
  /** Number of messages that left the transcript, or came back, after `messageId`. */
  messages: number;
}>;

export type Run = Readonly<{
  id: string;
  sessionId: string;
  /**
   * Name for lists: the title, else the first words of the session, else the names of its first files. Before its
   * first message: the key, else the agent.
   */
  sessionName: string;
  /** Agent of the session. */
  agent: string;
  kind: 'task' | 'maintenance';
  /**
   * Cause of the run: a `message` of a caller, of a `schedule` or of a `hook`; the call of a `parent`; a `notice`
   * of the service that a child in the background has ended; a `resume` without a message; or `maintenance`, a
   * compaction or prune.
   */
  trigger: 'message' | 'schedule' | 'hook' | 'parent' | 'notice' | 'resume' | 'maintenance';
  status: RunStatus;
  /** Reason why the run ended `incomplete`. */
  reason: string | null;
  /** Model steps that were completed. */
  steps: number;
  /** Most steps. null: a promised run, or a compaction or prune. */
  maxSteps: number | null;
  maxTokens: number | null;
  maxCostUsd: number | null;
  deadlineAt: string | null;
  /** Calls that the run waits for. It goes on when each of them is answered. */
  requiredActions: readonly RequiredAction[];
  /** Time until which the calls can be answered. null: for ever. */
  approvalExpiresAt: string | null;
  error: RunError | null;
  /** Output of the run. null until the run has ended, and if it has no whole answer. Lists leave it out. */
  output?: RunOutput | null;
  /** Output schema of the run. null: none. Lists leave it out. */
  outputFormat?: OutputFormat | null;
  parent: RunParent | null;
  /** Calls of the run that gave a task to another agent. */
  childCount: number;
  /** The last 100 children of the run, in their order. Lists leave them out. */
  children?: readonly RunChild[];
  usage: Usage;
  /** US dollars. null if the price of a call is not known. */
  costUsd: number | null;
  createdAt: string;
  startedAt: string | null;
  finishedAt: string | null;
  cancelRequestedAt: string | null;
  /** Id of the trace with the spans of the run. null: spans are off. */
  traceId: string | null;
}>;

export type RunChild = Readonly<{
  /** The call of the run that began the child, or went on with it. */
  callId: string;
  agent: string;
  mode: 'wait' | 'background';
  /**
   * `waiting`: the child has not begun. `requires_action`: one of its calls waits for a person or a client.
   * `refused`: it was never begun, and the call in the parent says why.
   */
  status: 'waiting' | 'running' | 'requires_action' | 'completed' | 'incomplete' | 'failed' | 'cancelled' | 'refused';
  /** Session of the child. null: it has not begun, or was deleted. */
  sessionId: string | null;
  runId: string | null;
  /** Steps of the child and of its own children. null: it has not ended. */
  steps: number | null;
  tokens: number | null;
  /** US dollars. null if the price of a call is not known. */
  costUsd: number | null;
  createdAt: string;
  endedAt: string | null;
}>;

export type RunError = Readonly<{
  code: RunErrorCode;
  message: string;
  /** Words of the model provider, without the prompt and credentials. */
  provider?: Readonly<{
    status?: number;
    code?: string;
    message?: string;
    requestId?: string;
    host?: string;
    errno?: string;
  }>;
}>;

export type RunLimits = Readonly<{
  maxSteps?: number | undefined;
  maxTokens?: number | undefined;
  maxCostUsd?: number | undefined;
  deadlineMs?: number | undefined;
}>;

/**
 * Text of the last whole answer of the run, and the files that the model made in it. `value`: the result of a
 * run with an output schema.
 */
export type RunOutput = Readonly<{
  messageId: string;
  text: string;
  files: readonly Readonly<{ mediaType: string; filename?: string; url: string; sizeBytes?: number }>[];
  value?: Json;
}>;

/** The call of another session that began the run, and the step of that call. */
export type RunParent = Readonly<{ sessionId: string; runId: string; step: number; callId: string }>;

export type Schedule = Readonly<{
  id: string;
  /** Your own name for the schedule. In a path, `key:` and the key stand for the id. */
  key: string | null;
  /** Declarer of the schedule: `files`, or the name of a program. null: nothing does. */
  declaredBy: string | null;
  agent: string;
  cron: string;
  timezone: string;
  content: string;
  title: string | null;
  session: 'new' | 'same';
  overlap: 'skip' | 'queue' | 'replace';
  catchup: 'none' | 'last';
  jitterMs: number;
  paused: boolean;
  pausedReason: string | null;
  /** Next fire, without jitter. null: the schedule is paused, or never fires again. */
  nextFireAt: string | null;
  /** Session of all fires, with `session: same`, after the first fire. */
  sessionId: string | null;
  lastRunId: string | null;
  createdAt: string;
  updatedAt: string;
}>;

export type ScheduleFire = Readonly<{
  fireAt: string;
  result: 'fired' | 'skipped' | 'missed' | 'failed';
  sessionId: string | null;
  runId: string | null;
  /** Error because of which the fire failed. */
  error: RunError | null;
  /** Time at which the fire was carried out. */
  createdAt: string;
}>;

export type SentMessage = Readonly<{
  messageId: string;
  /** The run that handles the message. You can wait for it before it starts. */
  runId: string;
  /** True: another run is active, so the message waits. Compaction and prune runs count. */
  queued: boolean;
  /** Position among the waiting messages, from 1. 0: the message does not wait. */
  position: number;
  /** Status of the run. */
  status: RunStatus;
}>;

export type Session = Readonly<{
  id: string;
  /**
   * Your own name for the session. In a path, `key:` and the key stand for the id. Chats have the keys `ui:` and
   * `openai:` with their own names.
   */
  key: string | null;
  /** The session of which a call began this one. */
  parentSessionId: string | null;
  /** The session at the top of its tree; null: itself. */
  rootSessionId: string | null;
  /** Levels below the root session. */
  depth: number;
  /**
   * Source of a fork: its session, and the last copied message by its id in that session. The source may be
   * deleted.
   */
  forkedFrom: Readonly<{ sessionId: string; messageId: string | null }> | null;
  agent: string;
  /** Version of the session’s agent definition, overrides included. */
  agentVersion: string;
  overrides: AgentOverrides;
  /**
   * Name for lists: the title, else the first words of the session, else the names of its first files. Before its
   * first message: the key, else the agent.
   */
  name: string;
  /** Title as it was set. */
  title: string | null;
  metadata: Readonly<Record<string, string>>;
  status: SessionStatus;
  activeRunId: string | null;
  /** Start of the compaction that is at work. Messages are accepted meanwhile. */
  compactingSince: string | null;
  /** Compactions that were completed. */
  compactionCount: number;
  lastCompactionAt: string | null;
  usage: Usage;
  /** US dollars. null if the price of a call is not known. */
  costUsd: number | null;
  /** Steps of all runs of the session. */
  steps: number;
  /** Time at which the session expires. The service deletes it within about an hour after this. */
  expiresAt: string | null;
  createdAt: string;
  updatedAt: string;
}>;

/** The data of `session:snapshot`, the first event of a stream. */
export type SessionSnapshot = Readonly<{
  sessionId: string;
  status: SessionStatus;
  activeRunId: string | null;
  seq: number;
  queueLength: number;
  queue: readonly Readonly<{
    id: string;
    position: number;
    delivery: 'steer' | 'followup' | 'interrupt';
    content?: readonly Json[];
    contentRef?: Readonly<{ sizeBytes: number; href: string }>;
    enqueuedAt: string;
  }>[];
  inFlight: Readonly<{
    messageId: string;
    runId: string;
    step: number;
    epoch: number;
    chunks: readonly Readonly<{ chunkType: 'text' | 'reasoning'; content: string; offset: number }>[];
  }> | null;
  reset: boolean;
  usage: Readonly<{
    inputTokens: number;
    outputTokens: number;
    reasoningTokens: number;
    cacheReadTokens: number;
    cacheWriteTokens: number;
    totalTokens: number;
  }>;
  compactingSince: string | null;
  context: Readonly<{ used: number; usable: number }> | null;
}>;

export type StepPage = Readonly<{
  runId: string;
  sessionId: string;
  rows: readonly (StepRow | CompactionRow | PruneRow)[];
  /** Value to pass as `after` for the next page. null at the end. */
  next: number | null;
}>;

export type StepRequest = Readonly<{
  runId: string;
  sessionId: string;
  step: number;
  attempt: number;
  /** Id of the answer’s message. */
  messageId: string;
  agent: string;
  model: string;
  /**
   * True: instructions and messages are, to the byte, those whose hash the worker kept. False: the configuration
   * of the model has changed since. null: the worker kept no hash, because no answer came.
   */
  verified: boolean | null;
  /** True: the tools are, to the byte, those whose hash the worker kept. False and null as for `verified`. */
  toolsVerified: boolean | null;
  sha256: string | null;
  /** Estimated tokens of the whole request. */
  tokens: number;
  byKind: Readonly<{
    instructions: number;
    tools: number;
    user: number;
    assistant: number;
    reasoning: number;
    toolCalls: number;
    toolResults: number;
    files: number;
    summary: number;
  }>;
  tools: readonly Readonly<{ name: string; description: string; inputSchema: Json }>[];
  messages: readonly Readonly<{
    /** Place of the message in the request, from 1. */
    no: number;
    role: 'system' | 'user' | 'assistant' | 'tool';
    /** Messages of the transcript from which this message was made. */
    seqs: readonly number[];
    /** Estimated tokens of the message. */
    tokens: number;
    /** Bytes of `content` as JSON. */
    bytes: number;
    content: readonly Readonly<{ type: string; [field: string]: unknown }>[];
    hidden: readonly Readonly<{
      /**
       * `pruned`: a prune cleared the part. `cut`: its middle was left out. `media`: its images and files were left
       * out.
       */
      kind: 'pruned' | 'cut' | 'media';
      /** Id of the tool call. null: the part is a file of the user. */
      callId: string | null;
      toolName: string | null;
      messageId: string;
      seq: number;
      /** Tokens before the part was shortened. */
      tokens: number | null;
      /** Path of the whole part. */
      href: string;
    }>[];
  }>[];
  /** Value to pass as `after` for the next page. null at the end. */
  next: number | null;
}>;

export type StepRow = Readonly<{
  kind: 'step';
  step: number;
  attempt: number;
  messageId: string;
  /** Place of the step’s message in the transcript. */
  seq: number;
  /** `waiting`: the step waits for answers to calls. `retried`, `superseded`: another row has the next attempt. */
  state: 'running' | 'waiting' | 'completed' | 'retried' | 'superseded' | 'cancelled' | 'failed';
  queuedAt: string | null;
  /** Time at which a worker had claimed the step. */
  startedAt: string;
  finishedAt: string | null;
  waitedMs: number | null;
  claimMs: number | null;
  /** Milliseconds until the request was ready. */
  viewMs: number | null;
  /** Milliseconds from the request to the first sign of an answer. */
  firstTokenMs: number | null;
  /** Milliseconds from the first sign of an answer to its end. */
  streamMs: number | null;
  /** Milliseconds from the last outcome to the end of the step. */
  commitMs: number | null;
  /** Worker that began the step, and a worker that recovered it. */
  workers: readonly string[];
  model: string | null;
  finishReason: FinishReason | null;
  usage: Usage | null;
  /** US dollars. null if the price of a call is not known. */
  costUsd: number | null;
  /** Size of the request, as measured before it was sent. */
  context: Readonly<{ usedTokens: number; usableTokens: number }> | null;
  /** Share of the input tokens that the provider read from its cache. */
  cachedShare: number | null;
  /** Reason why the provider read less than half of what its cache had of the step before. */
  cacheBreak: 'compaction' | 'prune' | 'agent' | 'tools' | 'unexplained' | null;
  tools: readonly Readonly<{
    id: string;
    toolName: string;
    state:
      | 'pending'
      | 'awaiting_approval'
      | 'awaiting_output'
      | 'running'
      | 'completed'
      | 'error'
      | 'denied'
      | 'unknown';
    startedAt: string | null;
    finishedAt: string | null;
    truncated: boolean;
  }>[];
  error: RunError | null;
  nextAttemptAt: string | null;
}>;

export type StoredBlob = Readonly<{
  id: string;
  /** Media type by the first bytes of the file, or as it was named. */
  mediaType: string;
  sizeBytes: number;
  createdAt: string;
}>;

/** Tokens as the provider billed them. */
export type Usage = Readonly<{
  inputTokens: number;
  outputTokens: number;
  reasoningTokens: number;
  cacheReadTokens: number;
  cacheWriteTokens: number;
  totalTokens: number;
}>;

export type UsageReport = Readonly<{
  /** Start of the window. Later than requested if the window has too many runs. */
  since: string;
  until: string;
  by: readonly UsageDimension[];
  complete: boolean;
  rows: readonly Readonly<{
    /** Day (UTC) on which the runs were created. */
    day?: string;
    agent?: string;
    /** Model of the runs. null: they had no answer. */
    model?: string | null;
    tenant?: string;
    runs: number;
    failedRuns: number;
    steps: number;
    usage: Usage;
    /** US dollars. null if the price of a call is not known. */
    costUsd: number | null;
  }>[];
}>;

export type ViewPage = Readonly<{
  model: string;
  /** Changes with a compaction or a prune: pages of two versions are not of one view. */
  version: number;
  /** Tokens of the whole request, as in `/context`. */
  tokens: number;
  byKind: Readonly<{
    instructions: number;
    tools: number;
    user: number;
    assistant: number;
    reasoning: number;
    toolCalls: number;
    toolResults: number;
    files: number;
    summary: number;
  }>;
  /** Names of the tools that the request offers. */
  tools: readonly string[];
  messages: readonly Readonly<{
    /** Place of the message in the request, from 1. */
    no: number;
    role: 'system' | 'user' | 'assistant' | 'tool';
    /** Messages of the transcript from which this message was made. */
    seqs: readonly number[];
    /** Estimated tokens. Files of results count with the results. */
    tokens: number;
    /** Bytes of `content` as JSON. */
    bytes: number;
    /** Parts as the model reads them. A file has its `url` in place of its bytes. */
    content: readonly Readonly<{ type: string; [field: string]: unknown }>[];
  }>[];
  /** Value to pass as `after` for the next page. null at the end. */
  next: number | null;
}>;

/** Reason why an active run does not work on a step. */
export type Wait = Readonly<{
  /**
   * A call requires an action (`approval`, `output`, `unknown_outcome`); no worker has taken the work (`worker`);
   * all slots of the tenant are taken (`slot`); the provider gets a pause (`retry`); the context is changed first
   * (`compaction`, `prune`).
   */
  kind:
    | 'approval'
    | 'output'
    | 'unknown_outcome'
    | 'input'
    | 'child'
    | 'worker'
    | 'slot'
    | 'retry'
    | 'compaction'
    | 'prune';
  since: string | null;
  until: string | null;
  /** Names of the tools whose calls require an action. */
  toolNames: readonly string[];
  /** Number of the calls that require an action. */
  count: number;
}>;

export type WaitingCall = Readonly<{
  id: string;
  kind: 'approval' | 'output' | 'unknown_outcome' | 'input';
  toolName: string;
  args: Json;
  /**
   * Questions of a tool that has begun. The output of the answer is the filled form; with several questions it is
   * an object with one form by each key.
   */
  questions: readonly CallQuestion[] | null;
  messageId: string;
  runId: string;
  sessionId: string;
  agent: string;
  /**
   * Name for lists: the title, else the first words of the session, else the names of its first files. Before its
   * first message: the key, else the agent.
   */
  sessionName: string;
  /** Title of the session, as it was set. */
  title: string | null;
  step: number;
  askedAt: string;
  /** Time until which the call can be answered. null: for ever. */
  expiresAt: string | null;
  /**
   * Last message of the user that a run has handled, at most 500 characters. An empty text has no words, or was
   * too large for a list.
   */
  userWords: Readonly<{ text: string; at: string }> | null;
}>;

export type WaitingMessage = Readonly<{
  id: string;
  position: number;
  delivery: 'steer' | 'followup' | 'interrupt';
  content: readonly Json[];
  enqueuedAt: string;
}>;

export type Webhook = Readonly<{
  id: string;
  /** Your own name for the webhook. In a path, `key:` and the key stand for the id. */
  key: string | null;
  /** Declarer of the webhook: `files`, or the name of a program. null: nothing does. */
  declaredBy: string | null;
  url: string;
  events: readonly WebhookEvent[];
  /** Agent whose runs are reported. null: runs of all agents. */
  agent: string | null;
  enabled: boolean;
  /**
   * `gone`: the receiver answered 410. `failing`: every attempt of three days failed. `undeclared`: the
   * declaration has gone.
   */
  disabledFor: 'request' | 'gone' | 'failing' | 'undeclared' | null;
  /** The first failure since the last success. */
  failingSince: string | null;
  createdAt: string;
  updatedAt: string;
}>;

export type WebhookDelivery = Readonly<{
  /** Id that every attempt sends as `webhook-id`. */
  id: string;
  /** Id of the webhook. null: the webhook of a message. */
  webhookId: string | null;
  /** URL of the webhook of a message. */
  url: string | null;
  type: string;
  sessionId: string | null;
  runId: string | null;
  state: 'waiting' | 'sending' | 'delivered' | 'failed';
  attempts: number;
  nextAttemptAt: string | null;
  /** HTTP status of the response to the last attempt. null: there was none. */
  status: number | null;
  error: string | null;
  tookMs: number | null;
  createdAt: string;
  finishedAt: string | null;
}>;

/** The data of the durable events of a session, by their names. */
export type EventData = Readonly<{
  /** A message or a resume has created a run. */ 'run:queued': Readonly<{ runId: string }>;
  /** A worker has claimed the run for the first time. */
  'run:started': Readonly<{ runId: string }>;
  /** Calls of the run wait for a person or a client. */
  'run:requires-action': Readonly<{ runId: string; calls: readonly RequiredAction[] }>;
  /**
   * A waiting call has got its answer. `open`: calls that the run still waits for. `args`: the call runs with
   * these in place of those that the model gave.
   */
  'run:answered': Readonly<{
    runId: string;
    id: string;
    answer: 'approve' | 'deny' | 'output' | 'expired';
    args?: Json;
    open: number;
  }>;
  /** A call has begun or continued a session of another agent. `id`: the call. */
  'child:started': Readonly<{
    runId: string;
    id: string;
    toolName: string;
    agent: string;
    sessionId: string;
    childRunId: string;
    mode: 'wait' | 'background';
  }>;
  /**
   * Calls of a session below this one wait for a person or a client. Only the root of the tree has this event.
   * `open`: waiting calls of the whole tree.
   */
  'child:requires-action': Readonly<{
    runId: string | null;
    sessionId: string;
    childRunId: string;
    calls: readonly RequiredAction[];
    open: number;
  }>;
  /**
   * The run of a child has ended. `refused`: the child was not begun. Steps, tokens and cost include those of its
   * own children.
   */
  'child:ended': Readonly<{
    runId: string;
    id: string;
    toolName: string;
    agent: string;
    sessionId: string;
    childRunId: string;
    status: 'completed' | 'incomplete' | 'failed' | 'cancelled' | 'refused';
    error?: RunError;
    steps: number;
    tokens: number;
    costUsd: number | null;
  }>;
  /** A cancel of the run was accepted. A worker stops it. */
  'run:cancelling': Readonly<{ runId: string }>;
  /** The run has ended with an answer. `output`: left out where the run ends without a new answer. */
  'run:completed': Readonly<{
    runId: string;
    finishReason: FinishReason;
    lateCancel?: boolean;
    output?: Readonly<{
      messageId: string;
      text?: string;
      files?: readonly Readonly<{ mediaType: string; filename?: string; url: string; sizeBytes?: number }>[];
      value?: Json;
      contentRef?: Readonly<{ sizeBytes: number; href: string }>;
    }>;
  }>;
  /** The run has ended with an error. */
  'run:failed': Readonly<{ runId: string; error: RunError }>;
  /** The run has ended by a cancel. `stillRan`: tools that were running then. */
  'run:cancelled': Readonly<{ runId: string; stillRan: readonly string[] }>;
  /** The run was ended by a limit, or by an answer that does not fit its schema. */
  'run:incomplete': Readonly<{
    runId: string;
    reason: IncompleteReason;
    error?: RunError;
    output?: Readonly<{
      messageId: string;
      text?: string;
      files?: readonly Readonly<{ mediaType: string; filename?: string; url: string; sizeBytes?: number }>[];
      value?: Json;
      contentRef?: Readonly<{ sizeBytes: number; href: string }>;
    }>;
  }>;
  /**
   * A worker asks the model. `finalAnswerFor`: the limit for which this step is the final answer. `waitedMs`: from
   * the time when the work was due to its claim.
   */
  'step:started': Readonly<{
    runId: string;
    step: number;
    attempt: number;
    messageId: string;
    finalAnswerFor?: LimitReason;
    workerId?: string;
    waitedMs?: number;
  }>;
  /** The model call has failed and is repeated at `nextAttemptAt`. */
  'step:retrying': Readonly<{ runId: string; step: number; attempt: number; error: RunError; nextAttemptAt: string }>;
  /** The streamed text of the message is void. */
  'step:reset': Readonly<{ runId: string; step: number; messageId: string }>;
  /**
   * The answer of the step and the results of its calls are stored. `waitedMs` and `firstTokenMs`: left out by a
   * worker that has recovered the step.
   */
  'step:completed': Readonly<{
    runId: string;
    step: number;
    attempt: number;
    messageId: string;
    finishReason: FinishReason;
    toolCalls: number;
    usage: Usage;
    workerId?: string;
    waitedMs?: number;
    firstTokenMs?: number | null;
  }>;
  /** The model has called a tool. `id` is unique, `callId` comes from the provider and may repeat. */
  'llm:tool-call': Readonly<{ id: string; messageId: string; toolName: string; args: Json; callId: string }>;
  /**
   * A call has ended. `sanitized`: the output as text, with files by name. `truncated`: the middle of it is left
   * out, and the transcript has the whole.
   */
  'llm:tool-result': Readonly<{
    id: string;
    messageId: string;
    toolName: string;
    callId: string;
    success: boolean;
    sanitized: string;
    truncated?: true;
  }>;
  /**
   * The model's whole answer in a step. `timing`: the phases of the step one after another. `costUsd`: null where
   * the price of the model is unknown.
   */
  'llm:response': Readonly<{
    messageId: string;
    content: string;
    reasoning?: string;
    provider: string;
    model: string;
    finishReason: FinishReason;
    tokenUsage: Usage;
    costUsd?: number | null;
    workerId?: string;
    timing?: Readonly<{
      waitedMs: number;
      claimMs: number;
      viewMs: number;
      firstTokenMs: number | null;
      streamMs: number;
    }>;
    context?: Readonly<{ usedTokens: number; usableTokens: number }>;
  }>;
  /** The model has made a file. The event comes with the whole answer. */
  'llm:file': Readonly<{ mediaType: string; filename?: string; url: string; sizeBytes?: number; messageId: string }>;
  /** The answer has a source. The event comes with the whole answer. */
  'llm:source': Readonly<{
    sourceId: string;
    url?: string;
    title?: string;
    mediaType?: string;
    filename?: string;
    messageId: string;
  }>;
  /** A model call has failed. `recoverable`: it is repeated. */
  'llm:error': Readonly<{ error: RunError; recoverable: boolean }>;
  /**
   * The provider has refused the form of the request. The step, or the summary of a compaction (`round`), is asked
   * for again with these changes.
   */
  'llm:adapted': Readonly<{
    runId: string;
    step?: number;
    round?: number;
    model: string;
    changes: readonly Readonly<{ kind: string; detail: string }>[];
    text: string;
  }>;
  /**
   * The session goes on with another model. `agent`: the new agent, if that has changed. `reason`: why the run
   * takes the next model of its agent.
   */
  'llm:switched': Readonly<{ from: string; to: string; agent?: string; reason?: SwitchReason }>;
  /** The model does not take files of these media types. It reads their names. */
  'llm:unsupported-input': Readonly<{ model: string; mediaTypes: readonly string[] }>;
  /** A tool's definition on its MCP server differs from the session's. The event is sent once for each change. */
  'tools:drifted': Readonly<{ server: string; tool: string; change: 'changed' | 'gone' }>;
  /** The session has taken the definitions that a server's tools have now. */
  'tools:pinned': Readonly<{
    server: string;
    added: readonly string[];
    changed: readonly string[];
    removed: readonly string[];
  }>;
  /** The session was made as a fork. The event is its first. */
  'session:forked': Readonly<{ forkedFrom: Readonly<{ sessionId: string; messageId: string | null }> }>;
  /** The messages after `seq`, up to `uptoSeq`, have left the transcript. */
  'session:reverted': Readonly<{ messageId: string; seq: number; uptoSeq: number; messages: number }>;
  /** The messages after `seq`, up to `uptoSeq`, have come back. */
  'session:unreverted': Readonly<{ messageId: string; seq: number; uptoSeq: number; messages: number }>;
  /** A message waits for the active run. `position`: its place in the queue, from 1. */
  'message:queued': Readonly<{ position: number; id: string }>;
  /** A run has taken up queued messages. `coalesced`: they became one message. */
  'message:dequeued': Readonly<{ count: number; ids: readonly string[]; coalesced: boolean }>;
  /** A queued message was changed. */
  'message:changed': Readonly<{ id: string; delivery: 'steer' | 'followup' | 'interrupt' }>;
  /** Queued messages were removed. */
  'message:removed': Readonly<{ ids: readonly string[] }>;
  /**
   * A message has entered the transcript. `parts`: left out where they are large, and `contentRef` says where to
   * read them. `isSummary`: the message replaces older ones in the view.
   */
  'message:created': Readonly<{
    messageId: string;
    seq: number;
    role: 'user' | 'assistant';
    isSummary?: true;
    parts?: readonly (
      | Readonly<{
          type: 'text';
          text: string;
          queuedNo?: number;
          providerMetadata?: Readonly<Record<string, Readonly<Record<string, Json>>>>;
        }>
      | Readonly<{
          type: 'file';
          mediaType: string;
          filename?: string;
          url: string;
          sizeBytes?: number;
          queuedNo?: number;
          providerMetadata?: Readonly<Record<string, Readonly<Record<string, Json>>>>;
        }>
      | Readonly<{ type: 'compaction'; text: string }>
    )[];
    contentRef?: Readonly<{ sizeBytes: number; href: string }>;
  }>;
  /** A summary has replaced older messages in what the model is shown. */
  'context:compressed': Readonly<{
    originalTokens: number;
    compressedTokens: number;
    originalMessages: number;
    compressedMessages: number;
    strategy: string;
    reason: string;
  }>;
  /** Old outputs of tools were replaced by placeholders in what the model is shown. */
  'context:pruned': Readonly<{ prunedCount: number; savedTokens: number }>;
  /** A worker summarizes older messages. New messages are accepted meanwhile. */
  'compaction:start': Readonly<{
    round: number;
    strategy: string;
    tokensBefore: number;
    modelLimit: number;
    reason: string;
  }>;
  /** The summary is stored. `fromSeq` and `uptoSeq`: the messages that it replaces. */
  'compaction:complete': Readonly<{
    round: number;
    strategy: string;
    tokensBefore: number;
    tokensAfter: number;
    messagesCompacted: number;
    fromSeq: number;
    uptoSeq: number;
    summaryMessageId: string;
    waitsUntilTokens?: number;
    wasPruned: boolean;
    wasSummarized: boolean;
  }>;
  /** The summary could not be made. */
  'compaction:failed': Readonly<{ error: RunError; attempts: number }>;
  /** A prune has ended. */
  'prune:complete': Readonly<{ prunedCount: number; savedTokens: number; prunedTools: readonly string[] }>;
  /**
   * An answer does not fit the schema of its run. `repairs`: how often the run has asked again, this time
   * included.
   */
  'output:invalid': Readonly<{ runId: string; step: number; problem: string; repairs: number }>;
  /** The provider has billed a model call. */
  'usage:updated': Readonly<{ runId: string; usage: Usage; sessionUsage?: Usage }>;
}>;

/** The data of the previews in a stream, by their names. */
export type LiveData = Readonly<{
  /** The model was asked and has not answered yet. */
  'llm:thinking': Readonly<{ runId: string; step: number; attempt: number; messageId: string }>;
  /**
   * A piece of a call's input as the model writes it. `offset`: characters of the input before this piece. Pieces
   * may be missing, and `llm:tool-call` has the whole.
   */
  'llm:tool-input': Readonly<{
    messageId: string;
    epoch: number;
    id: string;
    callId: string;
    toolName: string;
    offset: number;
    content: string;
  }>;
  /**
   * A piece of streamed text. `offset`: characters of the message before this piece, text and reasoning together.
   * With a higher `epoch` the message begins anew.
   */
  'llm:chunk': Readonly<{
    messageId: string;
    epoch: number;
    offset: number;
    chunkType: 'text' | 'reasoning';
    content: string;
  }>;
}>;
