import { sql } from 'kysely';
import { type ContextState, NEW_CONTEXT_STATE } from '../src/domain/context/state.ts';
import type { JobPayload } from '../src/domain/job.ts';
import type { ViewMessage } from '../src/domain/message.ts';
import { planNext } from '../src/domain/next-step.ts';
import { NO_USAGE } from '../src/domain/usage.ts';
import { newId } from '../src/runtime/new-id.ts';
import type { Fence } from '../src/store/claims.ts';
import type { Db } from '../src/store/database.ts';
import { finishStep } from '../src/store/step-writes.ts';
import { type BeginStep, createBeginStep } from './begin-step.ts';
import type { Bench } from './bench.ts';
import { codingSession, MODEL } from './coding-session.ts';
import { createBenchDatabase } from './database.ts';
import { type Row, toRow } from './row.ts';
import { startRun, storeSession } from './stored-session.ts';

const STORED_MESSAGES = 10_000;
/** Messages that the compaction kept verbatim; the summary comes before them. */
const VIEW_MESSAGES = 50;
const EVENTS_PER_MESSAGE = 8;
const MESSAGES_PER_RUN = 25;
const GOAL_RATIO = 1.1;
const REPETITIONS = 100;
const WARM_UPS = 10;
const SEED = 20_261_121;

/**
 * What a step costs at the end of a long session: from the end of one model call to the moment before the next one, in a
 * session of 10 000 stored messages that was compacted and in a fresh one with the same view. Both take turns, so that
 * whatever else the machine does falls on both.
 */
export async function benchSessionLength({ services }: Bench): Promise<Row[]> {
  await using database = await createBenchDatabase(services.postgresUrl);
  const { db } = database;
  const messages = codingSession(STORED_MESSAGES, SEED);
  const old = await storeCompacted(db, messages, STORED_MESSAGES - VIEW_MESSAGES + 1);
  await addHistory(db, old);
  const fresh = await storeCompacted(db, renumbered(messages.slice(-VIEW_MESSAGES)), 1);
  await sql`vacuum analyze`.execute(db);
  const beginStep = createBeginStep(db);
  const times = { old: [] as number[], fresh: [] as number[] };
  for (let round = -WARM_UPS; round < REPETITIONS; round++) {
    const order = round % 2 === 0 ? (['old', 'fresh'] as const) : (['fresh', 'old'] as const);
    for (const name of order) {
      const elapsedMs = await timeStep(db, beginStep, name === 'old' ? old : fresh);
      if (round >= 0) times[name].push(elapsedMs);
    }
  }
  const row = {
    backend: 'postgres',
    timed: 'end of a model call written, next step claimed, viewed, measured, decided',
  };
  return [
    toRow({ ...row, case: 'session-length/fresh', values: times.fresh }),
    toRow({
      ...row,
      case: `session-length/${STORED_MESSAGES} stored`,
      values: times.old,
      reference: times.fresh,
      goal: { atMost: GOAL_RATIO },
    }),
  ];
}

/** Stores the messages with a summary after them, which stands for those before `viewStartSeq`. */
function storeCompacted(db: Db, messages: readonly ViewMessage[], viewStartSeq: number): Promise<string> {
  const summarySeq = (messages.at(-1)?.seq ?? 0) + 1;
  const text = 'What was done so far: the store was split by noun, and every write is fenced. '.repeat(60);
  const summary: ViewMessage = {
    id: 'summary',
    seq: summarySeq,
    role: 'user',
    model: null,
    parts: [{ type: 'compaction', text }],
  };
  const lastAnswer = messages.findLast((message) => message.role === 'assistant');
  const contextState: ContextState = {
    ...NEW_CONTEXT_STATE,
    model: MODEL,
    anchor: { usage: { ...NO_USAGE, inputTokens: 50_000, outputTokens: 300 }, messageSeq: lastAnswer?.seq ?? 1 },
  };
  return storeSession(db, { messages: [...messages, summary], contextState, compacted: { summarySeq, viewStartSeq } });
}

const renumbered = (messages: readonly ViewMessage[]): ViewMessage[] =>
  messages.map((message, index) => ({ ...message, seq: index + 1 }));

/** The runs and events that a session of that length has behind it. */
async function addHistory(db: Db, sessionId: string): Promise<void> {
  await sql`
    insert into runs (id, session_id, status, created_at)
    select gen_random_uuid(), ${sessionId}, 'completed', now() - make_interval(mins => n)
    from generate_series(1, ${STORED_MESSAGES / MESSAGES_PER_RUN}::integer) n`.execute(db);
  await sql`
    insert into events (session_id, seq, type, data)
    select ${sessionId}, seq, 'message:created', '{"words":"words and more words"}'
    from generate_series(1, ${STORED_MESSAGES * EVENTS_PER_MESSAGE}::integer) seq`.execute(db);
  await sql`update sessions set event_seq = ${STORED_MESSAGES * EVENTS_PER_MESSAGE} where id = ${sessionId}`.execute(
    db,
  );
}

/** Milliseconds from the end of a run's first model call to the moment before its second one; the run is ended then. */
async function timeStep(db: Db, beginStep: BeginStep, sessionId: string): Promise<number> {
  const job = await startRun(db, sessionId);
  const first = await begin(beginStep, job);
  const startedAt = performance.now();
  const next = await finish(db, first, job, 1);
  if (next === undefined) throw new Error('the run did not go on');
  const second = await begin(beginStep, next);
  const elapsedMs = performance.now() - startedAt;
  await finish(db, second, next, 0);
  return elapsedMs;
}

type Begun = Readonly<{ fence: Fence; messageId: string }>;

async function begin(beginStep: BeginStep, job: JobPayload): Promise<Begun> {
  const [claimId, messageId] = [newId(), newId()];
  const { claim, context } = await beginStep(job, claimId, messageId);
  if (context.decision.kind !== 'proceed') throw new Error(`the step would not ask: ${context.decision.kind}`);
  return { fence: { runId: job.runId, epoch: claim.epoch, claimId }, messageId };
}

/** Writes an answer that made so many calls, and ends its step. @returns the job of the next one, if the run goes on */
async function finish(
  db: Db,
  { fence, messageId }: Begun,
  { runId, no }: JobPayload,
  toolCalls: number,
): Promise<JobPayload | undefined> {
  const finishReason = toolCalls > 0 ? 'tool-calls' : 'stop';
  const next = planNext({
    runId,
    stepNo: no,
    stepsBefore: no - 1,
    maxSteps: 50,
    finishReason,
    toolCalls,
    stillRan: [],
  });
  const finished = await finishStep(db, fence, {
    response: { messageId, parts: [{ type: 'text', text: 'I read the next file.' }], finishReason, model: MODEL },
    moves: [],
    usage: NO_USAGE,
    costUsd: 0,
    nextRunId: newId(),
    steps: 1,
    events: [],
    next,
  });
  if (finished === null) throw new Error('the run was lost');
  return finished.jobs[0];
}
