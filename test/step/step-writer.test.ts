import { afterAll, beforeAll, expect, it } from 'vitest';
import { planNext } from '../../src/domain/run/next-step.ts';
import { NO_USAGE } from '../../src/domain/usage.ts';
import { newId } from '../../src/platform/new-id.ts';
import { createStepWriter, type StepWriter } from '../../src/step/step-writer.ts';
import type { Db } from '../../src/store/db/database.ts';
import { listMessages } from '../../src/store/transcript/messages.ts';
import type { Claimed } from '../http/play-worker.ts';
import { behindLock, openRace, type Race, untilWaiting } from '../store/race.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { hearing } from './one-step.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database[Symbol.asyncDispose]());

/** A session whose run has begun its first step. */
async function beginOne(): Promise<Readonly<{ race: Race; claimed: Claimed }>> {
  const race = await openRace(database.db);
  return { race, claimed: await race.begin() };
}

const respond = (writer: StepWriter, { fence, messageId }: Claimed, text: string) =>
  writer.respond(fence, { messageId, parts: [{ type: 'text', text }], finishReason: 'stop' }, []);

/** Counts the statements of a group, and those by themselves. */
function counting(db: Db): Readonly<{ db: Db; groups: string[]; alone: string[] }> {
  const groups: string[] = [];
  const alone: string[] = [];
  const heard = hearing(db, 'baton_write_steps', () => groups.push('group'));
  return { db: hearing(heard, 'baton_write_response', () => alone.push('alone')), groups, alone };
}

const textsOf = async ({ sessionId }: Race): Promise<unknown[]> =>
  (await listMessages(database.db, 'default', sessionId, { afterSeq: 0, limit: 10 })).flatMap(({ role, parts }) =>
    role === 'assistant' ? parts.map((part) => (part.type === 'text' ? part.text : part.type)) : [],
  );

it('writes of several sessions share a transaction, and each has its own answer', async () => {
  const [a, b] = [await beginOne(), await beginOne()];
  const { db, groups, alone } = counting(database.db);
  const writer = createStepWriter(db);
  const lost = { ...b.claimed, fence: { ...b.claimed.fence, epoch: 99 } };
  const answers = await Promise.all([
    respond(writer, a.claimed, 'A'),
    respond(writer, lost, 'no'),
    respond(writer, b.claimed, 'B'),
  ]);
  expect(answers).toEqual([
    expect.objectContaining({ mayStart: true }),
    null,
    expect.objectContaining({ mayStart: true }),
  ]);
  expect([groups.length, alone.length]).toEqual([1, 0]);
  expect([await textsOf(a.race), await textsOf(b.race)]).toEqual([['A'], ['B']]);
});

it('of a group of which one write fails, the others are written, and it fails alone', async () => {
  const [a, b] = [await beginOne(), await beginOne()];
  const { db, alone } = counting(database.db);
  const writer = createStepWriter(db);
  const wrong = { ...a.claimed, messageId: b.claimed.messageId };
  const [failed, written] = await Promise.allSettled([respond(writer, wrong, 'A'), respond(writer, b.claimed, 'B')]);
  expect(failed).toMatchObject({
    status: 'rejected',
    reason: { message: expect.stringContaining('is not of the session') },
  });
  expect(written).toMatchObject({ status: 'fulfilled', value: { mayStart: true } });
  expect(alone).toEqual(['alone']);
  expect([await textsOf(a.race), await textsOf(b.race)]).toEqual([[], ['B']]);
});

it('a write whose step a failover has lost is refused as by itself, and costs its group nothing', async () => {
  const [a, b] = [await beginOne(), await beginOne()];
  const { db, alone } = counting(database.db);
  const writer = createStepWriter(db);
  const { fence, job, messageId } = a.claimed;
  const ended = writer.finish(fence, {
    written: { messageId, open: [] },
    moves: [],
    usage: NO_USAGE,
    costUsd: 0,
    steps: 1,
    events: [],
    next: planNext({
      runId: fence.runId,
      stepNo: job.no,
      stepsBefore: 0,
      maxSteps: 100,
      finishReason: 'stop',
      toolCalls: 0,
      result: { kind: 'answered' },
    }),
    nextRunId: newId(),
  });
  const answers = await Promise.all([ended, respond(writer, b.claimed, 'B')]);
  expect(answers).toEqual([null, expect.objectContaining({ mayStart: true })]);
  expect([alone, await textsOf(b.race)]).toEqual([['alone'], ['B']]);
});

it('a locked session keeps no other one waiting', async () => {
  const [a, b, c] = [await beginOne(), await beginOne(), await beginOne()];
  const writer = createStepWriter(database.db);
  const waiting = await behindLock(database.db, { table: 'sessions', id: a.race.sessionId }, async () => {
    const first = respond(writer, a.claimed, 'A');
    await respond(writer, b.claimed, 'B');
    await respond(writer, c.claimed, 'C');
    await untilWaiting(database.db, 1);
    return { first };
  });
  expect(await waiting.first).toMatchObject({ mayStart: true });
  expect([await textsOf(a.race), await textsOf(b.race), await textsOf(c.race)]).toEqual([['A'], ['B'], ['C']]);
});

it('where the answer is lost nothing is written again by itself', async () => {
  const { claimed } = await beginOne();
  const { db, alone } = counting(database.db);
  const losing = hearing(db, 'baton_write_steps', () => {
    throw new Error('Connection terminated unexpectedly');
  });
  await expect(respond(createStepWriter(losing), claimed, 'A')).rejects.toThrow('Connection terminated');
  expect(alone).toEqual([]);
});
