import { contentLength } from '../domain/run/events.ts';
import type { BusItem } from './bus-payload.ts';
import { joinPreviews } from './join-previews.ts';
import type { SessionListener } from './live-bus.ts';

/** What is told in one turn of the event loop: a few milliseconds of work, and of work that listeners do once woken. */
const MAX_TOLD_PER_TURN = 256;
const MAX_MS_PER_TURN = 5;

/**
 * What waits until earlier news has been told, in characters and a share for each item. The oldest previews go first:
 * readers find their text in Postgres.
 */
const MAX_WAITING_COST = 262_144;
const ITEM_COST = 200;

export type FanOut = Readonly<{
  /** Tells every listener of the session, in order: at once, or behind what is being told. */
  tell: (sessionId: string, items: readonly BusItem[]) => void;
}>;

/** Items on their way to the listeners of a session, and those that came meanwhile. */
type Round = { items: readonly BusItem[]; listeners: Iterator<SessionListener>; waiting: BusItem[] };

/**
 * Tells listeners in slices, so that a session with many of them does not keep the event loop from all else. Previews
 * that come while a session's listeners are still being told are joined: the more listeners, the fewer and larger pieces.
 * @param deliver tells one listener
 */
export function createFanOut(
  listenersOf: (sessionId: string) => ReadonlySet<SessionListener> | undefined,
  deliver: (listener: SessionListener, item: BusItem) => void,
): FanOut {
  const rounds = new Map<string, Round>();
  let told = 0;
  let startedAtMs = 0;
  let isPlanned = false;

  function begin(sessionId: string, items: readonly BusItem[]): void {
    const listeners = [...(listenersOf(sessionId) ?? [])].values();
    rounds.set(sessionId, { items, listeners, waiting: [] });
  }

  function tellNext(sessionId: string, round: Round): void {
    const { value: listener } = round.listeners.next();
    if (listener === undefined) {
      rounds.delete(sessionId);
      // Behind the other sessions that wait.
      if (round.waiting.length > 0) begin(sessionId, round.waiting);
      return;
    }
    told += 1;
    if (listenersOf(sessionId)?.has(listener) !== true) return;
    for (const item of round.items) deliver(listener, item);
  }

  function work(): void {
    if (told === 0) startedAtMs = performance.now();
    planTurn();
    for (let [next] = rounds; next !== undefined; [next] = rounds) {
      if (told >= MAX_TOLD_PER_TURN || (told > 0 && performance.now() - startedAtMs > MAX_MS_PER_TURN)) return;
      tellNext(...next);
    }
  }

  function planTurn(): void {
    if (isPlanned) return;
    isPlanned = true;
    setImmediate(() => {
      isPlanned = false;
      told = 0;
      if (rounds.size > 0) work();
    });
  }

  return {
    tell(sessionId, items) {
      const round = rounds.get(sessionId);
      if (round === undefined) begin(sessionId, items);
      else for (const item of items) addItem(round.waiting, item);
      work();
    },
  };
}

/** Adds news to those that wait. Of announcements the highest is enough, where the last one was. */
function addItem(waiting: BusItem[], item: BusItem): void {
  if ('seq' in item) {
    const earlier = waiting.findIndex((each) => 'seq' in each);
    const [known] = earlier === -1 ? [] : waiting.splice(earlier, 1);
    waiting.push(known !== undefined && 'seq' in known ? { seq: Math.max(known.seq, item.seq) } : item);
    return;
  }
  const last = waiting.at(-1);
  const joined = last === undefined || 'seq' in last ? null : joinPreviews(last.event, item.event);
  if (joined === null) waiting.push(item);
  else waiting[waiting.length - 1] = { event: joined };
  makeRoom(waiting);
}

function makeRoom(waiting: BusItem[]): void {
  for (let cost = waiting.reduce((sum, item) => sum + costOf(item), 0); cost > MAX_WAITING_COST; ) {
    const oldest = waiting.findIndex((item) => 'event' in item);
    const [dropped] = oldest === -1 ? [] : waiting.splice(oldest, 1);
    if (dropped === undefined) return;
    cost -= costOf(dropped);
  }
}

const costOf = (item: BusItem): number => ITEM_COST + ('event' in item ? contentLength(item.event) : 0);
