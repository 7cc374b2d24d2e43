import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { NO_USAGE } from '../../src/domain/usage.ts';
import { newId } from '../../src/platform/new-id.ts';
import { requestMaintenance } from '../../src/store/changes/maintenance.ts';
import { findRun } from '../../src/store/session/runs.ts';
import { listMessages } from '../../src/store/transcript/messages.ts';
import { beginCompaction, type CompactionEnd } from '../../src/store/work/maintenance.ts';
import { type Claimed, claimJob } from '../http/play-worker.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { claimOf, expectOnce, finishCleanUp, goOn, openRace, type Race } from './race.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database[Symbol.asyncDispose]());

/** A round of compaction that is under way before the second step of a run. */
async function beginRound(race: Race): Promise<{ claimed: Claimed; end: CompactionEnd }> {
  const { db } = race;
  const [job] = (await goOn(db, await race.begin(), 'compaction')).jobs;
  const claimed = await claimJob(db, job);
  const id = newId();
  const round = {
    id,
    strategy: 'reactive-overflow',
    reason: 'threshold',
    fromSeq: 1,
    uptoSeq: 1,
    tokensBefore: 900,
    modelLimit: 1_000,
  } as const;
  await beginCompaction(db, claimed.fence, round);
  return {
    claimed,
    end: {
      id,
      state: 'completed',
      attempts: 1,
      costUsd: 0,
      usage: NO_USAGE,
      tokensAfter: 100,
      summary: { messageId: newId(), model: null, parts: [{ type: 'text', text: 'The summary.' }] },
      viewStartSeq: 2,
    },
  };
}

const ORDERS = (['steer', 'followup', 'interrupt'] as const).flatMap((delivery) =>
  [true, false].map((isFirst) => [delivery, isFirst] as const),
);

describe('the end of a compaction and a message', () => {
  it.each(ORDERS)(
    '%s vs. the summary (the message first: %s): one of them would be lost',
    async (delivery, isFirst) => {
      const race = await openRace(database.db);
      const { claimed, end } = await beginRound(race);
      const [sent, finished] = await race.meet(
        isFirst,
        () => race.send('Meanwhile', delivery),
        () => finishCleanUp(race.db, claimed, end),
      );
      const { runId } = claimed.fence;
      expect(sent.runId === runId).toBe(delivery === 'steer');
      expect([...finished.jobs, ...(sent.job === null ? [] : [sent.job])].at(-1)).toMatchObject({
        runId: delivery === 'interrupt' ? sent.runId : runId,
        kind: 'step',
      });
      const cancelled = delivery === 'interrupt';
      expect(await race.playOut()).toEqual(delivery === 'followup' ? [runId, sent.runId] : [sent.runId]);
      expect(await findRun(race.db, 'default', runId)).toMatchObject({ status: cancelled ? 'cancelled' : 'completed' });
      expect(await race.userTexts()).toEqual(['Go', 'The summary.', 'Meanwhile']);
      expect(await race.session()).toMatchObject({ compaction_count: 1, compacting_since: null });
    },
  );

  it('the next step is shown the summary and the message that came with it', async () => {
    const race = await openRace(database.db);
    const { claimed, end } = await beginRound(race);
    const [, finished] = await race.inOrder(
      () => race.send('Meanwhile'),
      () => finishCleanUp(race.db, claimed, end),
    );
    const [job] = finished.jobs;
    if (job === undefined) throw new Error('the run has ended');
    const claim = await claimOf(race.db, job);
    if (claim.outcome !== 'claimed') throw new Error(claim.outcome);
    expect(claim.view?.map(({ parts }) => parts)).toMatchObject([
      [{ text: 'The summary.' }],
      [{ text: 'I go on.' }],
      [{ text: 'Meanwhile' }],
    ]);
  });
});

/** A run that was made for a clean-up alone. */
async function askFor(race: Race, kind: 'compaction' | 'prune') {
  const { job, runId } = await requestMaintenance(race.db, { ...race.ref, kind, runId: newId() });
  if (job === null) throw new Error('a run was active');
  return { job, runId };
}

const KINDS = (['compaction', 'prune'] as const).flatMap((kind) =>
  [true, false].map((isFirst) => [kind, isFirst] as const),
);

describe('a session that tidies itself up and a message', () => {
  it.each(KINDS)(
    'end of a %s vs. new message (the end first: %s): nobody would begin its run',
    async (kind, isFirst) => {
      const race = await openRace(database.db);
      const claimed = await claimJob(race.db, (await askFor(race, kind)).job);
      const [finished, sent] = await race.meet(
        isFirst,
        () => finishCleanUp(race.db, claimed),
        () => race.send('And now?'),
      );
      const jobs = [...finished.jobs, ...(sent.job === null ? [] : [sent.job])];
      expect(jobs).toMatchObject([{ runId: sent.runId, kind: 'step' }]);
      expect(sent.queued).toBe(!isFirst);
    },
  );

  it.each(KINDS)(
    'claim of a %s vs. new message (the claim first: %s): it would be drained by a run that answers nobody',
    async (kind, isFirst) => {
      const race = await openRace(database.db);
      const { job, runId } = await askFor(race, kind);
      const [claim, sent] = await race.meet(
        isFirst,
        () => claimOf(race.db, job),
        () => race.send('And now?'),
      );
      expect(claim).toMatchObject({ outcome: 'claimed', view: [] });
      expect(sent).toMatchObject({ queued: true, position: 1, job: null });
      expect(sent.runId).not.toBe(runId);
      expect(await listMessages(race.db, 'default', race.sessionId, { afterSeq: 0, limit: 10 })).toEqual([]);
      expect(await findRun(race.db, 'default', sent.runId)).toMatchObject({ status: 'queued' });
    },
  );

  it('message vs. request of a clean-up: the clean-up would begin beside the run', async () => {
    const race = await openRace(database.db);
    const [sent, asked] = await race.inOrder(
      () => race.send('Go'),
      () => requestMaintenance(race.db, { ...race.ref, kind: 'prune', runId: newId() }),
    );
    expect(asked).toMatchObject({ runId: sent.runId, queued: true, job: null });
  });

  it('request of a clean-up vs. message: the message would wait for ever', async () => {
    const race = await openRace(database.db);
    const [asked, sent] = await race.inOrder(
      () => requestMaintenance(race.db, { ...race.ref, kind: 'prune', runId: newId() }),
      () => race.send('Go'),
    );
    expect(await race.playOut()).toEqual([asked.runId, sent.runId]);
    expectOnce(await race.userTexts(), 'Go');
  });
});
