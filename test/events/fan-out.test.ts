import { setImmediate as nextRound } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { LiveEvent } from '../../src/domain/run/events.ts';
import type { BusItem } from '../../src/events/bus-payload.ts';
import { createFanOut } from '../../src/events/fan-out.ts';
import type { SessionListener } from '../../src/events/live-bus.ts';
import { chunk } from './listening.ts';

const LISTENERS = 1_000;
/** The most listeners that are told in one round of the event loop. */
const PER_TURN = 256;

const preview = (offset: number, content: string): BusItem => ({ event: chunk(offset, content) });

/** Listeners of some sessions, with the items that each was told, in order. */
function listening(sizes: Readonly<Record<string, number>>) {
  const heard = new Map<SessionListener, BusItem[]>();
  const sessions = new Map(
    Object.entries(sizes).map(([sessionId, count]) => {
      const listeners = Array.from({ length: count }, (): SessionListener => {
        const ignore = (): void => undefined;
        return { onCommitted: ignore, onPreview: ignore, onReconnected: ignore };
      });
      for (const listener of listeners) heard.set(listener, []);
      return [sessionId, new Set(listeners)];
    }),
  );
  const fanOut = createFanOut(
    (sessionId) => sessions.get(sessionId),
    (listener, item) => void heard.get(listener)?.push(item),
  );
  const heardIn = (sessionId: string): BusItem[][] =>
    [...(sessions.get(sessionId) ?? [])].map((listener) => heard.get(listener) ?? []);
  const toldIn = (sessionId: string): number => heardIn(sessionId).filter((items) => items.length > 0).length;
  return { fanOut, sessions, heard, heardIn, toldIn };
}

async function untilAllHave(heardIn: () => BusItem[][], seq: number): Promise<void> {
  const has = (items: BusItem[]): boolean => items.some((item) => 'seq' in item && item.seq === seq);
  while (!heardIn().every(has)) await nextRound();
}

test('few listeners are told at once', () => {
  const { fanOut, heardIn } = listening({ a: 3 });
  fanOut.tell('a', [preview(0, 'x'), { seq: 1 }]);
  expect(heardIn('a')).toEqual(Array.from({ length: 3 }, () => [preview(0, 'x'), { seq: 1 }]));
});

test('many listeners are told in slices, and another session has its turn in between', async () => {
  const { fanOut, toldIn } = listening({ many: LISTENERS, other: 1 });
  fanOut.tell('many', [{ seq: 1 }]);
  fanOut.tell('many', [{ seq: 2 }]);
  fanOut.tell('other', [{ seq: 1 }]);
  for (let before = 0; before < LISTENERS; ) {
    const told = toldIn('many');
    expect(told - before).toBeLessThanOrEqual(PER_TURN);
    before = told;
    await nextRound();
  }
  while (toldIn('other') === 0) await nextRound();
});

test('previews that come while others are being told are joined, and every listener gets the whole text in order', async () => {
  const { fanOut, heardIn } = listening({ a: LISTENERS });
  const text = 'abcdefghijklmnopqrstuvwxyz';
  for (const [offset, content] of [...text].entries()) fanOut.tell('a', [preview(offset, content)]);
  fanOut.tell('a', [{ seq: 7 }]);
  await untilAllHave(() => heardIn('a'), 7);
  // The first piece is told at once, for readers who wait for an answer to begin; then the later pieces come as one.
  const expected = [preview(0, 'a'), preview(1, text.slice(1)), { seq: 7 }];
  for (const items of heardIn('a')) expect(items).toEqual(expected);
});

test('of announcements that wait the highest is told, behind the previews that came before it', async () => {
  const { fanOut, heardIn } = listening({ a: LISTENERS });
  fanOut.tell('a', [{ seq: 1 }]);
  fanOut.tell('a', [{ seq: 3 }, preview(0, 'x')]);
  fanOut.tell('a', [{ seq: 2 }]);
  await untilAllHave(() => heardIn('a'), 3);
  for (const items of heardIn('a')) expect(items).toEqual([{ seq: 1 }, preview(0, 'x'), { seq: 3 }]);
});

test('a listener that has gone is told nothing more', async () => {
  const { fanOut, sessions, heard, heardIn } = listening({ a: LISTENERS });
  fanOut.tell('a', [{ seq: 1 }]);
  const gone = [...(sessions.get('a') ?? [])].at(-1);
  if (gone !== undefined) sessions.get('a')?.delete(gone);
  await untilAllHave(() => heardIn('a'), 1);
  expect(gone === undefined ? null : heard.get(gone)).toEqual([]);
});

test('what waits is bounded: the oldest previews are left out, an announcement never is', async () => {
  const { fanOut, heardIn } = listening({ a: LISTENERS });
  const part = 'x'.repeat(16_000);
  fanOut.tell('a', [{ seq: 1 }]);
  fanOut.tell('a', [{ seq: 2 }]);
  for (let no = 0; no < 100; no++) fanOut.tell('a', [preview(no * 16_000, part)]);
  await untilAllHave(() => heardIn('a'), 2);
  while (heardIn('a').some((items) => offsetsOf(items).at(-1) !== 99 * 16_000)) await nextRound();
  for (const items of heardIn('a')) expect(offsetsOf(items).length).toBeLessThan(20);
});

const offsetsOf = (items: readonly BusItem[]): number[] =>
  items.flatMap((item) => ('event' in item ? [offsetOf(item.event)] : []));

const offsetOf = (event: LiveEvent): number => (event.type === 'llm:thinking' ? -1 : event.data.offset);
