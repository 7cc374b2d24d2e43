import type { Chunk, NewEvent } from '../../domain/events.ts';
import type { SessionSnapshot } from '../../events/stream-item.ts';
import type { FeedItem } from './session-feed.ts';
import { count, oneLine, seconds, shortArguments, shortResult } from './words.ts';

export type Tone = 'plain' | 'dim' | 'good' | 'bad' | 'note';

/** Something to show. A `stream` piece goes on where the one before it ended; the others are whole lines. */
export type Piece =
  | Readonly<{ kind: 'heading'; text: string }>
  | Readonly<{ kind: 'line'; tone: Tone; text: string }>
  | Readonly<{ kind: 'stream'; tone: Tone; text: string }>;

/** What has been shown so far, as far as it decides what is shown next. */
export type Progress = Readonly<{
  tokens: number;
  /** The message being streamed. `end` is the offset up to which it is shown. */
  streamed: Readonly<{ messageId: string; epoch: number; end: number; text: string; reasoning: string }> | null;
  /** When each waiting message was queued (ISO time), by id. */
  queuedAt: Readonly<Record<string, string>>;
}>;

export const NO_PROGRESS: Progress = { tokens: 0, streamed: null, queuedAt: {} };

export type Shown = Readonly<{ progress: Progress; pieces: readonly Piece[] }>;

/** What an item of the event stream looks like to a person, and what is known after it. Pure. */
export function showItem(progress: Progress, item: FeedItem): Shown {
  if (item.kind === 'event') return showEvent(progress, item.event, item.createdAt);
  if (item.kind === 'snapshot') return showSnapshot(progress, item.snapshot);
  return item.event.type === 'llm:chunk' ? showChunk(progress, item.event.data) : { progress, pieces: [] };
}

/** Text that was streamed before we joined. */
function showSnapshot(progress: Progress, { inFlight }: SessionSnapshot): Shown {
  const { messageId, epoch, chunks } = inFlight ?? { messageId: '', epoch: 0, chunks: [] };
  return chunks.reduce<Shown>(
    (shown, chunk) => {
      const next = showChunk(shown.progress, { ...chunk, messageId, epoch });
      return { progress: next.progress, pieces: [...shown.pieces, ...next.pieces] };
    },
    { progress, pieces: [] },
  );
}

function showChunk(progress: Progress, { messageId, epoch, offset, chunkType, content }: Chunk): Shown {
  const known = progress.streamed?.messageId === messageId ? progress.streamed : null;
  if (known !== null && known.epoch > epoch) return { progress, pieces: [] };
  const before = known?.epoch === epoch ? known : { messageId, epoch, end: 0, text: '', reasoning: '' };
  // After a hole nothing is shown: the response brings the whole text.
  const fresh = offset > before.end ? '' : content.slice(before.end - offset);
  if (fresh === '') return { progress, pieces: [] };
  const streamed = { ...before, end: before.end + fresh.length, [chunkType]: before[chunkType] + fresh };
  const lead = chunkType === 'reasoning' && before.reasoning === '' ? 'thinks: ' : '';
  const tone = chunkType === 'reasoning' ? 'dim' : 'plain';
  return { progress: { ...progress, streamed }, pieces: [{ kind: 'stream', tone, text: lead + fresh }] };
}

function showEvent(progress: Progress, event: NewEvent, createdAt: string): Shown {
  switch (event.type) {
    case 'step:started':
      return { progress: { ...progress, streamed: null }, pieces: [stepHeading(progress, event.data)] };
    case 'llm:response':
      return { progress, pieces: restOfResponse(progress, event.data) };
    case 'usage:updated':
      return { progress: { ...progress, tokens: progress.tokens + event.data.usage.totalTokens }, pieces: [] };
    case 'message:queued':
      return { progress: { ...progress, queuedAt: { ...progress.queuedAt, [event.data.id]: createdAt } }, pieces: [] };
    case 'message:dequeued':
      return { progress, pieces: event.data.ids.flatMap((id) => takenUp(progress.queuedAt[id], createdAt)) };
    case 'step:reset': {
      const pieces = progress.streamed === null ? [] : [line('bad', 'the answer broke off; the step starts again')];
      return { progress: { ...progress, streamed: null }, pieces };
    }
    default:
      return { progress, pieces: plainEvent(event, createdAt) };
  }
}

/** Events that are shown without knowing what came before. */
function plainEvent(event: NewEvent, createdAt: string): Piece[] {
  switch (event.type) {
    case 'llm:tool-call': {
      const { toolName, args } = event.data;
      return [line('note', `→ ${toolName} ${shortArguments(args)}`.trimEnd())];
    }
    case 'llm:tool-result': {
      const { toolName, success, sanitized } = event.data;
      const text = `${success ? '←' : '✗'} ${toolName} ${shortResult(sanitized)}`.trimEnd();
      return [line(success ? 'dim' : 'bad', text)];
    }
    case 'step:retrying': {
      const { error, nextAttemptAt } = event.data;
      const wait = seconds(Date.parse(nextAttemptAt) - Date.parse(createdAt));
      return [line('bad', `${error.code}: ${oneLine(error.message, 200)}; the next attempt is in ${wait}`)];
    }
    case 'run:cancelling':
      return [line('bad', 'the run is being cancelled')];
    default:
      return [];
  }
}

function stepHeading({ tokens }: Progress, { step, attempt }: { step: number; attempt: number }): Piece {
  const again = attempt > 1 ? `, attempt ${attempt}` : '';
  const soFar = tokens > 0 ? ` · ${count(tokens, 'token')} so far` : '';
  return { kind: 'heading', text: `Step ${step}${again}${soFar}` };
}

/** What of a response has not been streamed: previews may be lost, the response is not. */
function restOfResponse(
  { streamed }: Progress,
  response: Readonly<{ messageId: string; content: string; reasoning?: string | undefined }>,
): Piece[] {
  const known = streamed?.messageId === response.messageId ? streamed : { text: '', reasoning: '' };
  const reasoning = known.reasoning === '' && known.text === '' ? (response.reasoning ?? '') : '';
  const text = response.content.startsWith(known.text)
    ? response.content.slice(known.text.length)
    : `\n${response.content}`;
  return [
    ...(reasoning === '' ? [] : [{ kind: 'stream', tone: 'dim', text: `thinks: ${reasoning}` } as const]),
    ...(text === '' ? [] : [{ kind: 'stream', tone: 'plain', text } as const]),
  ];
}

/** Nothing for a message that never waited: the one that started the run. */
function takenUp(queuedAt: string | undefined, dequeuedAt: string): Piece[] {
  if (queuedAt === undefined) return [];
  const waited = seconds(Date.parse(dequeuedAt) - Date.parse(queuedAt));
  return [line('good', `✉ your message was taken up after ${waited}: it is in the conversation from the next step on`)];
}

const line = (tone: Tone, text: string): Piece => ({ kind: 'line', tone, text });
