import type { MiddlewareHandler } from 'hono';
import type { AnswerBudget } from '../domain/answer-budget.ts';
import type { Log } from '../platform/log.ts';
import type { HttpEnv } from './http-env.ts';
import { networkOf } from './middleware/wrong-keys.ts';
import type { OpenAnswer } from './open-answer.ts';

export type Outflow = Readonly<{
  /** Counts what an answer holds as the client's. The client is a tenant, or an address without a key. */
  watch: (client: string, answer: Pick<OpenAnswer, 'heldBytes' | 'whenChanged' | 'drop'>) => void;
  heldBytes: () => number;
}>;

type Held = {
  readonly answer: Pick<OpenAnswer, 'heldBytes' | 'drop'>;
  readonly client: Client;
  bytes: number;
  /** When the client was last seen to take something, or began to be behind. */
  sinceMs: number;
};
type Client = { readonly name: string; readonly answers: Set<Held>; bytes: number };

/** Answers are dropped until this part of a bound is left, so that they are not all measured at each further write. */
const LEFT_AFTER_DROPS = 7 / 8;

/**
 * Bounds the bytes that a process holds for clients that do not take them, in sum and for each client. Beyond a bound
 * the answer whose reader has taken nothing for the longest is dropped: a stream can be resumed, an answer asked for
 * again.
 */
export function createOutflow(budget: AnswerBudget, nowMs: () => number = () => performance.now()): Outflow {
  const outgoing: Outgoing = { budget, nowMs, clients: new Map(), allBytes: 0 };
  return {
    watch(name, answer) {
      let held: Held | null = null;
      answer.whenChanged(() => {
        // The object of a client is another one after nothing was held for it.
        if (held === null || held.bytes === 0) {
          const client = outgoing.clients.get(name) ?? { name, answers: new Set(), bytes: 0 };
          held = { answer, client, bytes: 0, sinceMs: 0 };
        }
        measure(outgoing, held);
        makeRoom(outgoing, held.client);
      });
    },
    heldBytes() {
      measureAll(outgoing);
      return outgoing.allBytes;
    },
  };
}

type Outgoing = {
  readonly budget: AnswerBudget;
  readonly nowMs: () => number;
  /** Only those for whom something is held. */
  readonly clients: Map<string, Client>;
  allBytes: number;
};

function measure(outgoing: Outgoing, held: Held): void {
  const bytes = held.answer.heldBytes();
  const more = bytes - held.bytes;
  if (more === 0) return;
  if (held.bytes === 0 || more < 0) held.sinceMs = outgoing.nowMs();
  const { client } = held;
  held.bytes = bytes;
  client.bytes += more;
  outgoing.allBytes += more;
  if (bytes > 0) client.answers.add(held);
  else client.answers.delete(held);
  if (client.answers.size > 0) outgoing.clients.set(client.name, client);
  else outgoing.clients.delete(client.name);
}

function measureAll(outgoing: Outgoing): void {
  for (const { answers } of [...outgoing.clients.values()]) for (const held of [...answers]) measure(outgoing, held);
}

function makeRoom(outgoing: Outgoing, client: Client): void {
  const { budget, clients } = outgoing;
  if (client.bytes <= budget.client && outgoing.allBytes <= budget.all) return;
  // Most clients take their bytes without an event.
  measureAll(outgoing);
  if (client.bytes > budget.client) drop(outgoing, client, client.bytes - budget.client * LEFT_AFTER_DROPS);
  while (outgoing.allBytes > budget.all) {
    const [largest] = [...clients.values()].sort((a, b) => b.bytes - a.bytes);
    if (largest === undefined) return;
    drop(outgoing, largest, outgoing.allBytes - budget.all * LEFT_AFTER_DROPS);
  }
}

/** Drops the client's answers, the one furthest behind first, until so many bytes less are held. */
function drop(outgoing: Outgoing, { answers }: Client, excessBytes: number): void {
  let left = excessBytes;
  for (const held of [...answers].sort((a, b) => a.sinceMs - b.sinceMs)) {
    if (left <= 0) return;
    left -= held.bytes;
    held.answer.drop();
    measure(outgoing, held);
  }
}

/**
 * Has the answers of requests counted, and says which are given up. They are of the caller's tenant, or of the address
 * of one without a key.
 */
export function boundAnswers(outflow: Outflow, log: Log): MiddlewareHandler<HttpEnv> {
  const watch = (client: string, answer: OpenAnswer): void => {
    answer.whenGivenUp(() => log('warn', { event: 'http_dropped', reason: 'answer_unread' }));
    const drop = (): void => {
      log('warn', { event: 'http_dropped', reason: 'answers_full' });
      answer.drop();
    };
    outflow.watch(client, { ...answer, drop });
  };
  return async (c, next) => {
    const answer = c.env?.answer;
    const tenantId = c.get('caller')?.tenantId;
    const client = tenantId === undefined ? `address ${networkOf(c.env?.remoteAddress ?? '')}` : `tenant ${tenantId}`;
    if (answer !== undefined) watch(client, answer);
    await next();
  };
}
