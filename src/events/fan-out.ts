import { contentLength } from '../domain/run/events.ts';
import type { BusItem } from './bus-payload.ts';
import { joinPreviews } from './join-previews.ts';
import type { SessionListener } from './live-bus.ts';

/** Limits of one round of the event loop: the listeners called and the time. Each call also causes later work. */
const MAX_TOLD_PER_ROUND = 256;
const MAX_MS_PER_ROUND = 5;

/** Limit of waiting items: characters, plus a share for each. The oldest previews go first: their text is stored. */
const MAX_WAITING_COST = 262_144;
const ITEM_COST = 200;

export type FanOut = Readonly<{
  /** Calls each listener of the session, in order: at once, or after earlier items. */
  tell: (sessionId: string, items: readonly BusItem[]) => void;
}>;

/** Items on their way to the listeners of a session, and later ones that wait. */
type Round = { items: readonly BusItem[]; listeners: Iterator<SessionListener>; waiting: BusItem[] };

/**
 * Calls listeners in slices, so that a session with many of them does not block the event loop. Previews that arrive
 * meanwhile are joined, so more listeners get fewer and larger pieces.
 * @param deliver calls one listener
 */
export function createFanOut(
  listenersOf: (sessionId: string) => ReadonlySet<SessionListener> | undefined,
  deliver: (listener: SessionListener, item: BusItem) => void,
): FanOut {
  const rounds = new Map<string, Round>();
  let deliveredCount = 0;
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
      // After the other sessions that wait.
      if (round.waiting.length > 0) begin(sessionId, round.waiting);
      return;
    }
    deliveredCount += 1;
    if (listenersOf(sessionId)?.has(listener) !== true) return;
    for (const item of round.items) deliver(listener, item);
  }

  function work(): void {
    if (deliveredCount === 0) startedAtMs = performance.now();
    planRound();
    for (let [next] = rounds; next !== undefined; [next] = rounds) {
      if (
        deliveredCount >= MAX_TOLD_PER_ROUND ||
        (deliveredCount > 0 && performance.now() - startedAtMs > MAX_MS_PER_ROUND)
      )
        return;
      tellNext(...next);
    }
  }

  function planRound(): void {
    if (isPlanned) return;
    isPlanned = true;
    setImmediate(() => {
      isPlanned = false;
      deliveredCount = 0;
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

/** Adds an item to the waiting ones. Of announcements only the highest is kept. */
function addItem(waiting: BusItem[], item: BusItem): void {
  if ('seq' in item) {
    const earlier = waiting.findIndex((each) => 'seq' in each);
    const [replaced] = earlier === -1 ? [] : waiting.splice(earlier, 1);
    waiting.push(replaced !== undefined && 'seq' in replaced ? { seq: Math.max(replaced.seq, item.seq) } : item);
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
