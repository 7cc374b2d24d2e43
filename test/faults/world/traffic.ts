import type { EventEmitter } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import type { RequestRecord } from '../../../simulator/request.ts';
import type { Random } from '../../support/random.ts';
import type { GivenAnswer } from '../check/answers.ts';
import { rawId } from '../check/snapshot.ts';
import { createAnswering, type Wait } from './answering.ts';
import { type Accepted, type Api, type Delivery, Refused, type RunBody } from './api.ts';
import {
  createEditing,
  type EditOptions,
  type Edits,
  NO_EDITS,
  newMessageId,
  resumeWaiting,
  type SentMessage,
} from './edits.ts';
import { followSession, type Reader } from './reader.ts';

export type TrafficOptions = EditOptions &
  Readonly<{
    /** Sessions that work side by side. */
    sessions: number;
    /** Chance per run that a message is sent into it while it is at work. */
    steerChance: number;
    /** The same for `followup` and `interrupt`. */
    followupChance: number;
    interruptChance: number;
    /** Chance per run that it is cancelled at a random moment. */
    cancelChance: number;
    /** Chance per answer of the model that its run is cancelled meanwhile. The model makes such an answer long. */
    cancelAnswerChance: number;
    /** Chance per end of a run that messages are sent at the very moment in which the run is about to end. */
    atEndChance: number;
    /** Number of messages that are sent then, each at a moment of its own. */
    atEndMessages: number;
    /** Letters of filler in each message, to fill a context. */
    paddingChars: number;
  }>;

/** An answer that the model is giving, with the number of pieces sent so far. */
export type OpenAnswer = Readonly<{ request: RequestRecord; chunksBefore: number }>;

/** A cancel that was accepted, with its time by this process's clock. `open`: the session's unfinished answers then. */
type SentCancel = Readonly<{ sessionId: string; runId: string; sentAtMs: number; open: readonly OpenAnswer[] }>;

/** Acts and observations of the clients of a world. */
export type Traffic = Readonly<{
  startedAtMs: number;
  /** Messages that were accepted: the product may lose none of them. */
  messages: readonly SentMessage[];
  edits: Edits;
  cancels: readonly SentCancel[];
  /** Messages that were sent at the very moment in which a run was about to end, and accepted. */
  atEnds: readonly Accepted[];
  /** The answers to calls that waited for people, and the times for which their runs waited. */
  answers: readonly GivenAnswer[];
  waits: readonly Wait[];
  readers: ReadonlyMap<string, Reader>;
  /** Resolves when all has been sent and every run has ended. */
  done: Promise<void>;
}>;

export const QUIET_TRAFFIC: TrafficOptions = {
  ...NO_EDITS,
  sessions: 20,
  steerChance: 0.2,
  followupChance: 0,
  interruptChance: 0,
  cancelChance: 0,
  cancelAnswerChance: 0,
  atEndChance: 0.1,
  atEndMessages: 1,
  paddingChars: 0,
};

type Surroundings = Readonly<{
  api: Api;
  url: () => string;
  model: EventEmitter;
  people: EventEmitter;
  /** Answers that the model is giving in a session. */
  openAnswers: (sessionId: string) => readonly OpenAnswer[];
}>;

/** Sends messages that start `runs` runs, and further messages into these runs. */
export function startTraffic(
  { api, url, model, people, openAnswers }: Surroundings,
  runs: number,
  options: TrafficOptions,
  random: Random,
  signal: AbortSignal,
): Traffic {
  const startedAtMs = performance.now();
  const messages: SentMessage[] = [];
  const edits: Edits = { refused: [], wrongReplays: [], resumptions: [] };
  const cancels: SentCancel[] = [];
  const atEnds: Accepted[] = [];
  const readers = new Map<string, Reader>();
  const answering = createAnswering(api, people, random.fork('answers'), signal);
  const padding = PADDING.repeat(Math.ceil(options.paddingChars / PADDING.length));

  const driveSession = async (no: number, count: number): Promise<void> => {
    const chance = random.fork(`session ${no}`);
    const sessionId = await api.createSession();
    let sent = 0;
    let before: Promise<unknown> = Promise.resolve();
    // One after the other, so that the order in which they are accepted is known.
    const send = (delivery: Delivery): Promise<Accepted> => {
      const sending = before.then(() => sendNow(delivery));
      before = sending.catch(() => undefined);
      return sending;
    };
    const own = new Map<string, SentMessage>();
    const remember = (message: SentMessage): void => {
      own.set(message.messageId, message);
      messages.push(message);
    };
    const newToken = (): string => `message-${no}-${++sent}`;
    const contentOf = (token: string): string => `Task ${token}.${padding}`;
    const sendNow = async (delivery: Delivery): Promise<Accepted> => {
      const token = newToken();
      const id = newMessageId();
      const accepted = await api.send(sessionId, { id, content: contentOf(token), delivery });
      const times = { sentAtMs: accepted.sentAtMs, answeredAtMs: performance.now() };
      remember({ sessionId, messageId: id, runId: accepted.runId, token, delivery, ...times });
      return accepted;
    };
    const sendWaiting = async (): Promise<string> => (await send('followup')).messageId;
    const post = { sessionId, sent: own, newToken, contentOf, sendWaiting, remember };
    const editing = createEditing(api, post, edits, chance.fork('edits'), signal);
    const meanwhile = new Set<Promise<unknown>>();
    const atOnce = (work: Promise<unknown>): void => {
      meanwhile.add(work);
      void work.finally(() => meanwhile.delete(work)).catch(() => undefined);
    };
    readers.set(sessionId, followSession(url, sessionId, signal));
    let runId = '';
    const noted = async (cancelled: Promise<string | null>): Promise<void> => {
      const sentAtMs = performance.now();
      const ofRun = await cancelled;
      if (ofRun !== null) cancels.push({ sessionId, runId: ofRun, sentAtMs, open: openAnswers(sessionId) });
    };
    const cancel = (): Promise<void> => {
      const ofRun = runId;
      return orGone(noted(api.cancel(ofRun).then(() => ofRun)));
    };
    // Cancels the session's run without its id: the model may be answering any run.
    const cancelAnswer = (): Promise<void> => noted(api.cancelSession(sessionId));
    model.on(`request ${rawId(sessionId)}`, (goOn: () => void) => {
      if (!chance.chance(options.cancelAnswerChance)) return;
      goOn();
      const inMs = chance.between(0, ANSWERED_WITHIN_MS);
      atOnce(delay(inMs, undefined, { signal }).then(cancelAnswer));
    });
    model.on(`last-word ${rawId(sessionId)}`, () => {
      if (!chance.chance(options.atEndChance)) return;
      for (let left = options.atEndMessages; left > 0; left--) {
        const inMs = chance.between(0, END_WITHIN_MS);
        const sending = delay(inMs, undefined, { signal }).then(() => send('steer'));
        atOnce(sending.then((accepted) => atEnds.push(accepted)));
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
        ...editing.acts(options).map(([probability, act]) => disturb(probability, act)),
      ];
      await Promise.all([orGone(api.ended(runId, answering.onWait)), ...disturbances]);
      if (!chance.chance(options.resumeChance)) continue;
      const resumed = await resumeWaiting(api, sessionId, edits);
      if (resumed !== null) await orGone(api.ended(resumed, answering.onWait));
    }
    await quiet({ api, onWait: answering.onWait }, sessionId, meanwhile, signal);
  };

  const perSession = Math.ceil(runs / options.sessions);
  const done = Promise.all(
    Array.from({ length: options.sessions }, (_, no) =>
      driveSession(no, Math.min(perSession, Math.max(0, runs - no * perSession))),
    ),
  ).then(() => undefined);
  const { answers, waits } = answering;
  return { startedAtMs, messages, edits, cancels, atEnds, answers, waits, readers, done };
}

/** Ignores a run that does not exist: the run promised to a message never begins if the message is taken back. */
async function orGone(work: Promise<unknown>): Promise<void> {
  await work.catch((error: unknown) => {
    if (!(error instanceof Refused && error.status === 404)) throw error;
  });
}

const PADDING = ' The yard behind the mill was wet with rain.';
const DISTURBED_WITHIN_MS = 250;
/** A cancel of an answer comes within this time: a long answer is then in its middle. */
const ANSWERED_WITHIN_MS = 200;
/** A step ends within this time after the last word of its answer. */
const END_WITHIN_MS = 40;
const LOOK_AGAIN_MS = 50;

/** Waits until the session has nothing to do and no client is still sending to it. */
async function quiet(
  { api, onWait }: Readonly<{ api: Api; onWait: (run: RunBody) => Promise<void> }>,
  sessionId: string,
  meanwhile: ReadonlySet<Promise<unknown>>,
  signal: AbortSignal,
): Promise<void> {
  for (;;) {
    await Promise.allSettled(meanwhile);
    const session = await api.session(sessionId);
    if (session.activeRunId !== null) await orGone(api.ended(session.activeRunId, onWait));
    else if (session.status === 'idle' && meanwhile.size === 0) return;
    await delay(LOOK_AGAIN_MS, undefined, { signal });
  }
}
