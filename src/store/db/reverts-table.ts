import type { ColumnType, Generated } from 'kysely';

/** A revert of a session: the messages after `to_seq`, up to `upto_seq`, that were there have its number. */
export type SessionRevertsTable = {
  session_id: string;
  no: number;
  tenant_id: Generated<string>;
  /** The last message that stayed. */
  message_id: string;
  to_seq: number;
  /** The session's last message at that time. */
  upto_seq: number;
  message_count: number;
  /** The view before it, which comes back with an undo. */
  view_start_seq: number;
  summary_message_seq: number | null;
  created_at: ColumnType<Date, never, never>;
  /** Null: it holds. */
  undone_at: ColumnType<Date | null, never, unknown>;
};
