import type { ColumnType, Generated } from 'kysely';
import type { CompactionState } from '../../domain/compaction.ts';
import type { JobKind } from '../../domain/run/job.ts';
import type { LimitReason, PendingKind, RunKind, RunStatus } from '../../domain/run/run.ts';
import type { Delivery, SessionStatus } from '../../domain/run/session.ts';
import type { ActionKind } from '../../domain/transcript/required-action.ts';
import type { ToolCallState } from '../../domain/transcript/tool-call.ts';
import type { SessionRevertsTable } from './reverts-table.ts';
import type { DefaultTime, Json, Time, UsageColumns } from './table-columns.ts';
import type {
  ChildrenTable,
  ScheduleFiresTable,
  SchedulesTable,
  WebhookDeliveriesTable,
  WebhooksTable,
} from './tables-around.ts';

/** The row types of the schema. migrations/ explains the columns. */

type SessionsTable = UsageColumns & {
  id: string;
  tenant_id: Generated<string>;
  agent_name: string;
  agent_version: string;
  agent_snapshot: Json;
  title: string | null;
  /** The name that a client of another protocol gives the session, unique within the tenant. */
  external_key: string | null;
  /** Of a fork: the other session, and the last message that was copied from it. Both may be deleted by now. */
  forked_from_session_id: string | null;
  forked_from_message_id: string | null;
  /** Hash of the conversation up to its last question, for clients that send all of it with each request. */
  conversation_asked: Buffer | null;
  /** Hash of the conversation with the answer. Null: no answer was sent. */
  conversation_head: Buffer | null;
  /** The agent without the adaptations of requests. Null: there are none. */
  agent_base: ColumnType<Record<string, unknown> | null, string | null | undefined, string | null>;
  /** Differences from the agent that it was created with or switched to. `agent_snapshot` includes them. */
  overrides: ColumnType<Record<string, unknown>, string | undefined, string>;
  /** The drifts that readers were told of, by `server/tool`. */
  drifted_tools: ColumnType<Record<string, string>, string | undefined, string>;
  metadata: ColumnType<Record<string, string>, string | undefined, string>;
  /** Of a session that a call of another one began. */
  parent_session_id: string | null;
  root_session_id: string | null;
  depth: Generated<number>;
  status: Generated<SessionStatus>;
  active_run_id: string | null;
  epoch: Generated<number>;
  message_seq: Generated<number>;
  event_seq: Generated<number>;
  events_first_seq: Generated<number>;
  inbox_seq: Generated<number>;
  view_start_seq: Generated<number>;
  summary_message_seq: number | null;
  view_version: Generated<number>;
  context_state: ColumnType<Record<string, unknown>, string | undefined, string>;
  next_run_id: string | null;
  /** A resume during a maintenance run: limits and trace of the run that starts afterwards. */
  requested_resume: ColumnType<unknown, string | null | undefined, string | null>;
  requested_maintenance: Exclude<PendingKind, 'step'> | null;
  compaction_count: Generated<number>;
  compacting_since: Time | null;
  last_compaction_at: Time | null;
  expires_at: Time | null;
  created_at: DefaultTime;
  updated_at: DefaultTime;
};

export type RunsTable = UsageColumns & {
  id: string;
  tenant_id: Generated<string>;
  session_id: string;
  kind: Generated<RunKind>;
  /** Only SQL functions change it. A trigger refuses a change that `RUN_TRANSITIONS` does not have. */
  status: ColumnType<RunStatus, RunStatus | undefined, never>;
  status_reason: string | null;
  epoch: Generated<number>;
  claim_id: string | null;
  lease_owner: string | null;
  lease_expires_at: Time | null;
  pending_kind: PendingKind | null;
  pending_no: Generated<number>;
  pending_dispatch: Generated<number>;
  pending_at: Time | null;
  is_claimed: ColumnType<boolean, never, never>;
  /** When a run without a worker is looked at. */
  due_at: ColumnType<Date | null, never, never>;
  next_check_at: Time | null;
  /** At the check before `next_check_at` a worker had taken the job without claiming the run. */
  found_taken: Generated<boolean>;
  tenant_slot: number | null;
  throttled_at: Time | null;
  attempt: Generated<number>;
  resume_count: Generated<number>;
  step_count: Generated<number>;
  /** The limits beside those of the agent. Null: the run has not begun, or has none. */
  limits: Json | null;
  /** Of its model in the agent's list. */
  model_position: Generated<number>;
  /** The result that it is asked for, by `json`: the order of properties counts. */
  output_format: Json | null;
  output_state: Generated<unknown>;
  /** `{ value }`: the result. */
  output: ColumnType<{ value: Json } | null, never, never>;
  max_steps: number | null;
  /** The session's last inbox number at the run's creation, and at its cancel. Later messages are for the next run. */
  start_inbox_seq: Generated<number>;
  cancel_inbox_seq: number | null;
  cancel_requested_at: Time | null;
  approval_expires_at: Time | null;
  /** It waits for its children alone: nothing that a person or a client could do. */
  is_delegating: Generated<boolean>;
  children_count: Generated<number>;
  children_steps: Generated<number>;
  children_tokens: Generated<number>;
  /** Null: unknown. */
  children_cost_usd: Generated<number | null>;
  budget_tokens: number | null;
  budget_cost_usd: number | null;
  deadline_at: Time | null;
  /** The limit that the run has reached, and the end of the time for its final answer. */
  final_answer_for: LimitReason | null;
  final_answer_until: Time | null;
  error: Json | null;
  required_engine: Generated<number>;
  traceparent: string | null;
  attempt_traceparent: string | null;
  created_at: DefaultTime;
  started_at: Time | null;
  finished_at: Time | null;
};

type MessagesTable = {
  id: string;
  tenant_id: Generated<string>;
  session_id: string;
  seq: number;
  role: 'user' | 'assistant';
  run_id: string | null;
  step_no: number | null;
  attempt: number | null;
  epoch: number | null;
  /** The number of the event with which its step began. Null: it is no answer of this session's runs. */
  event_seq: number | null;
  view_start_seq: number | null;
  summary_seq: number | null;
  request: Json | null;
  provider_response: Json | null;
  model: string | null;
  finish_reason: string | null;
  is_summary: Generated<boolean>;
  superseded: Generated<boolean>;
  /** The revert that took it out of the view. */
  reverted_no: number | null;
  usage: Json | null;
  error: Json | null;
  metadata: Json;
  created_at: DefaultTime;
  finished_at: Time | null;
};

type PartsTable = {
  session_id: string;
  message_id: string;
  idx: number;
  tenant_id: Generated<string>;
  type: string;
  content: Json;
  tool_call_id: string | null;
  tool_name: string | null;
  state: ToolCallState | null;
  required_action: ActionKind | null;
  /** The answer, and the number of calls still open after it. */
  answer: Json | null;
  started_at: Time | null;
  finished_at: Time | null;
  truncated: Generated<boolean>;
  compacted_at: Time | null;
  view_limit: number | null;
  earlier_view_limits: ColumnType<unknown, string | null | undefined, string | null>;
  media_stripped_at: Time | null;
  original_tokens: number | null;
  /** How another worker finds what the call has begun elsewhere. */
  outside_work: ColumnType<unknown, string | null | undefined, string | null>;
};

type PartChunksTable = {
  session_id: string;
  message_id: string;
  char_offset: number;
  part_idx: number;
  type: 'text' | 'reasoning';
  chunk: string;
};

type InboxTable = {
  session_id: string;
  seq: number;
  tenant_id: Generated<string>;
  id: string;
  delivery: Generated<Delivery>;
  /** `system`: a notice of the service. */
  origin: Generated<'user' | 'system'>;
  content: ColumnType<unknown[], string, string>;
  limits: ColumnType<unknown, string | undefined, never>;
  /** Takes the limits of its run down, never up. */
  lowered: ColumnType<unknown, string | undefined, never>;
  webhook: ColumnType<unknown, string | null | undefined, never>;
  /** The result that its sender asks for. */
  output: ColumnType<unknown, string | null | undefined, never>;
  run_id: string | null;
  traceparent: string | null;
  enqueued_at: DefaultTime;
  consumed_message_seq: number | null;
};

type EventsTable = {
  session_id: string;
  seq: number;
  tenant_id: Generated<string>;
  run_id: string | null;
  type: string;
  data: Json;
  created_at: DefaultTime;
};

type CompactionsTable = {
  id: string;
  tenant_id: Generated<string>;
  session_id: string;
  run_id: string | null;
  round: number;
  strategy: string;
  reason: string;
  state: Generated<CompactionState>;
  from_seq: number;
  upto_seq: number;
  summary_message_seq: number | null;
  tokens_before: number;
  tokens_after: number | null;
  attempts: Generated<number>;
  /** Null: the price of a call is unknown. */
  cost_usd: Generated<number | null>;
  usage: Json | null;
  error: Json | null;
  started_at: DefaultTime;
  finished_at: Time | null;
};

type BlobsTable = {
  id: string;
  tenant_id: Generated<string>;
  sha256: Buffer;
  media_type: string;
  size_bytes: number;
  bytes: Buffer | null;
  url: string | null;
  created_at: DefaultTime;
};

type BlobRefsTable = { blob_id: string; session_id: string; tenant_id: Generated<string> };

type IdempotencyKeysTable = {
  tenant_id: Generated<string>;
  route: string;
  key: string;
  request_sha256: Buffer;
  response_status: number;
  response_body: Json;
  created_at: DefaultTime;
  expires_at: Time;
};

type ApiKeysTable = {
  id: string;
  tenant_id: Generated<string>;
  name: string;
  shown: string;
  key_sha256: Buffer;
  scopes: string[];
  created_at: DefaultTime;
  last_used_at: Time | null;
  expires_at: Time | null;
  revoked_at: Time | null;
};

type ConsoleLoginsTable = {
  id: string;
  key_id: string;
  cookie_sha256: Buffer;
  page_sha256: Buffer;
  board_sha256: Buffer;
  created_at: DefaultTime;
  expires_at: Time;
};

type AuditLogTable = {
  seq: Generated<number>;
  tenant_id: string;
  key_id: string | null;
  action: string;
  target: string;
  created_at: DefaultTime;
};

type WorkersTable = {
  id: string;
  /** The kinds of job that it takes. */
  kinds: JobKind[];
  engine: Generated<number>;
  lock_key: number;
  locked_at: DefaultTime;
  lost_alone: Generated<boolean>;
  seen_at: DefaultTime;
};

type ModelLimitsTable = {
  provider: string;
  endpoint: string;
  model: string;
  context_tokens: number | null;
  input_tokens: number | null;
  estimator_prior: number | null;
  tools_refused_at: Date | null;
};

type ModelAdaptationsTable = {
  tenant_id: string;
  provider: string;
  endpoint: string;
  model: string;
  kind: string;
  detail: string;
  learned_at: Generated<Date>;
};

type DeletedUsageTable = {
  tenant_id: string;
  /** In UTC. */
  day: Time;
  tokens: number;
  cost_usd: number;
};

type HistoryTable = {
  is_only: Generated<boolean>;
  epoch: string;
  identity: string;
};

export type Tables = {
  history: HistoryTable;
  children: ChildrenTable;
  sessions: SessionsTable;
  runs: RunsTable;
  session_reverts: SessionRevertsTable;
  messages: MessagesTable;
  parts: PartsTable;
  part_chunks: PartChunksTable;
  inbox: InboxTable;
  events: EventsTable;
  compactions: CompactionsTable;
  blobs: BlobsTable;
  blob_refs: BlobRefsTable;
  idempotency_keys: IdempotencyKeysTable;
  api_keys: ApiKeysTable;
  console_logins: ConsoleLoginsTable;
  audit_log: AuditLogTable;
  deleted_usage: DeletedUsageTable;
  workers: WorkersTable;
  model_limits: ModelLimitsTable;
  model_adaptations: ModelAdaptationsTable;
  schedules: SchedulesTable;
  schedule_fires: ScheduleFiresTable;
  webhooks: WebhooksTable;
  webhook_deliveries: WebhookDeliveriesTable;
};
