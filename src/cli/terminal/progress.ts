import type { Chunk, DurableEvent, StreamEvent } from '../../client/session-events.ts';
import { count, MAX_ERROR_CHARS, oneLine, seconds, shortArguments, shortResult, tokenChange } from './words.ts';

export type Tone = 'plain' | 'dim' | 'good' | 'bad' | 'note';

/** A piece of output. A `stream` piece continues where the one before it ended; the others are whole lines. */
export type Piece =
  | Readonly<{ kind: 'heading'; text: string }>
  | Readonly<{ kind: 'line'; tone: Tone; text: string }>
  | Readonly<{ kind: 'stream'; tone: Tone; text: string }>;

/** The part of the earlier output that decides on the next. */
export type Progress = Readonly<{
  tokens: number;
  /** The message being streamed, and whether some of it was reasoning. */
  streamed: Readonly<{ messageId: string; hasThought: boolean }> | null;
  /** When each waiting message was queued (ISO time), by id. */
  queuedAt: Readonly<Record<string, string>>;
}>;

export const NO_PROGRESS: Progress = { tokens: 0, streamed: null, queuedAt: {} };

export type Shown = Readonly<{ progress: Progress; pieces: readonly Piece[] }>;

/** An event as output for people, with the new progress. Pure. */
export function showEvent(progress: Progress, event: StreamEvent): Shown {
  switch (event.type) {
    case 'llm:chunk':
      return showChunk(progress, event.data);
    case 'step:started':
      return { progress: { ...progress, streamed: null }, pieces: [stepHeading(progress, event.data)] };
    case 'usage:updated':
      return { progress: { ...progress, tokens: progress.tokens + event.data.usage.totalTokens }, pieces: [] };
    case 'message:queued':
      return {
        progress: { ...progress, queuedAt: { ...progress.queuedAt, [event.data.id]: event.createdAt } },
        pieces: [],
      };
    case 'message:dequeued':
      return { progress, pieces: event.data.ids.flatMap((id) => takenUp(progress.queuedAt[id], event.createdAt)) };
    case 'step:reset': {
      const pieces = progress.streamed === null ? [] : [line('bad', 'the answer broke off; the step starts again')];
      return { progress: { ...progress, streamed: null }, pieces };
    }
    case 'session:snapshot':
    case 'llm:thinking':
    case 'llm:tool-input':
      return { progress, pieces: [] };
    default:
      return { progress, pieces: plainEvent(event) };
  }
}

function showChunk(progress: Progress, { messageId, chunkType, content }: Chunk): Shown {
  const latest = progress.streamed?.messageId === messageId ? progress.streamed : { messageId, hasThought: false };
  const isReasoning = chunkType === 'reasoning';
  const lead = isReasoning && !latest.hasThought ? 'thinks: ' : '';
  const streamed = { messageId, hasThought: latest.hasThought || isReasoning };
  const piece = { kind: 'stream', tone: isReasoning ? 'dim' : 'plain', text: lead + content } as const;
  return { progress: { ...progress, streamed }, pieces: [piece] };
}

/** Events whose output does not depend on earlier ones. */
function plainEvent(event: DurableEvent): Piece[] {
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
    case 'child:started':
      return [line('note', `⇢ ${event.data.agent} begins in ${event.data.sessionId}`)];
    case 'child:ended': {
      const { agent, status, steps, tokens, error: failure } = event.data;
      const why = failure === undefined ? '' : ` (${oneLine(failure.message, MAX_ERROR_CHARS)})`;
      const isGood = status === 'completed';
      const used = `${count(steps, 'step')}, ${count(tokens, 'token')}`;
      return [line(isGood ? 'good' : 'bad', `⇠ ${agent} ${status}${why} after ${used}`)];
    }
    case 'llm:file':
      return [line('note', `file ${event.data.mediaType} ${event.data.url.replace('@blob:', '')}`)];
    case 'llm:source':
      return [line('dim', `source ${oneLine([event.data.title, event.data.url].join(' '), 200)}`)];
    case 'step:retrying': {
      const { error, nextAttemptAt } = event.data;
      const wait = seconds(Date.parse(nextAttemptAt) - Date.parse(event.createdAt));
      const why = oneLine(error.message, MAX_ERROR_CHARS).replace(/\.$/, '');
      return [line('bad', `${error.code}: ${why}; the next attempt is in ${wait}`)];
    }
    case 'tools:drifted': {
      const { server, tool, change } = event.data;
      const now = change === 'gone' ? 'is gone from' : 'has changed at';
      return [line('bad', `${oneLine(tool, 64)} ${now} ${server}; baton repin accepts what it offers now`)];
    }
    case 'run:cancelling':
      return [line('bad', 'the run is being cancelled')];
    case 'run:requires-action':
    case 'child:requires-action':
      return event.data.calls.flatMap(({ id, kind, toolName, args, questions = [] }) => [
        line('note', `? ${toolName} ${shortArguments(args)} waits for ${ASKED[kind]}: ${id}`),
        ...questions.map(({ message, url }) => line('note', `  ${oneLine([message, url].join(' '), MAX_ERROR_CHARS)}`)),
      ]);
    case 'compaction:start':
      return [line('dim', `compacting the context (${count(event.data.tokensBefore, 'token')}) …`)];
    case 'compaction:failed': {
      const { code, message } = event.data.error;
      return [line('bad', `the compaction failed: ${code}: ${oneLine(message, MAX_ERROR_CHARS)}`)];
    }
    case 'context:compressed':
      return [
        line('good', `context compressed: ${tokenChange(event.data.originalTokens, event.data.compressedTokens)}`),
      ];
    case 'context:pruned':
      return [line('dim', `old tool outputs cleared: ${count(event.data.savedTokens, 'token')} saved`)];
    default:
      return [];
  }
}

const ASKED = {
  approval: 'an approval',
  output: 'its output',
  unknown_outcome: 'a word on its unknown outcome',
  input: 'an answer',
} as const;

function stepHeading({ tokens }: Progress, { step, attempt }: { step: number; attempt: number }): Piece {
  const again = attempt > 1 ? `, attempt ${attempt}` : '';
  const soFar = tokens > 0 ? ` · ${count(tokens, 'token')} so far` : '';
  return { kind: 'heading', text: `Step ${step}${again}${soFar}` };
}

/** Empty for a message that never waited: the one that started the run. */
function takenUp(queuedAt: string | undefined, dequeuedAt: string): Piece[] {
  if (queuedAt === undefined) return [];
  const waited = seconds(Date.parse(dequeuedAt) - Date.parse(queuedAt));
  return [line('good', `✉ your message was taken up after ${waited}: it is in the conversation from the next step on`)];
}

const line = (tone: Tone, text: string): Piece => ({ kind: 'line', tone, text });
