import { sql } from 'kysely';
import { z } from 'zod';
import type { CompactionReason, ContextState } from '../../domain/context/meter/state.ts';
import type { ErrorRecord } from '../../domain/errors.ts';
import type { NextPlan } from '../../domain/run/branch.ts';
import type { NewEvent } from '../../domain/run/events.ts';
import type { Part, PartMarks } from '../../domain/transcript/message.ts';
import type { Usage } from '../../domain/usage.ts';
import type { Db } from '../db/database.ts';
import { toWrittenJson } from '../db/json.ts';
import type { Fence } from './claims.ts';
import { type FinishedWork, finishedWorkSchema } from './finished-work.ts';

/** A mark for one part. Marks that the part already has stay, except the view limit. */
export type NewMark = PartMarks &
  Readonly<{
    messageId: string;
    index: number;
    /** Tokens of the part in the view before the mark. */
    originalTokens?: number;
  }>;

export type NewCompaction = Readonly<{
  id: string;
  strategy: string;
  reason: CompactionReason;
  /** The first and the last message that the summary covers. */
  fromSeq: number;
  uptoSeq: number;
  tokensBefore: number;
  /** The window of the model, in tokens. */
  modelLimit: number;
}>;

/** Opens a compaction, and closes one that a dead worker left open as failed. Null: fenced. */
export async function beginCompaction(
  db: Db,
  fence: Fence,
  compaction: NewCompaction,
): Promise<{ round: number; eventSeq: number } | null> {
  const { rows } = await sql<{ begun: unknown }>`
    select baton_begin_compaction(${fence.runId}, ${fence.epoch}, ${fence.claimId}, ${toWrittenJson(compaction)}::jsonb)
      as begun`.execute(db);
  return begunSchema.nullable().parse(rows[0]?.begun ?? null);
}

const begunSchema = z.object({ round: z.number().int(), eventSeq: z.number().int() });

/** The end of a compaction. Only a completed one has a summary and moves the start of the view. */
export type CompactionEnd = Readonly<
  {
    id: string;
    attempts: number;
    costUsd: number | null;
    usage: Usage;
    /** Set if the compaction ended with another strategy than it began with. */
    strategy?: string;
    uptoSeq?: number;
  } & (
    | {
        state: 'completed';
        tokensAfter: number;
        summary: Readonly<{ messageId: string; model: string | null; parts: readonly Part[] }>;
        /** The first message after the summary that stays in the view. */
        viewStartSeq: number;
      }
    | { state: 'rejected' | 'failed'; tokensAfter?: number; error: ErrorRecord }
  )
>;

export type MaintenanceFinish = Readonly<{
  marks: readonly NewMark[];
  compaction?: CompactionEnd;
  contextState: ContextState;
  usage: Usage;
  costUsd: number | null;
  events: readonly NewEvent[];
  next: NextPlan;
  /** The id for the follow-up run, unless one is promised. */
  nextRunId: string;
}>;

/** Ends a compaction or prune job: marks, summary, usage, events and the next work commit together. Null: fenced. */
export async function finishMaintenance(db: Db, fence: Fence, finish: MaintenanceFinish): Promise<FinishedWork | null> {
  const { rows } = await sql<{ finished: unknown }>`
    select baton_finish_maintenance(${fence.runId}, ${fence.epoch}, ${fence.claimId}, ${toWrittenJson(finish)}::jsonb)
      as finished`.execute(db);
  return finishedWorkSchema.nullable().parse(rows[0]?.finished ?? null);
}
