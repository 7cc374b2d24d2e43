import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { createRandom, type Random } from '../../support/random.ts';
import type { AcceptedMessage, Attack, Outcome, Target } from './attack.ts';

/** An answer of the API. Status 0: no answer, and `text` says why. */
type Answer = Readonly<{ status: number; text: string; headers: Headers }>;

type Call = Readonly<{
  method?: string;
  body?: object | string | Uint8Array<ArrayBuffer>;
  headers?: Readonly<Record<string, string>>;
  withinMs?: number;
}>;

/** Functions that attacks use. */
export type Attacker = Readonly<{
  target: Target;
  random: Random;
  /** Whether the attack has lasted long enough. */
  isOver: () => boolean;
  count: (what: string, times?: number) => void;
  /** Records an event that must be impossible, in words. */
  breach: (what: string) => void;
  /** Never rejects. */
  ask: (path: string, call?: Call) => Promise<Answer>;
  /** @throws when the session is refused */
  createSession: (agent?: string, more?: object) => Promise<string>;
  /** Counts the answer. @returns null if the message was refused */
  send: (sessionId: string, content: string, more?: object) => Promise<AcceptedMessage | null>;
  /** Repeats the work in parallel lanes until the attack has lasted long enough; at least once per lane. */
  inLanes: (lanes: number, work: () => Promise<unknown>) => Promise<void>;
  /** Does this many pieces of work in parallel lanes, without a time limit. */
  pieces: (lanes: number, count: number, work: (no: number) => Promise<unknown>) => Promise<void>;
  /** Waits for the end of a run. @returns its status; null: it has not ended */
  ended: (runId: string, withinMs: number) => Promise<string | null>;
  /** Tells the judge to ignore these messages: their sender has removed them. */
  forget: (messageIds: readonly string[]) => void;
  outcome: () => Outcome;
}>;

const createdSchema = z.object({ id: z.string() });
const acceptedSchema = z.object({ messageId: z.string(), runId: z.string() });
const runSchema = z.object({ status: z.string() });

const ENDED = ['completed', 'failed', 'cancelled', 'incomplete'];
const ANSWER_WITHIN_MS = 30_000;
const WAIT_MS = 5_000;
const PAUSE_MS = 100;

/** The shared counts of one attack. */
type Deeds = Readonly<{
  startedAtMs: number;
  done: Map<string, number>;
  accepted: Map<string, AcceptedMessage>;
  breaches: Set<string>;
}>;

function createAttacker(target: Target, { startedAtMs, done, accepted, breaches }: Deeds): Attacker {
  const count: Attacker['count'] = (what, times = 1) => void done.set(what, (done.get(what) ?? 0) + times);
  const ask: Attacker['ask'] = async (path, { body, method, headers, withinMs = ANSWER_WITHIN_MS } = {}) => {
    try {
      const response = await fetch(target.url + path, {
        method: method ?? (body === undefined ? 'GET' : 'POST'),
        headers: { 'content-type': 'application/json', ...target.headers, ...headers },
        signal: AbortSignal.timeout(withinMs),
        ...(body !== undefined && { body: isRaw(body) ? body : JSON.stringify(body) }),
      });
      return { status: response.status, text: await response.text(), headers: response.headers };
    } catch (error) {
      return { status: 0, text: String(error), headers: new Headers() };
    }
  };
  const isOver = (): boolean => performance.now() - startedAtMs > target.lastsMs;
  return {
    target,
    random: createRandom(target.seed),
    isOver,
    count,
    breach: (what) => void breaches.add(what),
    ask,
    async createSession(agent = 'attacker', more = {}) {
      const answer = await ask('/v1/sessions', { body: { agent, ...more } });
      if (answer.status !== 201) throw new Error(`no session: ${answer.status} ${answer.text.slice(0, 300)}`);
      return createdSchema.parse(JSON.parse(answer.text)).id;
    },
    async send(sessionId, content, more = {}) {
      const token = crypto.randomUUID();
      const body = { content: `token ${token} ${content}`, ...more };
      const answer = await ask(`/v1/sessions/${sessionId}/messages`, { body });
      count(`messages answered ${answer.status}`);
      if (answer.status !== 202) return null;
      const message = { ...acceptedSchema.parse(JSON.parse(answer.text)), token };
      accepted.set(message.messageId, message);
      return message;
    },
    async inLanes(lanes, work) {
      const lane = async (): Promise<void> => {
        do await work();
        while (!isOver());
      };
      await Promise.all(Array.from({ length: lanes }, lane));
    },
    async pieces(lanes, pieces, work) {
      let next = 0;
      const lane = async (): Promise<void> => {
        while (next < pieces) await work(next++);
      };
      await Promise.all(Array.from({ length: lanes }, lane));
    },
    async ended(runId, withinMs) {
      for (const sinceMs = performance.now(); performance.now() - sinceMs < withinMs; await delay(PAUSE_MS)) {
        const { status, text } = await ask(`/v1/runs/${runId}/wait?timeoutMs=${WAIT_MS}`);
        if (status !== 200) continue;
        const run = runSchema.parse(JSON.parse(text));
        if (ENDED.includes(run.status)) return run.status;
      }
      return null;
    },
    forget(messageIds) {
      for (const id of messageIds) accepted.delete(id);
    },
    outcome: () => ({
      done: Object.fromEntries(done),
      accepted: [...accepted.values()],
      breaches: [...breaches],
    }),
  };
}

const isRaw = (body: object | string): body is string | Uint8Array<ArrayBuffer> =>
  typeof body === 'string' || body instanceof Uint8Array;

/** An attack by one tenant, or by two together. It ends when its work is done. */
export function attackBy(work: (attacker: Attacker, accomplice: Attacker) => Promise<void>): Attack {
  return async (target) => {
    const deeds: Deeds = {
      startedAtMs: performance.now(),
      done: new Map(),
      accepted: new Map(),
      breaches: new Set(),
    };
    const attacker = createAttacker(target, deeds);
    await work(attacker, createAttacker({ ...target, headers: target.accomplice }, deeds));
    return attacker.outcome();
  };
}
