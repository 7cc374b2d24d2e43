import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { ANSWER_STALL_LIMIT_MS } from '../domain/tunables.ts';

/** An answer on its connection. */
export type OpenAnswer = Readonly<{
  /** Bytes that the client has not taken, as far as they are in this process. */
  heldBytes: () => number;
  /** Counts bytes that wait outside of the connection's own buffer. */
  alsoHolds: (bytes: () => number) => void;
  /** Called when bytes were added or taken. */
  changed: () => void;
  /** Has the listener called after each change from now on. */
  whenChanged: (listener: () => void) => void;
  /** Closes the connection. */
  drop: () => void;
  /** Closes the connection of a client that takes nothing. */
  giveUp: () => void;
  /** Has the listener called before the answer is given up. */
  whenGivenUp: (listener: () => void) => void;
}>;

/** Watches an answer until it is sent, and drops it if the client takes nothing for 30 s after its end. */
export function openAnswer(socket: Socket, outgoing: ServerResponse, stallLimitMs = ANSWER_STALL_LIMIT_MS): OpenAnswer {
  let waitingBytes = (): number => 0;
  let onChange = (): void => undefined;
  let onGiveUp = (): void => undefined;
  const changed = (): void => onChange();
  const drop = (): void => void socket.destroy();
  const giveUp = (): void => {
    onGiveUp();
    drop();
  };
  closeWith(socket, outgoing);
  const heldBytes = (): number => (socket.destroyed ? 0 : waitingBytes() + outgoing.writableLength);
  const limitStall = (): void => {
    if (heldBytes() === 0) return;
    // Node restarts the timer as long as a write makes progress.
    outgoing.setTimeout(stallLimitMs, giveUp);
    // Before Node's own listener, which sets the time-out of an idle connection.
    outgoing.prependOnceListener('finish', () => socket.setTimeout(0));
  };
  // Node has no event for a write.
  const { write, end } = outgoing;
  const watched = (method: typeof write | typeof end, then: () => void) => {
    return (...parameters: unknown[]): unknown => {
      const result: unknown = Reflect.apply(method, outgoing, parameters);
      then();
      changed();
      return result;
    };
  };
  Object.assign(outgoing, { write: watched(write, () => undefined), end: watched(end, limitStall) });
  outgoing.on('drain', changed).on('close', changed);
  return {
    heldBytes,
    alsoHolds(bytes) {
      waitingBytes = bytes;
    },
    changed,
    whenChanged(listener) {
      onChange = listener;
      listener();
    },
    drop,
    giveUp,
    whenGivenUp(listener) {
      onGiveUp = listener;
    },
  };
}

const answersOf = new WeakMap<Socket, Set<ServerResponse>>();

/**
 * Closes each answer of a connection with it. Node 22 closes only the first: those that wait behind it would keep their
 * places, bodies and readers for ever.
 */
function closeWith(socket: Socket, outgoing: ServerResponse): void {
  const open = answersOf.get(socket) ?? new Set<ServerResponse>();
  open.add(outgoing);
  outgoing.once('close', () => open.delete(outgoing));
  if (answersOf.has(socket)) return;
  answersOf.set(socket, open);
  const close = (answer: ServerResponse): void => {
    answer.destroyed = true;
    answer.emit('close');
  };
  // Node's own listener may come behind this one.
  socket.once('close', () => setImmediate(() => open.forEach(close)));
}
