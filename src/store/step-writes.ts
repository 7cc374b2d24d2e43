import { sql } from 'kysely';
import { z } from 'zod';
import type { ContextState } from '../domain/context/meter/state.ts';
import type { ErrorRecord } from '../domain/errors.ts';
import type { NewEvent } from '../domain/run/events.ts';
import type { NextPlan } from '../domain/run/next-step.ts';
import type { FinishReason, Part, ToolOutput } from '../domain/transcript/message.ts';
import type { ToolCallState } from '../domain/transcript/tool-call.ts';
import type { Usage } from '../domain/usage.ts';
import type { NewBlob } from './blobs.ts';
import type { Fence } from './claims.ts';
import type { Db } from './database.ts';
import { type FinishedWork, finishedWorkSchema } from './finished-work.ts';
import { toJson, toText } from './json.ts';

/** A piece of streamed text, where it begins in the message. */
export type TextChunk = Readonly<{
  charOffset: number;
  partIndex: number;
  type: 'text' | 'reasoning';
  text: string;
}>;

/** The final form of the assistant's message: it replaces whatever was streamed. */
export type ResponseWrite = Readonly<{
  messageId: string;
  parts: readonly Part[];
  finishReason?: FinishReason;
  model?: string;
  usage?: Usage;
  error?: ErrorRecord;
  /** Not part of the transcript that the model is shown. */
  superseded?: boolean;
}>;

/** What was streamed of one message since its last piece that was written. */
export type StreamedPieces = Readonly<{ fence: Fence; messageId: string; chunks: readonly TextChunk[] }>;

/**
 * Appends streamed text, of as many messages as stream at once. Says for each whether it was written; false: fenced.
 * The run rows are locked in the same statement that checks the fences, so no takeover can slip in between, and in the
 * order of their ids, as heartbeats do, so that no two of these meet crosswise.
 */
export async function appendChunks(db: Db, streamed: readonly StreamedPieces[]): Promise<boolean[]> {
  const pieces = streamed.flatMap(({ chunks }, index) => chunks.map((chunk) => ({ ...chunk, index })));
  const { rows } = await sql<{ index: number }>`
    with held as materialized (
      select claimed.no - 1 as index, claimed.message_id
      from unnest(
        ${streamed.map(({ fence }) => fence.runId)}::uuid[],
        ${streamed.map(({ fence }) => fence.epoch)}::bigint[],
        ${streamed.map(({ fence }) => fence.claimId)}::uuid[],
        ${streamed.map(({ messageId }) => messageId)}::uuid[]
      ) with ordinality as claimed (run_id, epoch, claim_id, message_id, no)
      join runs on runs.id = claimed.run_id and runs.epoch = claimed.epoch and runs.claim_id = claimed.claim_id
      order by runs.id for share of runs
    ), appended as (
      insert into part_chunks (message_id, char_offset, part_idx, type, chunk)
      select held.message_id, pieces.char_offset, pieces.part_idx, pieces.type, pieces.chunk from held join unnest(
        ${pieces.map(({ index }) => index)}::integer[],
        ${pieces.map(({ charOffset }) => charOffset)}::integer[],
        ${pieces.map(({ partIndex }) => partIndex)}::integer[],
        ${pieces.map(({ type }) => type)}::text[],
        ${pieces.map(({ text }) => toText(text))}::text[]
      ) as pieces (index, char_offset, part_idx, type, chunk) on pieces.index = held.index
      -- Written again after a lost reply; the last piece may have grown since.
      on conflict (message_id, char_offset) do update set chunk = excluded.chunk
    )
    select index::integer from held`.execute(db);
  const held = new Set(rows.map(({ index }) => index));
  return streamed.map((_, index) => held.has(index));
}

/**
 * The session's last event after the response, and whether its `running` calls are: where a cancel was requested they are
 * `pending`.
 */
export type WrittenResponse = z.infer<typeof writtenResponseSchema>;
const writtenResponseSchema = z.object({ eventSeq: z.number(), mayStart: z.boolean() });

/** Makes the whole response durable, before any of its tools starts. Null: fenced. */
export async function writeResponse(
  db: Db,
  fence: Fence,
  response: ResponseWrite,
  events: readonly NewEvent[],
): Promise<WrittenResponse | null> {
  const { rows } = await sql<{ written: unknown }>`
    select baton_write_response(${fence.runId}, ${fence.epoch}, ${fence.claimId}, ${toJson(response)}::jsonb,
      ${toJson(events)}::jsonb) as written`.execute(db);
  return writtenResponseSchema.nullable().parse(rows[0]?.written ?? null);
}

export type CallMove = Readonly<{
  messageId: string;
  index: number;
  from: readonly ToolCallState[];
  to: ToolCallState;
  output?: ToolOutput;
  /** What was cut out of the output: its size before, and the whole of it where that is kept. */
  cut?: Readonly<{ originalTokens: number; blob?: NewBlob }>;
  /** Set where the call was not marked as running before: a tool that only reads ran for so long. */
  ranMs?: number;
  /** What was said about the call was said before it was started again. */
  forgetsAnswer?: true;
  events: readonly NewEvent[];
}>;

/**
 * `refused`: the call was in none of the `from` states. `cancelled`: it may not start any more.
 * Nothing was written then.
 */
export type MoveAnswer = z.infer<typeof moveAnswer>;
const moveAnswer = z.enum(['moved', 'refused', 'cancelled']);

/** What became of each move, and the session's last event after them. */
export type MovedCalls = Readonly<{ answers: readonly MoveAnswer[]; eventSeq: number }>;
const movedCallsSchema = z.object({ answers: z.array(moveAnswer), eventSeq: z.number() });

/** Moves tool calls, each as if it was the only one; what they bring commits with them. Null: fenced. */
export async function moveCalls(db: Db, fence: Fence, moves: readonly CallMove[]): Promise<MovedCalls | null> {
  const { rows } = await sql<{ moved: unknown }>`
    select baton_move_calls(${fence.runId}, ${fence.epoch}, ${fence.claimId}, ${toJson(moves.map(toStoredMove))}::jsonb,
      ${blobsOf(moves)}::bytea[]) as moved`.execute(db);
  return movedCallsSchema.nullable().parse(rows[0]?.moved ?? null);
}

const blobsOf = (moves: readonly CallMove[]) => moves.map(({ cut }) => cut?.blob?.bytes ?? null);

function toStoredMove({ cut, ...move }: CallMove) {
  if (cut === undefined) return move;
  const { originalTokens, blob } = cut;
  if (blob === undefined) return { ...move, originalTokens };
  const { id, sha256, mediaType } = blob;
  return { ...move, originalTokens, blob: { id, sha256: sha256.toString('hex'), mediaType } };
}

/**
 * What is written in place of `response` and `events` where a cancel was requested: nothing is
 * dropped for another attempt.
 */
export type KeptAnswer = Readonly<{ response: ResponseWrite; events: readonly NewEvent[] }>;

export type StepFinish = Readonly<{
  /** Set where the response was not written before: a step without tools ends in one round trip. */
  response?: ResponseWrite;
  keptIfCancelled?: KeptAnswer;
  /** Outcomes of calls that commit with the end of the step. */
  moves: readonly CallMove[];
  usage: Usage;
  costUsd: number | null;
  /** 1 for a step that counts against the run's limit, 0 for one that never got an answer. */
  steps: 0 | 1;
  /** Set where the step changed what is known of the context. */
  contextState?: ContextState;
  events: readonly NewEvent[];
  next: NextPlan;
  /** A prune that the view is worth, should this run end here and no message wait. */
  maintenanceAtEnd?: 'prune';
  /** The id for the run that follows, should this one end here and nobody was promised another. */
  nextRunId: string;
}>;

/** Ends the step: response, outcomes, usage, events and what comes next commit together. Null: fenced. */
export async function finishStep(db: Db, fence: Fence, finish: StepFinish): Promise<FinishedWork | null> {
  const { moves } = finish;
  const events = [...moves.flatMap((move) => move.events), ...finish.events];
  const stored = { ...finish, events, moves: moves.map(toStoredMove) };
  const { rows } = await sql<{ finished: unknown }>`
    select baton_finish_step(${fence.runId}, ${fence.epoch}, ${fence.claimId}, ${toJson(stored)}::jsonb,
      ${blobsOf(moves)}::bytea[]) as finished`.execute(db);
  return finishedWorkSchema.nullable().parse(rows[0]?.finished ?? null);
}
