import type { Generated } from 'kysely';
import type { ChildMode, ChildState } from '../../domain/run/child.ts';
import type { Catchup, FireResult, Overlap, SessionKind } from '../../domain/schedules/plan-fire.ts';
import type { DeliveryState, DisabledReason, WebhookEvent } from '../../domain/webhooks/webhook.ts';
import type { DefaultTime, Json, Time } from './table-columns.ts';

/** The row types around sessions and runs: children, webhooks, schedules. */

export type ChildrenTable = {
  /** The call that began it: one child for each call. */
  message_id: string;
  idx: number;
  tenant_id: Generated<string>;
  parent_session_id: string;
  parent_run_id: string;
  tool_name: string;
  agent_name: string;
  mode: ChildMode;
  limits: Json;
  max_parallel: number;
  session_id: string;
  run_id: string;
  state: ChildState;
  stop_requested: Generated<boolean>;
  is_told: Generated<boolean>;
  asks: Generated<number>;
  asks_told: Generated<number>;
  result: Json | null;
  due_at: Time | null;
  created_at: DefaultTime;
  ended_at: Time | null;
};

export type WebhooksTable = {
  id: string;
  tenant_id: Generated<string>;
  url: string;
  secret: string;
  events: WebhookEvent[];
  agent_name: string | null;
  disabled_for: DisabledReason | null;
  failing_since: Time | null;
  created_at: DefaultTime;
  updated_at: DefaultTime;
};

export type WebhookDeliveriesTable = {
  id: string;
  tenant_id: Generated<string>;
  webhook_id: string | null;
  url: string | null;
  secret: string | null;
  endpoint: string;
  session_id: string | null;
  run_id: string | null;
  type: string;
  body: Buffer;
  state: Generated<DeliveryState>;
  attempts: Generated<number>;
  dispatch: Generated<number>;
  claim_id: string | null;
  claimed_by: string | null;
  due_at: DefaultTime;
  last_status: number | null;
  last_error: string | null;
  took_ms: number | null;
  created_at: DefaultTime;
  finished_at: Time | null;
};

export type SchedulesTable = {
  id: string;
  tenant_id: Generated<string>;
  agent_name: string;
  title: string | null;
  cron: string;
  timezone: string;
  content: string;
  session_kind: SessionKind;
  overlap: Overlap;
  catchup: Catchup;
  jitter_ms: number;
  paused_reason: string | null;
  next_fire_at: Time | null;
  due_at: Time | null;
  is_held: Generated<boolean>;
  session_id: string | null;
  last_run_id: string | null;
  created_at: DefaultTime;
  updated_at: DefaultTime;
};

export type ScheduleFiresTable = {
  schedule_id: string;
  fire_at: Time;
  tenant_id: Generated<string>;
  result: FireResult;
  session_id: string | null;
  run_id: string | null;
  error: Json | null;
  created_at: DefaultTime;
};
