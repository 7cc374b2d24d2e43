import { createHash } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { StreamFault } from './fault.ts';
import type { Frame, JsonObject } from './frames.ts';
import { type Gates, untilAborted } from './gates.ts';
import type { OpenRecord } from './journal.ts';
import type { ReplyGates } from './reply.ts';

/** OpenAI gives the stream of a response again for this long, and the response itself for longer. */
const STREAMABLE_FOR_MS = 5 * 60_000;
const KEPT_FOR_MS = 30 * 24 * 60 * 60_000;
const KEPT_RESPONSES = 10_000;

type BackgroundStatus = 'in_progress' | 'completed' | 'incomplete' | 'failed' | 'cancelled';

/** The log's record of a response, which is made even if no client reads it. */
export type BackgroundRecord = Readonly<{
  id: string;
  /** Number of its request. */
  requestNo: number;
  model: string;
  cacheKey: string;
  /** The same for requests with the same body. */
  digest: string;
  status: BackgroundStatus;
  /** The numbers of requests for its stream that were answered again, and that were refused for its age. */
  streamedAgain: number;
  streamsRefused: number;
  /** The number of requests for the whole response. */
  readWhole: number;
}>;

type OpenBackground = { -readonly [K in keyof BackgroundRecord]: BackgroundRecord[K] };

/** A response that is being made or was made. `grown` settles with the next event, and with its end. */
export type Background = Readonly<{
  record: OpenBackground;
  events: readonly Frame[];
  grown: () => Promise<void>;
  /** The response object as it is now. */
  whole: () => JsonObject;
  cancel: () => void;
}>;

type Making = Readonly<{
  record: OpenRecord;
  rawBody: string;
  frames: Iterable<Frame>;
  gates: Gates;
  replyGates: ReplyGates;
  /** A fault that makes the response fail. Faults of a connection do not touch the response. */
  fault: Extract<StreamFault, { kind: 'error-in-stream' }> | undefined;
  chunkDelayMs: number;
  onDelivered: () => void;
  stopped: AbortSignal;
}>;

export type Backgrounds = Readonly<{
  /** The newest 10 000, oldest first. */
  records: () => BackgroundRecord[];
  begin: (making: Making) => Background;
  /** Undefined: it does not exist, or no longer. */
  find: (id: string) => Background | undefined;
  isStreamable: (background: Background) => boolean;
  /** Makes all responses older by this time. */
  age: (ms: number) => void;
  clear: () => void;
}>;

export function createBackgrounds(): Backgrounds {
  const kept = new Map<string, Readonly<{ background: Background; atMs: number }>>();
  let agedMs = 0;
  const now = (): number => performance.now() + agedMs;
  const ageOf = (id: string): number => now() - (kept.get(id)?.atMs ?? Number.NEGATIVE_INFINITY);
  return {
    records: () => [...kept.values()].map(({ background }) => background.record),
    begin(making) {
      const background = makeInBackground(making);
      kept.set(background.record.id, { background, atMs: now() });
      const oldest = kept.keys().next();
      if (kept.size > KEPT_RESPONSES && !oldest.done) kept.delete(oldest.value);
      return background;
    },
    find: (id) => (ageOf(id) > KEPT_FOR_MS ? undefined : kept.get(id)?.background),
    isStreamable: ({ record }) => ageOf(record.id) <= STREAMABLE_FOR_MS,
    age: (ms) => {
      agedMs += ms;
    },
    clear: () => {
      for (const { background } of kept.values()) background.cancel();
      kept.clear();
    },
  };
}

const isOver = ({ record }: Background): boolean => record.status !== 'in_progress';

/** Makes a response, through its gates and delays, and keeps each event for later readers. */
function makeInBackground(making: Making): Background {
  const frames = [...making.frames];
  const shell = responseOf(frames[0]);
  const events: Frame[] = [];
  const stop = new AbortController();
  const record: OpenBackground = {
    id: String(shell['id']),
    requestNo: making.record.no,
    model: making.record.model,
    cacheKey: making.record.cacheKey,
    digest: createHash('sha256').update(making.rawBody).digest('hex'),
    status: 'in_progress',
    streamedAgain: 0,
    streamsRefused: 0,
    readWhole: 0,
  };
  let grown = Promise.withResolvers<void>();
  let last = shell;
  const wake = (): void => {
    const { resolve } = grown;
    grown = Promise.withResolvers();
    resolve();
  };
  const settle = (status: BackgroundStatus, response: JsonObject): void => {
    if (record.status !== 'in_progress') return;
    record.status = status;
    last = { ...response, status };
    wake();
  };
  const push = (frame: Frame): void => {
    events.push(frame);
    if (frame.kind === 'end') settle(responseOf(frame)['status'] as BackgroundStatus, responseOf(frame));
    else wake();
  };
  const signal = AbortSignal.any([stop.signal, making.stopped]);
  play({ ...making, frames, signal }, shell, push).catch((error: unknown) => {
    settle(signal.aborted ? 'cancelled' : 'failed', {
      ...shell,
      error: { code: 'server_error', message: String(error) },
    });
  });
  return {
    record,
    events,
    grown: () => grown.promise,
    whole: () => last,
    cancel() {
      settle('cancelled', shell);
      stop.abort(new Error('The response was cancelled.'));
    },
  };
}

const responseOf = (frame: Frame | undefined): JsonObject => (frame?.event['response'] ?? {}) as JsonObject;

type Played = Omit<Making, 'frames'> & Readonly<{ frames: readonly Frame[]; signal: AbortSignal }>;

/** Rejects with the signal's reason when it is stopped. */
async function play(making: Played, shell: JsonObject, push: (frame: Frame) => void): Promise<void> {
  const { record, gates, replyGates, fault, chunkDelayMs, signal } = making;
  const pass = async (name: string | undefined): Promise<void> => {
    if (name !== undefined) await gates.pass(name, signal);
  };
  let { beforeFirstChunk: first, afterChunks: middle } = replyGates;
  for (const frame of making.frames) {
    const isLast = frame.kind === 'end';
    if (frame.kind !== 'open') {
      await pass(first);
      first = undefined;
      if (middle !== undefined && (isLast || record.chunksSent >= middle.count)) {
        await pass(middle.gate);
        middle = undefined;
      }
      if (fault !== undefined && (isLast || record.chunksSent >= fault.afterChunks)) {
        return push(failedFrame(shell, fault, Number(frame.event['sequence_number'])));
      }
    }
    if (frame.kind === 'chunk') {
      if (chunkDelayMs > 0) await delay(chunkDelayMs, undefined, { signal });
      record.chunksSent += 1;
    }
    if (isLast) {
      await pass(replyGates.beforeEnd);
      making.onDelivered();
    }
    signal.throwIfAborted();
    push(frame);
  }
}

function failedFrame(
  shell: JsonObject,
  { code, message }: Extract<StreamFault, { kind: 'error-in-stream' }>,
  sequence: number,
): Frame {
  const response = { ...shell, status: 'failed', error: { code, message } };
  return { kind: 'end', event: { type: 'response.failed', sequence_number: sequence, response } };
}

/**
 * Yields the events after a number until the response is over. Rejects with the signal's reason when the client leaves.
 */
export async function* eventsAfter(background: Background, after: number, signal: AbortSignal): AsyncGenerator<Frame> {
  for (let at = 0; ; ) {
    const grown = background.grown();
    for (; at < background.events.length; at += 1) {
      const frame = background.events[at];
      if (frame !== undefined && Number(frame.event['sequence_number']) > after) yield frame;
    }
    if (isOver(background)) return;
    await untilAborted(grown, signal);
  }
}
