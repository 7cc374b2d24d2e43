import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JobPayload } from '../../src/domain/run/job.ts';
import { NO_USAGE } from '../../src/domain/usage.ts';
import { newId } from '../../src/platform/new-id.ts';
import { readContext } from '../../src/store/session/context.ts';
import { type CachedView, type ClaimedRun, claimRun } from '../../src/store/work/claims.ts';
import { beginCompaction } from '../../src/store/work/maintenance.ts';
import type { Claimed } from '../http/play-worker.ts';
import { claimJob } from '../http/play-worker.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { finishCleanUp, goOn, openRace, type Race } from './race.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database[Symbol.asyncDispose]());

type Begun = Readonly<{ claimed: Claimed; view: NonNullable<ClaimedRun['view']>; known: CachedView }>;

/** Begins a step with the known view, and checks that its view is the session's. */
async function begin(race: Race, job: JobPayload | undefined, known?: CachedView): Promise<Begun> {
  if (job === undefined) throw new Error('there is no job');
  const ids = { claimId: newId(), messageId: newId() };
  const claim = await claimRun(race.db, { job, ...ids, workerId: 'w', leaseDurationMs: 30_000, known });
  if (claim.outcome !== 'claimed' || claim.view === null || claim.messageSeq === null) throw new Error(claim.outcome);
  const { view, run, epoch, viewVersion: version, messageSeq } = claim;
  expect(view).toEqual((await readContext(race.db, 'default', race.sessionId)).view);
  const fence = { runId: job.runId, epoch, claimId: ids.claimId };
  return {
    claimed: { fence, run, job, messageId: ids.messageId },
    view,
    known: { version, next: { messageId: ids.messageId, seq: messageSeq }, messages: view },
  };
}

/** A run at its third step, with an answer in each of the two before. */
async function openSession() {
  const race = await openRace(database.db);
  const first = await begin(race, (await race.send('Go')).job ?? undefined);
  const second = await begin(race, (await goOn(race.db, first.claimed)).jobs[0], first.known);
  const third = await begin(race, (await goOn(race.db, second.claimed)).jobs[0], second.known);
  return { race, first, second, third };
}

describe('a claim that says what is known of the view', () => {
  it('gets what came after it, and the view is whole', async () => {
    const { race, first, third } = await openSession();
    expect(third.view.map(({ role }) => role)).toEqual(['user', 'assistant', 'assistant']);
    // The same objects: these messages were not sent again.
    expect(third.view[0]).toBe(first.view[0]);
    await race.send('And this');
    const fourth = await begin(race, (await goOn(race.db, third.claimed)).jobs[0], third.known);
    expect(fourth.view.slice(0, 3)).toEqual(third.view);
    expect(fourth.view[1]).toBe(third.view[1]);
    expect(fourth.view.map(({ role }) => role)).toEqual(['user', 'assistant', 'assistant', 'assistant', 'user']);
  });

  it('gets it all the same when others have worked on the session since', async () => {
    const { race, first, third } = await openSession();
    const fourth = await begin(race, (await goOn(race.db, third.claimed)).jobs[0], first.known);
    expect(fourth.view[0]).toBe(first.view[0]);
    expect(fourth.view).toHaveLength(4);
  });

  it('gets the whole view when a part of it was marked meanwhile', async () => {
    const { race, first, second, third } = await openSession();
    const prune = await claimJob(race.db, (await goOn(race.db, third.claimed, 'prune')).jobs[0]);
    const mark = { messageId: second.claimed.messageId, index: 0, viewLimitChars: 3 };
    const [job] = (await finishCleanUp(race.db, prune, undefined, [mark])).jobs;
    const fourth = await begin(race, job, third.known);
    expect(fourth.view[0]).not.toBe(first.view[0]);
    expect(fourth.view[2]?.parts).toMatchObject([{ marks: { viewLimitChars: 3 } }]);
  });

  it('gets the whole view when it begins elsewhere since a compaction', async () => {
    const { race, third } = await openSession();
    const compaction = await claimJob(race.db, (await goOn(race.db, third.claimed, 'compaction')).jobs[0]);
    const id = newId();
    const round = {
      strategy: 'reactive-overflow',
      reason: 'threshold',
      fromSeq: 1,
      uptoSeq: 2,
      tokensBefore: 9,
      modelLimit: 9,
    } as const;
    await beginCompaction(race.db, compaction.fence, { id, ...round });
    const summary = { messageId: newId(), model: null, parts: [{ type: 'text', text: 'The summary.' }] } as const;
    const end = { id, state: 'completed', attempts: 1, costUsd: 0, usage: NO_USAGE, tokensAfter: 1 } as const;
    const [job] = (await finishCleanUp(race.db, compaction, { ...end, summary, viewStartSeq: 3 })).jobs;
    const fourth = await begin(race, job, third.known);
    expect(fourth.view[0]?.parts).toEqual([{ type: 'text', text: 'The summary.' }]);
    expect(fourth.view).toHaveLength(3);
  });

  it('gets the whole view where the message that followed is not there any more, as after a failover', async () => {
    const { race, first, third } = await openSession();
    const { next } = third.known;
    const lost = { ...third.known, next: { ...next, messageId: newId() } };
    const fourth = await begin(race, (await goOn(race.db, third.claimed)).jobs[0], lost);
    expect(fourth.view[0]).not.toBe(first.view[0]);
  });

  it('gets the whole view, too, where the worker goes on itself', async () => {
    const { race, first, third } = await openSession();
    const carry = (known: CachedView) => ({
      ...{ claimId: newId(), messageId: newId(), leaseDurationMs: 30_000, tenantConcurrency: 0, known },
    });
    const carried = await goOn(race.db, third.claimed, undefined, undefined, carry(third.known));
    expect(carried.claimed?.view?.[0]).toBe(first.view[0]);
    const { next } = third.known;
    const { race: other, first: begun, third: last } = await openSession();
    const lost = { ...last.known, next: { ...next, seq: last.known.next.seq } };
    const anew = await goOn(other.db, last.claimed, undefined, undefined, carry(lost));
    expect(anew.claimed?.view).toHaveLength(4);
    expect(anew.claimed?.view?.[0]).not.toBe(begun.view[0]);
  });

  it('gets no answer twice that was begun anew', async () => {
    const { race, second, third } = await openSession();
    const { fence, job, messageId } = third.claimed;
    const again = { job, claimId: fence.claimId, messageId, workerId: 'w', leaseDurationMs: 30_000 };
    expect(await claimRun(race.db, { ...again, known: second.known })).toMatchObject({ view: third.view });
    expect(await claimRun(race.db, { ...again, known: third.known })).toMatchObject({ view: third.view });
  });
});
