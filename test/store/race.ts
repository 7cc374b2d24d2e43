import { sql } from 'kysely';
import { expect } from 'vitest';
import { NEW_CONTEXT_STATE } from '../../src/domain/context/meter/state.ts';
import { planAfterMaintenance } from '../../src/domain/run/after-maintenance.ts';
import { type JobPayload, jobPayloadSchema } from '../../src/domain/run/job.ts';
import { planNext } from '../../src/domain/run/next-step.ts';
import type { PendingKind } from '../../src/domain/run/run.ts';
import type { Part } from '../../src/domain/transcript/message.ts';
import { NO_USAGE } from '../../src/domain/usage.ts';
import { newId } from '../../src/platform/new-id.ts';
import type { NewInboxMessage } from '../../src/store/changes/inbox.ts';
import type { Db } from '../../src/store/db/database.ts';
import { findSession, insertSession } from '../../src/store/session/sessions.ts';
import { readEvents } from '../../src/store/transcript/events.ts';
import { listMessages } from '../../src/store/transcript/messages.ts';
import { claimRun } from '../../src/store/work/claims.ts';
import { type CompactionEnd, finishMaintenance, type NewMark } from '../../src/store/work/maintenance.ts';
import { type CarryOn, finishStep } from '../../src/store/work/step-writes.ts';
import { answerStep, type Claimed, claimJob } from '../http/play-worker.ts';
import { eventually } from '../support/eventually.ts';
import { acceptMessage } from '../support/unlimited.ts';

export type Race = Awaited<ReturnType<typeof openRace>>;

/** A session, and a gate where two transactions meet. Nothing else may be at work in the database. */
export async function openRace(db: Db) {
  const sessionId = newId();
  const agent = { agentName: 'tester', agentVersion: '1', agentSnapshot: { name: 'tester', model: 'test/test' } };
  await insertSession(db, { id: sessionId, tenantId: 'default', ...agent, title: null, metadata: {} });
  const send = (text: string, delivery: NewInboxMessage['delivery'] = 'steer', messageId = newId()) =>
    acceptMessage(db, {
      tenantId: 'default',
      sessionId,
      messageId,
      content: [{ type: 'text', text }],
      runId: newId(),
      delivery,
    });
  return {
    db,
    sessionId,
    ref: { tenantId: 'default', sessionId },
    send,
    /** A run at work on its first step. */
    begin: async (): Promise<Claimed> => claimJob(db, (await send('Go')).job ?? undefined),
    /** Both wait for the session's row before either gets it, then `first` does. */
    inOrder: <A, B>(first: () => Promise<A>, second: () => Promise<B>) =>
      inOrder(db, { table: 'sessions', id: sessionId }, first, second),
    /**
     * The same for either order: `isFirst` says whether `a` is the first. The answers are in
     * the order of the arguments.
     */
    meet: async <A, B>(isFirst: boolean, a: () => Promise<A>, b: () => Promise<B>): Promise<readonly [A, B]> => {
      const row = { table: 'sessions', id: sessionId } as const;
      if (isFirst) return inOrder(db, row, a, b);
      const [ofB, ofA] = await inOrder(db, row, b, a);
      return [ofA, ofB];
    },
    /** The same at a run's row, for functions that lock it before the session's row or without it. */
    inOrderAtRun: <A, B>(runId: string, first: () => Promise<A>, second: () => Promise<B>) =>
      inOrder(db, { table: 'runs', id: runId }, first, second),
    /**
     * `second` runs to its end while `first`, which has locked the session, waits in its transaction for a run's row.
     */
    during: <A, B>(runId: string, first: () => Promise<A>, second: () => Promise<B>) =>
      during(db, runId, first, second),
    /** The types of the session's events, in order. */
    eventTypes: async () =>
      (await readEvents(db, 'default', sessionId, { afterSeq: 0, limit: 1_000 })).map(({ type }) => type),
    session: () => findSession(db, 'default', sessionId),
    /** Texts of the user in the transcript, in order. */
    userTexts: () => userTexts(db, sessionId),
    playOut: () => playOut(db, sessionId),
  };
}

type Row = Readonly<{ table: 'sessions' | 'runs'; id: string }>;

async function inOrder<A, B>(
  db: Db,
  row: Row,
  first: () => Promise<A>,
  second: () => Promise<B>,
): Promise<readonly [A, B]> {
  const started = await behindLock(db, row, async () => {
    const a = first();
    await untilWaiting(db, 1);
    const b = second();
    await untilWaiting(db, 2);
    // Not awaited here: the gate opens when the transaction that holds it ends.
    return { both: Promise.all([a, b]) };
  });
  return started.both;
}

async function during<A, B>(
  db: Db,
  runId: string,
  first: () => Promise<A>,
  second: () => Promise<B>,
): Promise<readonly [A, B]> {
  const started = await behindLock(db, { table: 'runs', id: runId }, async () => {
    const a = first();
    await untilWaiting(db, 1);
    return { a, b: await second() };
  });
  return [await started.a, started.b];
}

/** Does something while a transaction of its own holds a row. */
export async function behindLock<T>(db: Db, { table, id }: Row, work: () => Promise<T>): Promise<T> {
  return db.transaction().execute(async (tx) => {
    await sql`select 1 from ${sql.table(table)} where id = ${id} for no key update`.execute(tx);
    return work();
  });
}

/**
 * Waits until this many transactions of the database wait for a lock. Call it outside a transaction: inside one the
 * answer never changes.
 */
export async function untilWaiting(db: Db, count: number): Promise<void> {
  await eventually(async () => (await countWaiting(db)) === count, `${count} transactions wait for a lock`);
}

export async function countWaiting(db: Db): Promise<number> {
  const { rows } = await sql<{ waiting: number }>`
    select count(*)::integer as waiting from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'`.execute(db);
  return rows[0]?.waiting ?? 0;
}

export const claimOf = (db: Db, job: JobPayload, { claimId = newId(), leaseDurationMs = 30_000 } = {}) =>
  claimRun(db, { job, claimId, workerId: claimId, leaseDurationMs, messageId: newId() });

/**
 * Ends a step whose tools are done: the run goes on, with a compaction or prune first where `before` says so. With
 * `carryOn` the same worker goes on with it.
 */
export async function goOn(
  db: Db,
  claimed: Claimed,
  before?: Exclude<PendingKind, 'step'>,
  parts: readonly Part[] = [{ type: 'text', text: 'I go on.' }],
  carryOn?: CarryOn,
) {
  const { fence, messageId, job } = claimed;
  const next = planNext({
    runId: fence.runId,
    stepNo: job.no,
    stepsBefore: claimed.run.stepCount,
    maxSteps: 100,
    finishReason: 'tool-calls',
    toolCalls: 1,
    result: { kind: 'answered', ...(before !== undefined && { before }) },
  });
  const finished = await finishStep(db, fence, {
    response: { messageId, parts, finishReason: 'tool-calls' },
    moves: [],
    usage: NO_USAGE,
    costUsd: 0,
    nextRunId: newId(),
    steps: 1,
    events: [],
    next,
    ...(carryOn && { carryOn }),
  });
  if (finished === null) throw new Error('the step was fenced');
  return finished;
}

/** Ends a compaction or a prune. */
export async function finishCleanUp(
  db: Db,
  { fence, run, job }: Claimed,
  compaction?: CompactionEnd,
  marks: readonly NewMark[] = [],
) {
  const finished = await finishMaintenance(db, fence, {
    marks,
    ...(compaction === undefined ? {} : { compaction }),
    contextState: NEW_CONTEXT_STATE,
    usage: NO_USAGE,
    costUsd: 0,
    events: [],
    next: planAfterMaintenance({ runId: fence.runId, runKind: run.kind, stepNo: job.no, goesOnWith: 'step' }),
    nextRunId: newId(),
  });
  if (finished === null) throw new Error('the clean-up was fenced');
  return finished;
}

/**
 * Does everything that is pending, as a worker would, until the session is idle. Returns the runs that were at work.
 */
async function playOut(db: Db, sessionId: string): Promise<readonly string[]> {
  const runIds = new Set<string>();
  for (let left = 20; left > 0; left--) {
    const { active_run_id: runId } = await findSession(db, 'default', sessionId);
    if (runId === null) return [...runIds];
    runIds.add(runId);
    const { rows } = await sql<{ job: unknown }>`select baton_job_of(${runId}) as job`.execute(db);
    const claimed = await claimJob(db, jobPayloadSchema.parse(rows[0]?.job));
    await (claimed.job.kind === 'step' ? answerStep(db, claimed, 'Done.') : finishCleanUp(db, claimed));
  }
  throw new Error('the session never becomes idle');
}

async function userTexts(db: Db, sessionId: string): Promise<readonly string[]> {
  const messages = await listMessages(db, 'default', sessionId, { afterSeq: 0, limit: 100 });
  return messages
    .filter(({ role }) => role === 'user')
    .flatMap(({ parts }) => parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])));
}

export function expectOnce(texts: readonly string[], text: string): void {
  expect(texts.filter((each) => each.includes(text))).toHaveLength(1);
}
