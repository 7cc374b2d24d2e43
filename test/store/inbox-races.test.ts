import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { newId } from '../../src/platform/new-id.ts';
import { removeWaiting } from '../../src/store/changes/waiting.ts';
import { findRun } from '../../src/store/session/runs.ts';
import { listWaiting } from '../../src/store/session/waiting-messages.ts';
import { answerStep, claimJob, failStep } from '../http/play-worker.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { changeWaiting, resumeSession } from '../support/unlimited.ts';
import { claimOf, expectOnce, goOn, openRace, type Race } from './race.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database[Symbol.asyncDispose]());

describe('the end of a run and a message', () => {
  it('finish vs. new message: joined to a run that has ended, the message would never be answered', async () => {
    const race = await openRace(database.db);
    const claimed = await race.begin();
    const [finished, sent] = await race.inOrder(
      () => answerStep(race.db, claimed, 'Done.'),
      () => race.send('One more'),
    );
    expect(finished.jobs).toEqual([]);
    expect(sent).toMatchObject({ queued: false, status: 'queued', job: { no: 1 } });
    expect(sent.runId).not.toBe(claimed.fence.runId);
  });

  it('new message vs. finish: by the snapshot from before its wait, the finish would end the run over it', async () => {
    const race = await openRace(database.db);
    const claimed = await race.begin();
    const [sent, finished] = await race.inOrder(
      () => race.send('One more'),
      () => answerStep(race.db, claimed, 'Done.'),
    );
    expect(sent).toMatchObject({ queued: true, runId: claimed.fence.runId });
    expect(finished.jobs).toMatchObject([{ runId: claimed.fence.runId, no: 2 }]);
    expect(await race.playOut()).toEqual([sent.runId]);
    expect(await race.userTexts()).toEqual(['Go', 'One more']);
  });

  it.each([
    ['followup', true],
    ['followup', false],
    ['interrupt', true],
    ['interrupt', false],
  ] as const)('%s vs. finish (the message first: %s): nobody would begin its run', async (delivery, isFirst) => {
    const race = await openRace(database.db);
    const claimed = await race.begin();
    const [sent, finished] = await race.meet(
      isFirst,
      () => race.send('Then this', delivery),
      () => answerStep(race.db, claimed, 'Done.'),
    );
    const jobs = [...finished.jobs, ...(sent.job === null ? [] : [sent.job])];
    expect(jobs).toMatchObject([{ runId: sent.runId, kind: 'step', no: 1 }]);
    await claimJob(race.db, jobs[0]);
    expect(await listWaiting(race.db, 'default', race.sessionId)).toEqual([]);
  });

  it('message vs. message: both would start a run, or both think that the other one does', async () => {
    const race = await openRace(database.db);
    const [one, two] = await race.inOrder(
      () => race.send('One'),
      () => race.send('Two'),
    );
    expect(one.job).toMatchObject({ runId: one.runId });
    expect(two).toMatchObject({ runId: one.runId, job: null, queued: true, position: 2 });
    await race.playOut();
    expect(await race.userTexts()).toEqual(['One', 'Two']);
  });

  it('message vs. its own repetition: it would be answered twice', async () => {
    const race = await openRace(database.db);
    const messageId = newId();
    const [one, again] = await race.inOrder(
      () => race.send('One', 'steer', messageId),
      () => race.send('One', 'steer', messageId),
    );
    expect(again).toMatchObject({ messageId, runId: one.runId, job: null });
    await race.playOut();
    expect(await race.userTexts()).toEqual(['One']);
  });
});

/** A session whose run has failed and left a message behind. */
async function parkMessage(race: Race): Promise<void> {
  const claimed = await race.begin();
  await race.send('Left behind');
  await failStep(race.db, claimed, { code: 'auth', message: 'The key is wrong.' });
  expect(await race.session()).toMatchObject({ status: 'idle' });
}

describe('a session that is resumed', () => {
  it('resume vs. message: two runs would begin, or what was left behind be taken up twice', async () => {
    const race = await openRace(database.db);
    await parkMessage(race);
    const [resumed, sent] = await race.inOrder(
      () => resumeSession(race.db, { ...race.ref, runId: newId(), limits: {} }),
      () => race.send('Go on'),
    );
    expect(sent).toMatchObject({ runId: resumed.runId, job: null, queued: true });
    expect(await race.playOut()).toEqual([resumed.runId]);
    expect(await race.userTexts()).toEqual(['Go', 'Left behind', 'Go on']);
  });

  it('message vs. resume: two runs would begin', async () => {
    const race = await openRace(database.db);
    await parkMessage(race);
    const [sent, refused] = await race.inOrder(
      () => race.send('Go on'),
      () => resumeSession(race.db, { ...race.ref, runId: newId(), limits: {} }).catch((error: unknown) => error),
    );
    expect(refused).toMatchObject({ code: 'session_busy' });
    expect(await race.playOut()).toEqual([sent.runId]);
    expect(await race.userTexts()).toEqual(['Go', 'Left behind', 'Go on']);
  });
});

/** A run whose next step is pending, and a message that waits for it. */
async function waitForStep(race: Race) {
  const claimed = await race.begin();
  const { messageId } = await race.send('As it was');
  const [job] = (await goOn(race.db, claimed)).jobs;
  if (job === undefined) throw new Error('the run has ended');
  return { job, messageId, drain: () => claimOf(race.db, job) };
}

const content = [{ type: 'text', text: 'As it is now' }] as const;

describe('a waiting message and the step that takes it up', () => {
  it('change vs. drain: the model would be shown what it said before', async () => {
    const race = await openRace(database.db);
    const { messageId, drain } = await waitForStep(race);
    await race.inOrder(() => changeWaiting(race.db, { ...race.ref, messageId }, { content }, newId()), drain);
    expect(await race.userTexts()).toEqual(['Go', 'As it is now']);
  });

  it('drain vs. change: its author would believe in a change that nobody sees', async () => {
    const race = await openRace(database.db);
    const { messageId, drain } = await waitForStep(race);
    const [, refused] = await race.inOrder(drain, () =>
      changeWaiting(race.db, { ...race.ref, messageId }, { content }, newId()).catch((error: unknown) => error),
    );
    expect(refused).toMatchObject({ code: 'conflict' });
    expect(await race.userTexts()).toEqual(['Go', 'As it was']);
  });

  it('change to followup vs. drain: the step would take it along all the same, or nobody ever', async () => {
    const race = await openRace(database.db);
    const { job, messageId, drain } = await waitForStep(race);
    await race.inOrder(
      () => changeWaiting(race.db, { ...race.ref, messageId }, { delivery: 'followup' }, newId()),
      drain,
    );
    expect(await race.userTexts()).toEqual(['Go']);
    const { next_run_id: promised } = await race.db
      .selectFrom('sessions')
      .select('next_run_id')
      .where('id', '=', race.sessionId)
      .executeTakeFirstOrThrow();
    expect(promised).not.toBe(job.runId);
    expect(await findRun(race.db, 'default', promised ?? '')).toMatchObject({ status: 'queued' });
    expect((await listWaiting(race.db, 'default', race.sessionId)).map(({ id }) => id)).toEqual([messageId]);
  });

  it('remove vs. drain: a message would be answered that was taken back', async () => {
    const race = await openRace(database.db);
    const { messageId, drain } = await waitForStep(race);
    const [removed, claim] = await race.inOrder(() => removeWaiting(race.db, { ...race.ref, messageId }), drain);
    expect(removed.ids).toEqual([messageId]);
    expect(claim.outcome).toBe('claimed');
    expect(await race.userTexts()).toEqual(['Go']);
  });

  it('drain vs. remove: it would be in the transcript and gone', async () => {
    const race = await openRace(database.db);
    const { messageId, drain } = await waitForStep(race);
    const [, refused] = await race.inOrder(drain, () =>
      removeWaiting(race.db, { ...race.ref, messageId }).catch((error: unknown) => error),
    );
    expect(refused).toMatchObject({ code: 'conflict' });
    expect(await race.userTexts()).toEqual(['Go', 'As it was']);
  });

  it('remove vs. the claim of the run that it started: a run would begin with nothing to answer', async () => {
    const race = await openRace(database.db);
    const { job, messageId, runId } = await race.send('Go');
    if (job === null) throw new Error('there is no job');
    const [, claim] = await race.inOrder(
      () => removeWaiting(race.db, { ...race.ref, messageId }),
      () => claimOf(race.db, job),
    );
    expect(claim).toMatchObject({ outcome: 'gone' });
    expect(await findRun(race.db, 'default', runId)).toMatchObject({ status: 'cancelled' });
  });

  it('remove all vs. new message: one that came after it would be removed as well', async () => {
    const race = await openRace(database.db);
    await waitForStep(race);
    await race.inOrder(
      () => removeWaiting(race.db, { ...race.ref, messageId: null }),
      () => race.send('Later'),
    );
    await race.playOut();
    expectOnce(await race.userTexts(), 'Later');
    expect(await race.userTexts()).toEqual(['Go', 'Later']);
  });
});
