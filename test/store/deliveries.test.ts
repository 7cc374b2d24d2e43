import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { NEW_CONTEXT_STATE } from '../../src/domain/context/meter/state.ts';
import { formatId } from '../../src/domain/ids.ts';
import type { NewEvent } from '../../src/domain/run/events.ts';
import { exhaustedPlan } from '../../src/domain/run/next-step.ts';
import { NO_USAGE } from '../../src/domain/usage.ts';
import { newId } from '../../src/platform/new-id.ts';
import { requestCancel, requestSessionCancel } from '../../src/store/changes/cancels.ts';
import type { NewInboxMessage } from '../../src/store/changes/inbox.ts';
import { requestMaintenance } from '../../src/store/changes/maintenance.ts';
import { removeWaiting } from '../../src/store/changes/waiting.ts';
import type { Db } from '../../src/store/db/database.ts';
import { findRun } from '../../src/store/session/runs.ts';
import { findSession, insertSession } from '../../src/store/session/sessions.ts';
import { listWaiting } from '../../src/store/session/waiting-messages.ts';
import { readEvents } from '../../src/store/transcript/events.ts';
import { listMessages } from '../../src/store/transcript/messages.ts';
import { finishMaintenance } from '../../src/store/work/maintenance.ts';
import { failClaimedRun } from '../../src/store/work/run-failure.ts';
import { answerStep, claimJob, failStep } from '../http/play-worker.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { acceptMessage, changeWaiting, resumeSession } from '../support/unlimited.ts';

type Send = Partial<Pick<NewInboxMessage, 'delivery' | 'limits' | 'messageId' | 'content'>>;

/** A session in a database of its own, with functions to send to it and to read it. */
async function openSession() {
  const database = await createTestDatabase();
  const { db } = database;
  const sessionId = newId();
  const agent = { agentName: 'tester', agentVersion: '1', agentSnapshot: { name: 'tester', model: 'test/test' } };
  await insertSession(db, { id: sessionId, tenantId: 'default', ...agent, title: null, metadata: {} });
  const scope = { tenantId: 'default', sessionId };
  return {
    db,
    sessionId,
    scope,
    send: (text: string, more: Send = {}) =>
      acceptMessage(db, { ...scope, messageId: newId(), content: [{ type: 'text', text }], runId: newId(), ...more }),
    waiting: async () =>
      (await listWaiting(db, 'default', sessionId)).map(({ content, delivery }) => [textOf(content), delivery]),
    users: () => userTexts(db, sessionId),
    events: async () =>
      (await readEvents(db, 'default', sessionId, { afterSeq: 0, limit: 1_000 })).map(({ type }) => type),
    /** The data of all events of a type. */
    told: async (asked: NewEvent['type']) =>
      (await readEvents(db, 'default', sessionId, { afterSeq: 0, limit: 1_000 })).flatMap(({ type, data }) =>
        type === asked ? [data] : [],
      ),
    [Symbol.asyncDispose]: () => database[Symbol.asyncDispose](),
  };
}

const textOf = (content: readonly unknown[]): string =>
  content.map((part) => (part as { text: string }).text).join('|');

async function userTexts(db: Db, sessionId: string): Promise<string[]> {
  const messages = await listMessages(db, 'default', sessionId, { afterSeq: 0, limit: 100 });
  return messages.filter(({ role }) => role === 'user').map(({ parts }) => textOf(parts));
}

describe('messages that wait together', () => {
  it.each([
    [['one'], [undefined]],
    [
      ['one', 'two'],
      [1, 2],
    ],
    [
      ['one', 'two', 'three'],
      [1, 2, 3],
    ],
  ])('%j become one message of the user, whose parts have the numbers %j', async (texts, numbers) => {
    await using session = await openSession();
    const accepted = [];
    for (const text of texts) accepted.push(await session.send(text));
    await claimJob(session.db, accepted[0]?.job ?? undefined);
    const [message] = await listMessages(session.db, 'default', session.sessionId, { afterSeq: 0, limit: 1 });
    expect(message?.id).toBe(accepted[0]?.messageId);
    expect(message?.parts).toEqual(
      texts.map((text, index) => ({
        type: 'text',
        text,
        ...(numbers[index] !== undefined && { queuedNo: index + 1 }),
      })),
    );
    const ids = accepted.map(({ messageId }) => formatId('message', messageId));
    // The first message starts the run and is not queued, but it still waits when the second one comes.
    expect(await session.told('message:queued')).toEqual(
      ids.slice(1).map((id, index) => ({ position: index + 2, id })),
    );
    expect(await session.told('message:dequeued')).toEqual([{ count: texts.length, ids, coalesced: texts.length > 1 }]);
    expect(await session.waiting()).toEqual([]);
  });

  it('keep their images and files in order, and the first part of each has its number', async () => {
    await using session = await openSession();
    const first = await session.send('', {
      content: [{ type: 'text', text: 'Look:' }, file('a.png'), { type: 'text', text: 'and' }],
    });
    await session.send('', { content: [file('b.png'), { type: 'text', text: 'this' }] });
    await claimJob(session.db, first.job ?? undefined);
    const [message] = await listMessages(session.db, 'default', session.sessionId, { afterSeq: 0, limit: 1 });
    expect(message?.parts).toEqual([
      { type: 'text', text: 'Look:', queuedNo: 1 },
      file('a.png'),
      { type: 'text', text: 'and' },
      { ...file('b.png'), queuedNo: 2 },
      { type: 'text', text: 'this' },
    ]);
  });

  it('are named in the message’s metadata with the time of each', async () => {
    await using session = await openSession();
    const sent = [await session.send('one'), await session.send('two')];
    await claimJob(session.db, sent[0]?.job ?? undefined);
    const { rows } = await sql<{ metadata: { inbox: { id: string; enqueuedAt: string }[] } }>`
      select metadata from messages where role = 'user'`.execute(session.db);
    const items = rows[0]?.metadata.inbox ?? [];
    expect(items.map(({ id }) => id.replace('msg_', ''))).toEqual(
      sent.map(({ messageId }) => messageId.replaceAll('-', '')),
    );
    expect(items.every(({ enqueuedAt }) => !Number.isNaN(Date.parse(enqueuedAt)))).toBe(true);
  });
});

const file = (name: string) =>
  ({ type: 'file', mediaType: 'image/png', url: `https://example.com/${name}` }) as unknown as {
    type: 'text';
    text: string;
  };

describe('a message to a session at work', () => {
  it('joins the run at its next step', async () => {
    await using session = await openSession();
    const first = await session.send('Go');
    const claimed = await claimJob(session.db, first.job ?? undefined);
    expect(await session.send('Rather left')).toMatchObject({
      runId: first.runId,
      queued: true,
      position: 1,
      job: null,
    });
    const finished = await answerStep(session.db, claimed, 'Going.');
    expect(finished.jobs).toMatchObject([{ runId: first.runId, kind: 'step', no: 2 }]);
    await claimJob(session.db, finished.jobs[0]);
    expect(await session.users()).toEqual(['Go', 'Rather left']);
  });

  it('as a followup gets a run of its own afterwards, known by its id before it begins', async () => {
    await using session = await openSession();
    const first = await session.send('Go');
    const claimed = await claimJob(session.db, first.job ?? undefined);
    const next = await session.send('Then this', { delivery: 'followup', limits: { maxSteps: 3 } });
    const third = await session.send('and this', { delivery: 'followup' });
    expect(next).toMatchObject({ queued: true, position: 1, status: 'queued', job: null });
    expect(next.runId).not.toBe(first.runId);
    expect(third).toMatchObject({ runId: next.runId, position: 2 });
    expect(await findRun(session.db, 'default', next.runId)).toMatchObject({ status: 'queued', step_count: 0 });
    const finished = await answerStep(session.db, claimed, 'Done.');
    expect(finished.jobs).toMatchObject([{ runId: next.runId, kind: 'step', no: 1 }]);
    expect(await findRun(session.db, 'default', next.runId)).toMatchObject({ status: 'queued', max_steps: 3 });
    await claimJob(session.db, finished.jobs[0]);
    expect(await session.users()).toEqual(['Go', 'Then this|and this']);
  });

  it('says in its event which one it is of all that wait, and who takes it up says which ones it took', async () => {
    await using session = await openSession();
    const first = await session.send('Go');
    const claimed = await claimJob(session.db, first.job ?? undefined);
    const left = await session.send('left');
    const later = await session.send('then this', { delivery: 'followup' });
    const right = await session.send('right');
    const [go, ...queued] = [first, left, later, right].map(({ messageId }) => formatId('message', messageId));
    expect(await session.told('message:queued')).toEqual(queued.map((id, index) => ({ position: index + 1, id })));
    const next = await claimJob(session.db, (await answerStep(session.db, claimed, 'Going.')).jobs[0]);
    await claimJob(session.db, (await answerStep(session.db, next, 'Gone.')).jobs[0]);
    const [ofLeft, ofLater, ofRight] = queued;
    expect(await session.told('message:dequeued')).toEqual([
      { count: 1, ids: [go], coalesced: false },
      { count: 2, ids: [ofLeft, ofRight], coalesced: true },
      { count: 1, ids: [ofLater], coalesced: false },
    ]);
  });

  it('as an interrupt cancels the run, and the next one begins with it', async () => {
    await using session = await openSession();
    const first = await session.send('Go');
    const claimed = await claimJob(session.db, first.job ?? undefined);
    await session.send('Also that');
    const sent = await session.send('Stop, do this', { delivery: 'interrupt' });
    expect(sent).toMatchObject({
      queued: true,
      cancelled: { runId: first.runId, status: 'cancelling', notify: true },
      job: null,
    });
    const finished = await answerStep(session.db, claimed, 'Half of it');
    expect(finished.jobs).toMatchObject([{ runId: sent.runId, kind: 'step' }]);
    await claimJob(session.db, finished.jobs[0]);
    expect(await session.users()).toEqual(['Go', 'Also that|Stop, do this']);
  });

  it('as an interrupt of a run that nobody has begins at once', async () => {
    await using session = await openSession();
    const first = await session.send('Go');
    const sent = await session.send('No: this', { delivery: 'interrupt' });
    expect(sent).toMatchObject({
      queued: false,
      status: 'queued',
      cancelled: { runId: first.runId, status: 'cancelled', notify: false },
    });
    expect(await findRun(session.db, 'default', first.runId)).toMatchObject({ status: 'cancelled' });
    expect(sent.job).toMatchObject({ runId: sent.runId, kind: 'step' });
  });

  it('is refused where its sender wants to be alone, and nothing of it is kept', async () => {
    await using session = await openSession();
    expect(await session.send('Go', { delivery: 'reject' })).toMatchObject({ queued: false });
    await expect(session.send('Me too', { delivery: 'reject' })).rejects.toMatchObject({ code: 'session_busy' });
    expect(await session.waiting()).toEqual([['Go', 'steer']]);
  });

  it('after a cancel is not parked by it: it gets the next run, and takes along what was', async () => {
    await using session = await openSession();
    const first = await session.send('Go');
    const claimed = await claimJob(session.db, first.job ?? undefined);
    await session.send('Parked');
    await requestCancel(session.db, 'default', first.runId);
    const later = await session.send('Now this');
    expect(later.runId).not.toBe(first.runId);
    const finished = await answerStep(session.db, claimed, 'Half');
    expect(finished.jobs).toMatchObject([{ runId: later.runId }]);
    await claimJob(session.db, finished.jobs[0]);
    expect(await session.users()).toEqual(['Go', 'Parked|Now this']);
  });

  it('answers the same when it is sent again, in whatever state it is', async () => {
    await using session = await openSession();
    const first = await session.send('Go');
    const claimed = await claimJob(session.db, first.job ?? undefined);
    const messageId = newId();
    const next = await session.send('Then', { delivery: 'followup', messageId });
    const again = () => session.send('Then', { delivery: 'followup', messageId });
    expect(await again()).toMatchObject({ runId: next.runId, queued: true, position: 1 });
    const finished = await answerStep(session.db, claimed, 'Done.');
    expect(await again()).toMatchObject({ runId: next.runId, queued: false });
    await claimJob(session.db, finished.jobs[0]);
    expect(await again()).toMatchObject({ runId: next.runId, queued: false, status: 'running' });
    expect(await session.users()).toEqual(['Go', 'Then']);
  });
});

describe('what a failed or cancelled run leaves behind', () => {
  it('stays visible, and resume takes it up', async () => {
    await using session = await openSession();
    const first = await session.send('Go');
    const claimed = await claimJob(session.db, first.job ?? undefined);
    await session.send('Left behind');
    await session.send('And this', { delivery: 'followup' });
    await failStep(session.db, claimed, { code: 'auth', message: 'No.' });
    expect(await findSession(session.db, 'default', session.sessionId)).toMatchObject({ status: 'idle' });
    expect(await session.waiting()).toEqual([
      ['Left behind', 'steer'],
      ['And this', 'followup'],
    ]);
    const resumed = await resumeSession(session.db, { ...session.scope, runId: newId(), limits: { maxTokens: 9 } });
    expect(await findRun(session.db, 'default', resumed.runId)).toMatchObject({ status: 'queued', budget_tokens: 9 });
    await claimJob(session.db, resumed.job ?? undefined);
    expect(await session.users()).toEqual(['Go', 'Left behind|And this']);
  });

  it('need not be a message: a failed run is resumed without any, a completed one is not', async () => {
    await using session = await openSession();
    const resume = () => resumeSession(session.db, { ...session.scope, runId: newId(), limits: {} });
    await expect(resume()).rejects.toMatchObject({ code: 'conflict' });
    const first = await session.send('Go');
    await expect(resume()).rejects.toMatchObject({ code: 'session_busy' });
    await failStep(session.db, await claimJob(session.db, first.job ?? undefined), { code: 'auth', message: 'No.' });
    const resumed = await resume();
    await answerStep(session.db, await claimJob(session.db, resumed.job ?? undefined), 'Now it works.');
    expect(await session.users()).toEqual(['Go']);
    await expect(resume()).rejects.toMatchObject({ code: 'conflict' });
  });

  it('is not what came while the session only tidied itself up: it goes on although that failed', async () => {
    await using session = await openSession();
    const asked = await requestMaintenance(session.db, { ...session.scope, kind: 'prune', runId: newId() });
    const { fence } = await claimJob(session.db, asked.job ?? undefined);
    const sent = await session.send('And now?');
    expect(sent).toMatchObject({ queued: true, position: 1, status: 'queued' });
    await failClaimedRun(session.db, fence, { code: 'internal', message: 'No.' });
    expect(await findRun(session.db, 'default', asked.runId)).toMatchObject({ status: 'failed' });
    expect(await findSession(session.db, 'default', session.sessionId)).toMatchObject({
      status: 'busy',
      active_run_id: sent.runId,
    });
    await claimJob(session.db, { runId: sent.runId, kind: 'step', no: 1, dispatch: 1 });
    expect(await session.users()).toEqual(['And now?']);
  });

  it('nor what came during a compaction that found nothing to take out', async () => {
    await using session = await openSession();
    const asked = await requestMaintenance(session.db, { ...session.scope, kind: 'compaction', runId: newId() });
    const { fence } = await claimJob(session.db, asked.job ?? undefined);
    const sent = await session.send('And now?');
    const error = { code: 'context_exhausted', message: 'Too large.' } as const;
    const finished = await finishMaintenance(session.db, fence, {
      marks: [],
      contextState: NEW_CONTEXT_STATE,
      usage: NO_USAGE,
      costUsd: 0,
      events: [],
      next: exhaustedPlan(asked.runId, error),
      nextRunId: newId(),
    });
    expect(finished?.jobs).toMatchObject([{ runId: sent.runId, kind: 'step' }]);
  });

  it('a run that was promised can be cancelled before it begins: what waited for it is parked', async () => {
    await using session = await openSession();
    const first = await session.send('Go');
    const claimed = await claimJob(session.db, first.job ?? undefined);
    const next = await session.send('Then', { delivery: 'followup' });
    expect(await requestCancel(session.db, 'default', next.runId)).toMatchObject({
      status: 'cancelled',
      notify: false,
    });
    expect(await findRun(session.db, 'default', next.runId)).toMatchObject({ status: 'cancelled' });
    expect((await answerStep(session.db, claimed, 'Done.')).jobs).toEqual([]);
    expect(await session.waiting()).toEqual([['Then', 'followup']]);
  });

  it('is left behind by a cancel that comes after it, also while an earlier one is under way', async () => {
    await using session = await openSession();
    const first = await session.send('Go');
    const claimed = await claimJob(session.db, first.job ?? undefined);
    await requestCancel(session.db, 'default', first.runId);
    await session.send('Rather this');
    await requestSessionCancel(session.db, 'default', session.sessionId);
    expect((await answerStep(session.db, claimed, 'Half')).jobs).toEqual([]);
    expect(await session.waiting()).toEqual([['Rather this', 'steer']]);
  });

  it('is not taken up by a run that is used up: it gets one of its own', async () => {
    await using session = await openSession();
    const first = await session.send('Go', { limits: { deadlineMs: 60_000 } });
    const claimed = await claimJob(session.db, first.job ?? undefined);
    const later = await session.send('And this');
    const [job] = (await answerStep(session.db, claimed, 'Hm.')).jobs;
    await sql`update runs set deadline_at = clock_timestamp() where id = ${first.runId}`.execute(session.db);
    await claimJob(session.db, job);
    expect(await session.users()).toEqual(['Go']);
    expect(await session.waiting()).toEqual([['And this', 'steer']]);
    expect(later.runId).toBe(first.runId);
  });

  it('is taken up by the run that it starts, also after the deadline of that run', async () => {
    await using session = await openSession();
    const { runId, job } = await session.send('Go', { limits: { deadlineMs: 60_000 } });
    await sql`update runs set deadline_at = clock_timestamp() where id = ${runId}`.execute(session.db);
    await claimJob(session.db, job ?? undefined);
    expect(await session.users()).toEqual(['Go']);
  });

  it('goes with the queue where the cancel clears it', async () => {
    await using session = await openSession();
    await claimJob(session.db, (await session.send('Go')).job ?? undefined);
    await session.send('One');
    await session.send('Two', { delivery: 'followup' });
    await requestSessionCancel(session.db, 'default', session.sessionId, true);
    expect(await session.waiting()).toEqual([]);
    expect(await session.events()).toContain('message:removed');
  });
});

describe('a message that waits', () => {
  it('can say something else, and change its mind about when', async () => {
    await using session = await openSession();
    const first = await session.send('Go');
    const claimed = await claimJob(session.db, first.job ?? undefined);
    const { messageId } = await session.send('Left');
    const ref = { ...session.scope, messageId };
    await changeWaiting(session.db, ref, { content: [{ type: 'text', text: 'Right' }] }, newId());
    expect(await session.waiting()).toEqual([['Right', 'steer']]);
    await changeWaiting(session.db, ref, { delivery: 'followup' }, newId());
    const finished = await answerStep(session.db, claimed, 'Done.');
    expect(finished.jobs).toMatchObject([{ no: 1 }]);
    expect(finished.jobs[0]?.runId).not.toBe(first.runId);
    await claimJob(session.db, finished.jobs[0]);
    await expect(changeWaiting(session.db, ref, { delivery: 'steer' }, newId())).rejects.toMatchObject({
      code: 'conflict',
    });
    await expect(removeWaiting(session.db, ref)).rejects.toMatchObject({ code: 'conflict' });
  });

  it('that is changed takes the promise of its run along where nobody else waits for that', async () => {
    await using session = await openSession();
    await claimJob(session.db, (await session.send('Go')).job ?? undefined);
    const next = await session.send('Then', { delivery: 'followup' });
    await changeWaiting(session.db, { ...session.scope, messageId: next.messageId }, { delivery: 'steer' }, newId());
    await expect(findRun(session.db, 'default', next.runId)).rejects.toMatchObject({ code: 'not_found' });
  });

  it('can change before its run has begun, as long as that keeps something to begin with', async () => {
    await using session = await openSession();
    const first = await session.send('Go');
    const second = await session.send('And this');
    const change = (messageId: string) =>
      changeWaiting(session.db, { ...session.scope, messageId }, { delivery: 'followup' }, newId());
    await change(second.messageId);
    await change(first.messageId);
    const claimed = await claimJob(session.db, first.job ?? undefined);
    expect(await session.users()).toEqual(['Go']);
    expect((await answerStep(session.db, claimed, 'Done.')).jobs).toHaveLength(1);
  });

  it('for the run after one that is removed begins at once', async () => {
    await using session = await openSession();
    const first = await session.send('Go');
    const next = await session.send('Then', { delivery: 'followup' });
    const { job } = await removeWaiting(session.db, { ...session.scope, messageId: first.messageId });
    expect(job).toMatchObject({ runId: next.runId });
    await claimJob(session.db, job ?? undefined);
    expect(await session.users()).toEqual(['Then']);
  });

  it('joins the run after all, where it changes from followup to steer', async () => {
    await using session = await openSession();
    const first = await session.send('Go');
    const claimed = await claimJob(session.db, first.job ?? undefined);
    const { messageId } = await session.send('Now, please', { delivery: 'followup' });
    await changeWaiting(session.db, { ...session.scope, messageId }, { delivery: 'steer' }, newId());
    expect((await answerStep(session.db, claimed, 'Hm.')).jobs).toMatchObject([{ runId: first.runId, no: 2 }]);
  });

  it('can be removed; a run that would have begun with it is cancelled, one that has begun is not', async () => {
    await using session = await openSession();
    const first = await session.send('Go');
    await removeWaiting(session.db, { ...session.scope, messageId: first.messageId });
    expect(await findRun(session.db, 'default', first.runId)).toMatchObject({ status: 'cancelled' });
    const second = await session.send('Go again');
    await claimJob(session.db, second.job ?? undefined);
    const { messageId } = await session.send('And this');
    const removed = await removeWaiting(session.db, { ...session.scope, messageId });
    expect(removed.ids).toEqual([messageId]);
    expect(await findRun(session.db, 'default', second.runId)).toMatchObject({ status: 'running' });
    expect(await session.waiting()).toEqual([]);
    await expect(removeWaiting(session.db, { ...session.scope, messageId })).rejects.toMatchObject({
      code: 'not_found',
    });
  });

  it('takes the promise of its run along when it is removed', async () => {
    await using session = await openSession();
    await claimJob(session.db, (await session.send('Go')).job ?? undefined);
    const next = await session.send('Then', { delivery: 'followup' });
    await removeWaiting(session.db, { ...session.scope, messageId: null });
    await expect(findRun(session.db, 'default', next.runId)).rejects.toMatchObject({ code: 'not_found' });
  });
});
