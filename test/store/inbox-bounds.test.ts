import { describe, expect, it } from 'vitest';
import { formatId } from '../../src/domain/ids.ts';
import { DEFAULT_INBOX_LIMITS, type InboxLimits } from '../../src/domain/run/inbox-limits.ts';
import type { JobPayload } from '../../src/domain/run/job.ts';
import { MAX_INLINE_CONTENT_BYTES } from '../../src/domain/tunables.ts';
import { newId } from '../../src/platform/new-id.ts';
import { removeWaiting } from '../../src/store/changes/waiting.ts';
import { readLiveSnapshot } from '../../src/store/lists/live-snapshot.ts';
import { insertSession } from '../../src/store/session/sessions.ts';
import { countWaiting, listWaiting } from '../../src/store/session/waiting-messages.ts';
import { readEvents } from '../../src/store/transcript/events.ts';
import { listMessages } from '../../src/store/transcript/messages.ts';
import { failClaimedRun } from '../../src/store/work/run-failure.ts';
import { answerStep, type Claimed, claimJob } from '../http/play-worker.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { acceptMessage, changeWaiting } from '../support/unlimited.ts';

/** The limits of `baton_drain_inbox` for one step. */
const MAX_DRAINED_MESSAGES = 100;
const MAX_DRAINED_BYTES = 1_048_576;

const MANY: InboxLimits = { messages: 10_000, bytes: 100_000_000 };
const FEW: InboxLimits = { messages: 3, bytes: 10_000 };

/** A session whose run is at work, in a database of its own. */
async function openBusySession(inboxLimits = DEFAULT_INBOX_LIMITS) {
  const database = await createTestDatabase();
  const { db } = database;
  const scope = { tenantId: 'default', sessionId: newId() };
  const agent = { agentName: 'tester', agentVersion: '1', agentSnapshot: { name: 'tester', model: 'test/test' } };
  await insertSession(db, { id: scope.sessionId, tenantId: 'default', ...agent, title: null, metadata: {} });
  const send = (text: string, messageId: string = newId()) =>
    acceptMessage(db, { ...scope, messageId, content: [{ type: 'text', text }], runId: newId(), inboxLimits });
  const first = await send('Go');
  const claimed = await claimJob(db, first.job ?? undefined);
  return {
    db,
    scope,
    send,
    claimed,
    users: async () =>
      (await listMessages(db, 'default', scope.sessionId, { afterSeq: 0, limit: 200 })).flatMap(({ role, parts }) =>
        role === 'user' ? [parts.map((part) => (part.type === 'text' ? part.text : part.type))] : [],
      ),
    [Symbol.asyncDispose]: () => database[Symbol.asyncDispose](),
  };
}

const full = { code: 'inbox_full' };

describe('what waits in a session', () => {
  it('is refused beyond a number of messages, until some of it is taken up or removed', async () => {
    await using session = await openBusySession(FEW);
    const { db, scope, send } = session;
    const sent = [await send('1'), await send('2'), await send('3')];
    await expect(send('4')).rejects.toMatchObject(full);
    await expect(send('4')).rejects.toThrow(/3 messages of \d+ bytes wait .*3 of 10000 bytes.*DELETE \/v1\/sessions/);
    await removeWaiting(db, { ...scope, messageId: sent[1]?.messageId ?? '' });
    expect(await send('4')).toMatchObject({ queued: true, position: 3 });
    const { jobs } = await answerStep(db, session.claimed, 'Well.');
    await claimJob(db, jobs[0]);
    expect(await send('5')).toMatchObject({ queued: true, position: 1 });
  });

  it('is refused beyond a number of bytes, but for what waits alone', async () => {
    await using session = await openBusySession(FEW);
    expect(await session.send('x'.repeat(20_000))).toMatchObject({ position: 1 });
    await expect(session.send('small')).rejects.toMatchObject(full);
  });

  it('may be sent again where there is no room for more: it is known', async () => {
    await using session = await openBusySession(FEW);
    const id = newId();
    await session.send('1', id);
    await session.send('2');
    await session.send('3');
    expect(await session.send('1', id)).toMatchObject({ messageId: id, queued: true, position: 1 });
  });

  it('cannot grow beyond it by being changed', async () => {
    await using session = await openBusySession(FEW);
    const { db, scope } = session;
    const { messageId } = await session.send('1');
    await session.send('x'.repeat(5_000));
    const change = (text: string) =>
      changeWaiting(db, { ...scope, messageId }, { content: [{ type: 'text', text }], inboxLimits: FEW }, newId());
    await expect(change('y'.repeat(5_000))).rejects.toMatchObject(full);
    expect(await change('y'.repeat(4_000))).toMatchObject({ message: { position: 1, id: messageId } });
  });

  it('counts while nothing is at work that would take it up', async () => {
    await using session = await openBusySession(FEW);
    for (const text of ['1', '2', '3']) await session.send(text);
    await failClaimedRun(session.db, session.claimed.fence, { code: 'internal', message: 'broken' });
    await expect(session.send('4')).rejects.toThrow(/resume the session if nothing is at work/);
  });
});

describe('what waits is taken up in pieces', () => {
  it('of so many messages, each at the next step, in order, until nothing is left', async () => {
    await using session = await openBusySession(MANY);
    const { send } = session;
    const texts = Array.from({ length: 2 * MAX_DRAINED_MESSAGES + 1 }, (_, index) => `message ${index}`);
    for (const text of texts) await send(text);
    const steps = await workOff(session, session.claimed);
    expect(steps).toBe(4);
    const [first, ...pieces] = await session.users();
    expect(first).toEqual(['Go']);
    expect(pieces.map(({ length }) => length)).toEqual([MAX_DRAINED_MESSAGES, MAX_DRAINED_MESSAGES, 1]);
    expect(pieces.flat().map((text) => text.replace(/^\[\d+\]: /, ''))).toEqual(texts);
  });

  it('of so many bytes, and of at least one message', async () => {
    await using session = await openBusySession(MANY);
    const half = Math.floor(MAX_DRAINED_BYTES / 2);
    for (const chars of [half - 1_000, half - 1_000, half, 10, 2 * MAX_DRAINED_BYTES, 10])
      await session.send('x'.repeat(chars));
    await workOff(session, session.claimed);
    expect((await session.users()).map(({ length }) => length)).toEqual([1, 2, 2, 1, 1]);
  });

  it('also where it waits for a run of its own', async () => {
    await using session = await openBusySession(MANY);
    const { db, scope } = session;
    for (let count = 0; count <= MAX_DRAINED_MESSAGES; count++) {
      const content = [{ type: 'text', text: `${count}` }] as const;
      await acceptMessage(db, {
        ...scope,
        messageId: newId(),
        runId: newId(),
        content,
        delivery: 'followup',
        inboxLimits: MANY,
      });
    }
    await workOff(session, session.claimed);
    expect((await session.users()).map(({ length }) => length)).toEqual([1, MAX_DRAINED_MESSAGES, 1]);
    expect(await countWaiting(db, 'default', scope.sessionId)).toBe(0);
  });
});

type Busy = Awaited<ReturnType<typeof openBusySession>>;

/** Answers step by step until the session has nothing to do. Returns how many steps that took. */
async function workOff({ db }: Busy, claimed: Claimed): Promise<number> {
  let steps = 0;
  let next: JobPayload | undefined = claimed.job;
  for (let step: Claimed | null = claimed; step !== null; steps++) {
    [next] = (await answerStep(db, step, 'Well.')).jobs;
    step = next === undefined ? null : await claimJob(db, next);
  }
  return steps;
}

describe('readers are told of a large message without its content', () => {
  const large = 'x'.repeat(2 * MAX_INLINE_CONTENT_BYTES);

  it('in the event of it, which says how large it is and where it is read', async () => {
    await using session = await openBusySession();
    const { db, scope } = session;
    await session.send(large);
    await workOff(session, session.claimed);
    const events = (await readEvents(db, 'default', scope.sessionId, { afterSeq: 0, limit: 100 })).filter(
      ({ type }) => type === 'message:created',
    );
    const path = `/v1/sessions/${formatId('session', scope.sessionId)}/messages`;
    expect(events.map(({ data }) => data)).toEqual([
      expect.objectContaining({ seq: 1, parts: [{ type: 'text', text: 'Go' }] }),
      {
        messageId: expect.any(String),
        seq: 3,
        role: 'user',
        contentRef: { sizeBytes: large.length + 30, href: `${path}?after=2&limit=1` },
      },
    ]);
    expect(await listMessages(db, 'default', scope.sessionId, { afterSeq: 2, limit: 1 })).toMatchObject([
      { parts: [{ type: 'text', text: large }] },
    ]);
  });

  it('in the snapshot with which they join', async () => {
    await using session = await openBusySession(MANY);
    const { db, scope } = session;
    await session.send(large);
    for (let count = 0; count < 100; count++) await session.send('small');
    const { queueLength, waiting } = await readLiveSnapshot(db, 'default', scope.sessionId);
    expect(queueLength).toBe(101);
    expect(waiting).toHaveLength(100);
    expect(waiting[0]).toMatchObject({ position: 1, content: null });
    expect(waiting[99]).toMatchObject({ position: 100, content: [{ type: 'text', text: 'small' }] });
  });

  it('and read what waits in pages, shorter where it is large', async () => {
    await using session = await openBusySession(MANY);
    const { db, scope } = session;
    for (let count = 0; count < 6; count++) await session.send('x'.repeat(1_000_000));
    const sizes: number[] = [];
    for (let after = 0, page = await list(after); page.length > 0; page = await list(after)) {
      sizes.push(page.length);
      after = page.at(-1)?.seq ?? 0;
    }
    expect(sizes).toEqual([4, 2]);
    expect((await list(1)).map(({ position }) => position)).toEqual([1, 2, 3, 4]);
    function list(afterSeq: number) {
      return listWaiting(db, 'default', scope.sessionId, { afterSeq });
    }
  });
});
