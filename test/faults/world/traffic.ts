import type { EventEmitter } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import type { Random } from '../../support/random.ts';
import { rawId } from '../check/snapshot.ts';
import type { Accepted, Api, Delivery } from './api.ts';
import { followSession, type Reader } from './reader.ts';

export type TrafficOptions = Readonly<{
  /** Sessions that work side by side. */
  sessions: number;
  /** Messages sent into a run at work: how likely one is, per run. */
  steerChance: number;
  /** The same for `followup` and `interrupt`. */
  followupChance: number;
  interruptChance: number;
  /** How likely a run is cancelled, at a random moment. */
  cancelChance: number;
  /** How likely a run is cancelled while the model answers, for each of its answers. */
  cancelAnswerChance: number;
  /** How likely a message is sent at the very moment in which a run is about to end, for each of its ends. */
  atEndChance: number;
  /** How many are sent then, each at a moment of its own. */
  atEndMessages: number;
}>;

/** A message that was accepted: what nobody may lose. */
type SentMessage = Readonly<{
  sessionId: string;
  messageId: string;
  runId: string;
  token: string;
  delivery: Delivery;
}>;

/** A cancel that was asked for, by this process's clock. */
type SentCancel = Readonly<{ sessionId: string; runId: string; sentAtMs: number }>;

/** What the clients of a world did and saw. */
export type Traffic = Readonly<{
  messages: readonly SentMessage[];
  cancels: readonly SentCancel[];
  readers: ReadonlyMap<string, Reader>;
  /** Resolves when all has been sent and every run has ended. */
  done: Promise<void>;
}>;

export const QUIET_TRAFFIC: TrafficOptions = {
  sessions: 20,
  steerChance: 0.2,
  followupChance: 0,
  interruptChance: 0,
  cancelChance: 0,
  cancelAnswerChance: 0,
  atEndChance: 0.1,
  atEndMessages: 1,
};

/** Sends so many messages that `runs` runs are started, and more into them. */
export function startTraffic(
  { api, url, model }: Readonly<{ api: Api; url: () => string; model: EventEmitter }>,
  runs: number,
  options: TrafficOptions,
  random: Random,
  signal: AbortSignal,
): Traffic {
  const messages: SentMessage[] = [];
  const cancels: SentCancel[] = [];
  const readers = new Map<string, Reader>();

  const driveSession = async (no: number, count: number): Promise<void> => {
    const chance = random.fork(`session ${no}`);
    const sessionId = await api.createSession();
    let sent = 0;
    let before: Promise<unknown> = Promise.resolve();
    // One after the other: what was accepted first is known then.
    const send = (delivery: Delivery): Promise<Accepted> => {
      const sending = before.then(() => sendNow(delivery));
      before = sending.catch(() => undefined);
      return sending;
    };
    const sendNow = async (delivery: Delivery): Promise<Accepted> => {
      const token = `message-${no}-${++sent}`;
      const id = `msg_${crypto.randomUUID().replaceAll('-', '')}`;
      const accepted = await api.send(sessionId, { id, content: `Task ${token}.`, delivery });
      messages.push({ sessionId, messageId: id, runId: accepted.runId, token, delivery });
      return accepted;
    };
    const meanwhile = new Set<Promise<unknown>>();
    const atOnce = (work: Promise<unknown>): void => {
      meanwhile.add(work);
      void work.finally(() => meanwhile.delete(work)).catch(() => undefined);
    };
    readers.set(sessionId, followSession(url, sessionId, signal));
    let runId = '';
    const cancel = async (): Promise<void> => {
      cancels.push({ sessionId, runId, sentAtMs: performance.now() });
      await api.cancel(runId);
    };
    model.on(`request ${rawId(sessionId)}`, () => {
      if (!chance.chance(options.cancelAnswerChance)) return;
      const inMs = chance.between(0, ANSWERED_WITHIN_MS);
      atOnce(delay(inMs, undefined, { signal }).then(cancel));
    });
    model.on(`last-word ${rawId(sessionId)}`, () => {
      if (!chance.chance(options.atEndChance)) return;
      for (let left = options.atEndMessages; left > 0; left--) {
        const inMs = chance.between(0, END_WITHIN_MS);
        atOnce(delay(inMs, undefined, { signal }).then(() => send('steer')));
      }
    });
    for (let i = 0; i < count; i++) {
      runId = (await send('steer')).runId;
      const disturb = async (probability: number, act: () => Promise<unknown>): Promise<void> => {
        if (!chance.chance(probability)) return;
        await delay(chance.between(0, DISTURBED_WITHIN_MS), undefined, { signal });
        await act();
      };
      const disturbances = [
        disturb(options.steerChance, () => send('steer')),
        disturb(options.followupChance, () => send('followup')),
        disturb(options.interruptChance, () => send('interrupt')),
        disturb(options.cancelChance, cancel),
      ];
      await Promise.all([api.ended(runId), ...disturbances]);
    }
    await quiet(api, sessionId, meanwhile, signal);
  };

  const perSession = Math.ceil(runs / options.sessions);
  const done = Promise.all(
    Array.from({ length: options.sessions }, (_, no) =>
      driveSession(no, Math.min(perSession, Math.max(0, runs - no * perSession))),
    ),
  ).then(() => undefined);
  return { messages, cancels, readers, done };
}

const DISTURBED_WITHIN_MS = 250;
/** Where answers are long, a cancel meets one in the middle. */
const ANSWERED_WITHIN_MS = 200;
/** A step ends so soon after the last word of its answer. */
const END_WITHIN_MS = 40;
const LOOK_AGAIN_MS = 50;

/** Waits until the session has nothing to do and nobody sends anything to it. */
async function quiet(
  api: Api,
  sessionId: string,
  meanwhile: ReadonlySet<Promise<unknown>>,
  signal: AbortSignal,
): Promise<void> {
  for (;;) {
    await Promise.allSettled(meanwhile);
    const session = await api.session(sessionId);
    if (session.activeRunId !== null) await api.ended(session.activeRunId);
    else if (session.status === 'idle' && meanwhile.size === 0) return;
    await delay(LOOK_AGAIN_MS, undefined, { signal });
  }
}
