import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import {
  LET_IN_PER_ROUND,
  MAX_STRANGERS_IN_LINE,
  MAX_WAITING_AT_THE_DOOR,
  SENDER_NAME_CHARS,
} from '../domain/tunables.ts';
import { ProblemError, problemBody } from './bodies/problem.ts';
import { networkOf } from './middleware/wrong-keys.ts';

type Waiting = Readonly<{ incoming: IncomingMessage; outgoing: ServerResponse }>;

/** The requests of one sender that wait, in the order in which they came. */
type Line = Waiting[];

/**
 * Lets a few requests in per round of the event loop, of each sender in turn; the others wait unread. So a flood of
 * requests delays those of other senders by a round, not by the work on all that came before. Probes of `/livez` never
 * wait: a supervisor would restart a process that is only busy.
 *
 * A sender is who shows a key, right or wrong, or the address of those who show none.
 * @param onFull called when a request is sent away
 */
export function createDoor(answer: RequestListener, onFull: () => void): RequestListener {
  const lines = new Map<string, Line>();
  let waiting = 0;
  let letIn = 0;
  let isCounting = false;

  function enter(incoming: IncomingMessage, outgoing: ServerResponse): void {
    letIn += 1;
    if (!isCounting) {
      isCounting = true;
      setImmediate(nextRound);
    }
    answer(incoming, outgoing);
  }

  function nextRound(): void {
    isCounting = false;
    letIn = 0;
    while (waiting > 0 && letIn < LET_IN_PER_ROUND) {
      const { incoming, outgoing } = takeNext();
      if (incoming.socket.destroyed) continue;
      incoming.socket.resume();
      enter(incoming, outgoing);
    }
  }

  /** The first of the line whose turn it is, which then goes behind the other lines. */
  function takeNext(): Waiting {
    for (const [sender, line] of lines) {
      lines.delete(sender);
      const first = line.shift();
      if (first === undefined) continue;
      waiting -= 1;
      if (line.length > 0) lines.set(sender, line);
      return first;
    }
    throw new Error('nobody waits at the door');
  }

  return (incoming, outgoing) => {
    if (incoming.url === '/livez') return answer(incoming, outgoing);
    if (waiting === 0 && letIn < LET_IN_PER_ROUND) return enter(incoming, outgoing);
    const { name, isStranger } = senderOf(incoming);
    const line = lines.get(name) ?? [];
    const isFull = isStranger && line.length >= MAX_STRANGERS_IN_LINE;
    if (isFull || waiting >= MAX_WAITING_AT_THE_DOOR) {
      onFull();
      return sendAway(incoming, outgoing);
    }
    lines.set(name, line);
    line.push({ incoming, outgoing });
    waiting += 1;
    // Else its body would arrive meanwhile.
    incoming.socket.pause();
  };
}

/** Credentials in the order in which they are looked at. Their text is compared, not checked. */
const CREDENTIALS = ['authorization', 'x-api-key', 'cookie'] as const;

function senderOf({ headers, socket }: IncomingMessage): Readonly<{ name: string; isStranger: boolean }> {
  for (const header of CREDENTIALS) {
    const credential = headers[header];
    if (typeof credential === 'string')
      return { name: `${header} ${credential.slice(0, SENDER_NAME_CHARS)}`, isStranger: false };
  }
  return { name: networkOf(socket.remoteAddress ?? ''), isStranger: true };
}

const FULL = new ProblemError(
  'intake_full',
  'More requests wait here than may: nothing of this one was read, send it again in a moment',
);

function sendAway({ url = '/' }: IncomingMessage, outgoing: ServerResponse): void {
  outgoing.statusCode = 503;
  outgoing.setHeader('content-type', 'application/problem+json').setHeader('retry-after', '1');
  const [path = '/'] = url.split('?', 1);
  outgoing.end(problemBody(FULL, path));
}
