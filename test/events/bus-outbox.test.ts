import { expect, test, vi } from 'vitest';
import type { LiveEvent } from '../../src/domain/run/events.ts';
import { DELTA_COALESCE_MS } from '../../src/domain/tunables.ts';
import { createBusListeners } from '../../src/events/bus-listeners.ts';
import { type BusOutbox, createBusOutbox, type Outgoing } from '../../src/events/bus-outbox.ts';
import { type BusItem, decodePayload, encodeCancel, encodeSession, sessionOf } from '../../src/events/bus-payload.ts';
import { newId } from '../../src/platform/new-id.ts';
import { untilHolds } from '../support/until-holds.ts';
import { chunk } from './listening.ts';

type Link = { up: boolean; refusals: number; sent: Outgoing[]; errors: unknown[]; outbox: BusOutbox };

function createLink(): Link {
  const link: Omit<Link, 'outbox'> = { up: true, refusals: 0, sent: [], errors: [] };
  const outbox = createBusOutbox(
    {
      isUp: () => link.up,
      maxPayloadBytes: 7_000,
      send: async (batch) => {
        if (link.refusals > 0) {
          link.refusals -= 1;
          throw new Error('refused');
        }
        link.sent.push(...batch);
      },
    },
    (error) => void link.errors.push(error),
  );
  return Object.assign(link, { outbox });
}

function itemsOf(link: Link, sessionId: string): BusItem[] {
  return link.sent.flatMap(({ payload }) => {
    const message = decodePayload(payload);
    return message?.kind === 'session' && message.sessionId === sessionId ? message.items : [];
  });
}

test('the first delta of an answer waits for nobody, and later ones for each other', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout'] });
  try {
    const link = createLink();
    const sessionId = newId();
    const texts = () =>
      itemsOf(link, sessionId).map((item) =>
        'event' in item && item.event.type === 'llm:chunk' ? item.event.data.content : item,
      );
    link.outbox.preview(sessionId, chunk(0, 'First'));
    await new Promise(setImmediate);
    await new Promise(setImmediate);
    expect(texts()).toEqual(['First']);
    link.outbox.preview(sessionId, chunk(5, ', then'));
    link.outbox.preview(sessionId, chunk(11, ' more'));
    await new Promise(setImmediate);
    expect(texts()).toEqual(['First']);
    await vi.advanceTimersByTimeAsync(DELTA_COALESCE_MS);
    expect(texts()).toEqual(['First', ', then more']);
  } finally {
    vi.useRealTimers();
  }
});

test('while the transport is away the oldest previews are dropped first and announcements are kept', async () => {
  const link = createLink();
  link.up = false;
  const [sessionId, otherId] = [newId(), newId()];
  link.outbox.announce(otherId, 4);
  const piece = 'x'.repeat(10_000);
  for (let index = 0; index < 500; index += 1) link.outbox.preview(sessionId, chunk(index * 20_000, piece));
  link.outbox.announce(sessionId, 9);
  await link.outbox.flush();
  expect(link.sent).toEqual([]);

  link.up = true;
  link.outbox.wake();
  await untilHolds(() => expect(itemsOf(link, otherId)).toEqual([{ seq: 4 }]));
  const items = itemsOf(link, sessionId);
  const chars = items.reduce((sum, item) => sum + (JSON.stringify(item).match(/x/g)?.length ?? 0), 0);
  expect(chars).toBeLessThanOrEqual(1_048_576);
  expect(chars).toBeGreaterThan(900_000);
  expect(items.at(-1)).toEqual({ seq: 9 });
  const last = items.at(-2);
  expect(last).toMatchObject({ event: { data: { offset: expect.any(Number) } } });
  expect(
    last !== undefined && 'event' in last && last.event.type === 'llm:chunk' && last.event.data.offset,
  ).toBeGreaterThan(499 * 20_000);
});

test('announcements without end do not grow the queue without end', async () => {
  const link = createLink();
  link.up = false;
  for (let index = 0; index < 20_000; index += 1) link.outbox.announce(newId(), 1);
  link.up = true;
  await link.outbox.flush();
  expect(link.sent.length).toBeLessThan(6_000);
});

test('a refused batch is reported; its announcements and cancels are sent again, its previews are not', async () => {
  const link = createLink();
  const [sessionId, runId] = [newId(), newId()];
  link.refusals = 1;
  link.outbox.preview(sessionId, chunk(0, 'gone'));
  link.outbox.announce(sessionId, 2);
  link.outbox.requestCancel(runId);
  await link.outbox.flush();
  expect(link.errors).toHaveLength(1);
  expect(link.sent).toEqual([]);
  await untilHolds(() => expect(itemsOf(link, sessionId)).toEqual([{ seq: 2 }]));
  expect(link.sent.map(({ payload }) => payload)).toContain(encodeCancel(runId));
});

test('payloads that are not understood are skipped, and so are single items of them', () => {
  const sessionId = newId();
  for (const text of ['', 'no json', '[]', '{"session":"not-an-id","items":[]}', '{"something":"else"}', 'null']) {
    expect(decodePayload(text)).toBeNull();
  }
  const items = [{ seq: -1 }, { newer: true }, { event: { type: 'llm:unknown', data: {} } }, { seq: 3 }];
  expect(decodePayload(JSON.stringify({ session: sessionId, items }))).toEqual({
    kind: 'session',
    sessionId,
    items: [{ seq: 3 }],
  });
});

test('whom a payload concerns is known before it is read', async () => {
  const sessionId = newId();
  const texts = encodeSession(sessionId, [{ seq: 3 }, { event: chunk(0, 'x'.repeat(10_000)) }], 7_000);
  expect(texts.length).toBeGreaterThan(1);
  expect(texts.map(sessionOf)).toEqual(texts.map(() => sessionId));
  expect([encodeCancel(newId()), JSON.stringify({ items: [], session: sessionId }), 'no json'].map(sessionOf)).toEqual([
    null,
    null,
    null,
  ]);
  // A payload of a session with a listener is read, in any order of its keys.
  const heard: number[] = [];
  const listeners = createBusListeners((error) => expect.unreachable(String(error)));
  const ignored = () => undefined;
  listeners.addSession(sessionId, {
    onCommitted: (seq) => heard.push(seq),
    onPreview: ignored,
    onReconnected: ignored,
  });
  for (const text of texts) listeners.deliver(text);
  listeners.deliver(JSON.stringify({ items: [{ seq: 4 }], session: sessionId }));
  for (const text of encodeSession(newId(), [{ seq: 5 }], 7_000)) listeners.deliver(text);
  // On a slow machine a listener is told in several rounds of the event loop.
  await untilHolds(() => expect(heard).toEqual([3, 4]));
});

test('pieces of the input of one call are joined and split as text is, those of another one are not', async () => {
  const link = createLink();
  const sessionId = newId();
  const input = (id: string, offset: number, content: string): LiveEvent => ({
    type: 'llm:tool-input',
    data: { messageId: 'msg_1', epoch: 1, id, callId: 'a', toolName: 'write_file', offset, content },
  });
  for (const event of [
    input('call_1', 0, ''),
    input('call_1', 0, '{"te'),
    input('call_1', 4, 'xt"'),
    input('call_2', 0, ''),
  ])
    link.outbox.preview(sessionId, event);
  await link.outbox.flush();
  expect(itemsOf(link, sessionId)).toEqual([
    { event: input('call_1', 0, '{"text"') },
    { event: input('call_2', 0, '') },
  ]);

  const pieces = encodeSession(sessionId, [{ event: input('call_1', 7, 'x'.repeat(10_000)) }], 7_000);
  expect(pieces.length).toBeGreaterThan(1);
  const contents = pieces.flatMap((payload) => {
    const message = decodePayload(payload);
    return message?.kind === 'session' ? message.items : [];
  });
  expect(contents).toEqual([
    { event: input('call_1', 7, 'x'.repeat(5_000)) },
    { event: input('call_1', 5_007, 'x'.repeat(5_000)) },
  ]);
});

test('no payload is larger than it may be', () => {
  const items = Array.from({ length: 300 }, (_, index) => ({ event: chunk(index * 100, '語'.repeat(index * 20)) }));
  for (const payload of encodeSession(newId(), items, 7_000))
    expect(Buffer.byteLength(payload)).toBeLessThanOrEqual(7_000);
});
