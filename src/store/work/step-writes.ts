import { sql } from 'kysely';
import { z } from 'zod';
import type { ContextState } from '../../domain/context/meter/state.ts';
import type { ErrorRecord } from '../../domain/errors.ts';
import type { NextPlan } from '../../domain/run/branch.ts';
import type { NewEvent } from '../../domain/run/events.ts';
import { toText } from '../../domain/storable-json.ts';
import type { CallQuestion } from '../../domain/transcript/call-question.ts';
import type { FinishReason, Part, ToolOutput } from '../../domain/transcript/message.ts';
import type { ToolCallState } from '../../domain/transcript/tool-call.ts';
import { ENGINE_VERSION } from '../../domain/tunables.ts';
import type { Usage } from '../../domain/usage.ts';
import type { Db } from '../db/database.ts';
import { toWrittenJson } from '../db/json.ts';
import type { NewBlob } from '../transcript/blobs.ts';
import type { KeptRequest } from '../transcript/step-request.ts';
import { type CachedView, type ClaimedRun, claimedSchema, type Fence, toClaimedRun } from './claims.ts';
import { type FinishedWork, finishedWorkSchema } from './finished-work.ts';

export type TextChunk = Readonly<{
  charOffset: number;
  partIndex: number;
  type: 'text' | 'reasoning';
  text: string;
}>;

/** The final form of the assistant's message. It replaces the streamed text. */
export type ResponseWrite = Readonly<{
  messageId: string;
  parts: readonly Part[];
  finishReason?: FinishReason;
  model?: string;
  usage?: Usage;
  error?: ErrorRecord;
  request?: KeptRequest;
  /** The view leaves the message out. */
  superseded?: boolean;
}>;

/** The streamed text of one message that is not written yet. */
export type StreamedPieces = Readonly<{ fence: Fence; messageId: string; chunks: readonly TextChunk[] }>;

/**
 * Appends streamed text of several messages; false for one that is fenced. The statement that checks the fences locks
 * the runs against takeovers, in the order of their ids, as heartbeats do, so that they cannot deadlock.
 */
export async function appendChunks(db: Db, streamed: readonly StreamedPieces[]): Promise<boolean[]> {
  const pieces = streamed.flatMap(({ chunks }, index) => chunks.map((chunk) => ({ ...chunk, index })));
  const { rows } = await sql<{ index: number }>`
    with held as materialized (
      select claimed.no - 1 as index, runs.session_id, claimed.message_id
      from unnest(
        ${streamed.map(({ fence }) => fence.runId)}::uuid[],
        ${streamed.map(({ fence }) => fence.epoch)}::bigint[],
        ${streamed.map(({ fence }) => fence.claimId)}::uuid[],
        ${streamed.map(({ messageId }) => messageId)}::uuid[]
      ) with ordinality as claimed (run_id, epoch, claim_id, message_id, no)
      join runs on runs.id = claimed.run_id and runs.epoch = claimed.epoch and runs.claim_id = claimed.claim_id
      order by runs.id for share of runs
    ), appended as (
      insert into part_chunks (session_id, message_id, char_offset, part_idx, type, chunk)
      select held.session_id, held.message_id, pieces.char_offset, pieces.part_idx, pieces.type, pieces.chunk
      from held join unnest(
        ${pieces.map(({ index }) => index)}::integer[],
        ${pieces.map(({ charOffset }) => charOffset)}::integer[],
        ${pieces.map(({ partIndex }) => partIndex)}::integer[],
        ${pieces.map(({ type }) => type)}::text[],
        ${pieces.map(({ text }) => toText(text))}::text[]
      ) as pieces (index, char_offset, part_idx, type, chunk) on pieces.index = held.index
      -- Written again after a lost reply; the last piece may have grown since.
      on conflict (session_id, message_id, char_offset) do update set chunk = excluded.chunk
    )
    select index::integer from held`.execute(db);
  const held = new Set(rows.map(({ index }) => index));
  return streamed.map((_, index) => held.has(index));
}

/** `mayStart` false: a cancel was requested, and the calls are `pending` instead of `running`. */
export type WrittenResponse = z.infer<typeof writtenResponseSchema>;
const writtenResponseSchema = z.object({ eventSeq: z.number(), mayStart: z.boolean() });

/** Makes the whole response durable before any of its tools starts. Null: fenced. */
export async function writeResponse(
  db: Db,
  fence: Fence,
  response: ResponseWrite,
  events: readonly NewEvent[],
): Promise<WrittenResponse | null> {
  const { rows } = await sql<{ written: unknown }>`
    select baton_write_response(${fence.runId}, ${fence.epoch}, ${fence.claimId}, ${toWrittenJson(response)}::jsonb,
      ${toWrittenJson(events)}::jsonb) as written`.execute(db);
  return writtenResponseSchema.nullable().parse(rows[0]?.written ?? null);
}

export type CallMove = Readonly<{
  messageId: string;
  index: number;
  from: readonly ToolCallState[];
  to: ToolCallState;
  output?: ToolOutput;
  /** Set for a cut output: its size before, and the whole output if it is kept. */
  cut?: Readonly<{ originalTokens: number; blob?: NewBlob }>;
  /** Set for a read-only tool, whose call was not marked as running before: the time that it ran. */
  ranMs?: number;
  /** The answer was given before the call was started again, and is cleared. */
  forgetsAnswer?: true;
  /** What the tool asks a person for, in place of an outcome. */
  question?: CallQuestion;
  events: readonly NewEvent[];
}>;

/** `refused`: the call was in none of the `from` states. `cancelled`: it may not start. Both wrote nothing. */
export type MoveAnswer = z.infer<typeof moveAnswer>;
const moveAnswer = z.enum(['moved', 'refused', 'cancelled']);

/** One answer for each move, and the session's last event after them. */
export type MovedCalls = Readonly<{ answers: readonly MoveAnswer[]; eventSeq: number }>;
const movedCallsSchema = z.object({ answers: z.array(moveAnswer), eventSeq: z.number() });

/** Moves tool calls independently of each other, in one transaction. Null: fenced. */
export async function moveCalls(db: Db, fence: Fence, moves: readonly CallMove[]): Promise<MovedCalls | null> {
  const { rows } = await sql<{ moved: unknown }>`
    select baton_move_calls(${fence.runId}, ${fence.epoch}, ${fence.claimId}, ${toWrittenJson(moves.map(toStoredMove))}::jsonb,
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

/** Written in place of `response` and `events` if a cancel was requested, because there will be no further attempt. */
export type KeptAnswer = Readonly<{ response: ResponseWrite; events: readonly NewEvent[] }>;

/** The claim with which the worker goes on, if the plan goes on with a step. All ids are the caller's. */
export type CarryOn = Readonly<{
  claimId: string;
  messageId: string;
  leaseDurationMs: number;
  /** As in `ClaimInput`. */
  tenantConcurrency: number;
  known: CachedView | undefined;
}>;

/** `claimed`: the next step, which has begun. Null: its job goes through the queue. */
export type FinishedStep = FinishedWork & Readonly<{ claimed: ClaimedRun | null }>;
const finishedStepSchema = finishedWorkSchema.extend({ claimed: claimedSchema.nullable() });

export type StepFinish = Readonly<{
  /** Set if the response is not written yet: a step without tools ends in one round trip. */
  response?: ResponseWrite;
  /** Set if it is: the message, and the parts of it that stay open calls. */
  written?: Readonly<{ messageId: string; open: readonly number[] }>;
  keptIfCancelled?: KeptAnswer;
  /** Outcomes of calls that commit with the end of the step. */
  moves: readonly CallMove[];
  usage: Usage;
  costUsd: number | null;
  /** 1: the step counts towards `maxSteps`. 0: it never got a response. */
  steps: 0 | 1;
  /** Set if the step changed it. */
  contextState?: ContextState;
  events: readonly NewEvent[];
  next: NextPlan;
  /** A prune that pays, if the run ends here and no message is queued. */
  maintenanceAtEnd?: 'prune';
  /** The id for the follow-up run, unless one is promised. */
  nextRunId: string;
  carryOn?: CarryOn;
}>;

/**
 * Ends the step: response, outcomes, usage, events and the next work commit together, and with `carryOn` the begin of
 * the next step. Null: fenced, or earlier writes of the claim were lost with a failover.
 */
export async function finishStep(db: Db, fence: Fence, finish: StepFinish): Promise<FinishedStep | null> {
  const finishing = sql<{ finished: unknown }>`
    select baton_finish_step(${fence.runId}, ${fence.epoch}, ${fence.claimId}, ${toWrittenJson(toStoredFinish(finish))}::jsonb,
      ${blobsOf(finish.moves)}::bytea[]) as finished`;
  const { rows } = await finishing.execute(db).catch((error: unknown) => {
    if (!areWritesLost(error)) throw error;
    return { rows: [] };
  });
  return toFinishedStep(db, finish, rows[0]?.finished ?? null);
}

/** As baton_finish_step raises it. */
const areWritesLost = (error: unknown): boolean => error instanceof Error && 'code' in error && error.code === 'BT001';

function toStoredFinish(finish: StepFinish) {
  const { moves, carryOn } = finish;
  const events = [...moves.flatMap((move) => move.events), ...finish.events];
  return { ...finish, events, moves: moves.map(toStoredMove), carryOn: carryOn && toStoredCarryOn(carryOn) };
}

async function toFinishedStep(db: Db, { carryOn }: StepFinish, answer: unknown): Promise<FinishedStep | null> {
  const finished = finishedStepSchema.nullable().parse(answer);
  if (finished === null) return null;
  const { claimed, ...work } = finished;
  return { ...work, claimed: claimed && (await toClaimedRun(db, claimed, carryOn?.known)) };
}

/** A write of a step, which may share its transaction with others. */
export type StepWrite<T> = Readonly<{
  /** As `baton_write_steps` takes it. */
  stored: unknown;
  parse: (answer: unknown) => T | Promise<T>;
  /** The same write by itself. */
  alone: () => Promise<T>;
}>;

/** `finishStep` as one of several writes. Null: it brings bytes, and is written alone. */
export function finishWrite(db: Db, fence: Fence, finish: StepFinish): StepWrite<FinishedStep | null> | null {
  if (blobsOf(finish.moves).some((bytes) => bytes !== null)) return null;
  return {
    stored: { kind: 'finish', ...fence, finish: toStoredFinish(finish) },
    parse: (answer) => toFinishedStep(db, finish, answer),
    alone: () => finishStep(db, fence, finish),
  };
}

/** `writeResponse` as one of several writes. */
export function responseWrite(
  db: Db,
  fence: Fence,
  response: ResponseWrite,
  events: readonly NewEvent[],
): StepWrite<WrittenResponse | null> {
  return {
    stored: { kind: 'response', ...fence, response, events },
    parse: (answer) => writtenResponseSchema.nullable().parse(answer),
    alone: () => writeResponse(db, fence, response, events),
  };
}

/** Writes them in one transaction: all or none. @returns their answers, for `parse` */
export async function writeSteps(db: Db, writes: readonly StepWrite<unknown>[]): Promise<readonly unknown[]> {
  const { rows } = await sql<{ answers: unknown[] }>`
    select baton_write_steps(${toWrittenJson(writes.map(({ stored }) => stored))}::jsonb) as answers`.execute(db);
  return rows[0]?.answers ?? [];
}

function toStoredCarryOn({ claimId, messageId, leaseDurationMs, tenantConcurrency, known }: CarryOn) {
  return {
    claimId,
    messageId,
    leaseMs: leaseDurationMs,
    engine: ENGINE_VERSION,
    tenantLimit: tenantConcurrency,
    viewVersion: known?.version ?? 0,
    viewAfterSeq: known === undefined ? 0 : known.next.seq - 1,
    viewMessageId: known?.next.messageId ?? null,
  };
}
