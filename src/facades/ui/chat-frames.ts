import { formatId } from '../../domain/ids.ts';
import type { HttpDeps } from '../../http/http-deps.ts';
import type { EarlyEnd } from '../../http/request-signal.ts';
import { findTaskAfter } from '../../store/session/runs.ts';
import { followDeps } from '../follow-deps.ts';
import { followRun } from '../follow-run.ts';
import type { RunRef } from '../run-details.ts';
import { type WaitingRef, waitInQueue } from '../wait-in-queue.ts';
import type { Approvals } from './approvals.ts';
import { type ChunkWriterOptions, createChunkWriter, errorChunk, startChunk } from './chunk-writer.ts';
import { createSdkFilter, type SdkVersion } from './sdk-versions.ts';
import { DONE_FRAME, type UiFrame } from './ui-frame.ts';

export type Frames = AsyncGenerator<UiFrame>;

/** The page that reads the frames. `signal` aborts when it is gone. */
export type FrameReader = Readonly<{ signal: AbortSignal; sdk: SdkVersion }>;

/** The place from which a run's message goes on. */
type Continuation = Readonly<{
  /** The event with which the run began to wait. */
  afterSeq: number;
  /** Calls whose approval the client was asked for. */
  approvals: Approvals;
}>;

/** The stream of a queued message: first its wait, then its run. */
export async function* queuedFrames(deps: HttpDeps, ref: WaitingRef, reader: FrameReader): Frames {
  const { tenantId, sessionId } = ref;
  // The run is not known yet, so frames before it belong to the message.
  const write = createChunkWriter(writerOptions({ ...ref, runId: ref.messageId }));
  const queued = waitInQueue(followDeps(deps), ref, reader.signal);
  let next = await queued.next();
  for (; next.done !== true; next = await queued.next()) yield* write(next.value);
  if (next.value !== null) yield* runFrames(deps, { tenantId, sessionId, runId: next.value }, reader);
}

/**
 * The stream of a session: the active run from its beginning and each that follows at once, as a message of its own.
 * Version 5 takes all that a stream has for one message, so its stream ends with the active run.
 */
export async function* followActive(deps: HttpDeps, ref: RunRef, reader: FrameReader): Frames {
  let runId: string | null = ref.runId;
  while (runId !== null && !reader.signal.aborted) {
    const followed: string = runId;
    yield* runFrames(deps, { ...ref, runId: followed }, reader);
    runId = reader.sdk > 5 ? await findTaskAfter(deps.db, { ...ref, runId: followed }) : null;
  }
}

/** Chunks that end the message for a client. */
const ENDS: ReadonlySet<string> = new Set(['finish', 'abort', 'error']);

/**
 * Passes on frames to the last one. If they end in the middle of a message, an error chunk says why, because `useChat`
 * takes an answer that merely breaks off for complete.
 * @param whyEnded null: the client is gone
 */
export async function* toTheirEnd(
  frames: AsyncIterable<UiFrame>,
  whyEnded: () => EarlyEnd | null,
): AsyncGenerator<UiFrame | string> {
  let hasEnded = false;
  for await (const frame of frames) {
    if ('type' in frame) hasEnded = ENDS.has(frame.type);
    yield frame;
  }
  const early = hasEnded ? null : whyEnded();
  if (early !== null) yield errorChunk(early);
  if (hasEnded || early !== null) yield DONE_FRAME;
}

/** The stream of one run: its whole message, or the part after an answer of the client. */
export async function* runFrames(
  deps: HttpDeps,
  ref: RunRef,
  { signal, sdk }: FrameReader,
  continuation?: Continuation,
): Frames {
  const options = writerOptions(ref, continuation?.approvals);
  const write = createChunkWriter(options);
  yield startChunk(options);
  const updates = followRun(followDeps(deps), ref, { signal, afterSeq: continuation?.afterSeq });
  const forSdk = createSdkFilter(sdk);
  for await (const update of updates) {
    // Before version 7 nothing in a stream takes a question back.
    if (update.kind === 'asked' && update.wasAnswered === true && sdk < 7) continue;
    for (const frame of write(update)) yield* forSdk(frame);
  }
}

function writerOptions({ sessionId, runId }: RunRef, approvals: Approvals = new Map()): ChunkWriterOptions {
  return { sessionId: formatId('session', sessionId), runId: formatId('run', runId), approvals };
}
