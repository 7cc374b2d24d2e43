import type { ErrorRecord } from '../domain/errors.ts';
import { EVENT_SCHEMAS, type NewEvent, type SessionEvent } from '../domain/run/events.ts';
import type { IncompleteReason } from '../domain/run/run.ts';
import type { FilePart, FinishReason, SourcePart, ToolPart, UserPart } from '../domain/transcript/message.ts';
import type { RequiredAction } from '../domain/transcript/required-action.ts';
import type { Usage } from '../domain/usage.ts';

/** How a run ended, or why nothing more of it comes for now. */
export type RunEnd = Readonly<
  | { status: 'completed'; finishReason: FinishReason }
  | { status: 'failed'; error: ErrorRecord }
  | { status: 'cancelled' }
  | { status: 'incomplete'; reason: IncompleteReason; error?: ErrorRecord | undefined }
  /** It waits for answers. */
  | { status: 'requires_action' }
  /** The message waits in the queue, and nothing is at work that would take it up. */
  | { status: 'parked'; after: 'cancelled' | 'failed' }
>;

/** The error of a run that a limit has ended. */
export const limitReached = (reason: string): Readonly<{ code: string; message: string }> => ({
  code: reason,
  message: `The run ended before it was done: ${reason}`,
});

/** How full the context is, in tokens of the next request. */
export type ContextMeter = Readonly<{ used: number; usable: number }>;

/** What a session is at when a run has ended. */
export type EndState = Readonly<{ usage: Usage; context: ContextMeter | null; waiting: number }>;

/** What happens in one run, in order and each once, in terms that no client's protocol knows of. Ids are public. */
export type RunUpdate = Readonly<
  /** Nothing for a while. */
  | { kind: 'alive' }
  /** The message waits behind a run that is at work. */
  | { kind: 'queued'; position: number }
  | { kind: 'step-started'; step: number }
  /** What was shown of the step is void: it is taken again. */
  | { kind: 'step-reset' }
  | { kind: 'delta'; type: 'text' | 'reasoning'; text: string }
  /** The model's answer is whole. */
  | { kind: 'answer-ended' }
  /** A piece of a call's input while the model writes it; `tool-call` comes with the whole, if it gets so far. */
  | { kind: 'tool-input'; id: string; toolName: string; offset: number; text: string }
  | { kind: 'tool-call'; id: string; toolName: string; args: unknown }
  /** In the answer that has just ended. */
  | { kind: 'file'; file: FilePart }
  | { kind: 'source'; source: SourcePart }
  /** `part` is the call with its output; null: it is gone. */
  | { kind: 'tool-result'; id: string; part: ToolPart | null }
  /** `seq`: the number of the event, by which one question about a call is told from a later one. */
  | { kind: 'asked'; seq: number; calls: readonly RequiredAction[] }
  | { kind: 'answered'; id: string; answer: 'approve' | 'deny' | 'output' | 'expired' }
  /** A message that joined the run after its beginning. */
  | { kind: 'joined'; messageId: string; parts: readonly UserPart[] }
  | { kind: 'step-completed'; finishReason: FinishReason; usage: Usage; context: ContextMeter | null }
  | { kind: 'compacting'; tokensBefore: number }
  | { kind: 'compacted'; tokensBefore: number; tokensAfter: number }
  | { kind: 'compaction-failed' }
  | { kind: 'pruned'; prunedCount: number; savedTokens: number }
  | { kind: 'ended'; end: RunEnd; state: EndState }
>;

/** An update as the event log has it: what is read besides, where it is passed on, is left out. */
export type LoggedUpdate =
  | Exclude<RunUpdate, Readonly<{ kind: 'tool-result' | 'joined' | 'step-completed' | 'ended' }>>
  | Readonly<{ kind: 'tool-result'; id: string }>
  /** Without the parts where they are large. */
  | Readonly<{ kind: 'joined'; messageId: string; parts?: readonly UserPart[] | undefined }>
  | Omit<Extract<RunUpdate, { kind: 'step-completed' }>, 'context'>
  | Readonly<{ kind: 'ended'; end: RunEnd }>;

/** The event with its data as its name promises; null: of a newer version. */
export function readEvent({ type, data }: SessionEvent): NewEvent | null {
  if (!isKnown(type)) return null;
  const parsed = EVENT_SCHEMAS[type].safeParse(data);
  return parsed.success ? ({ type, data: parsed.data } as NewEvent) : null;
}

const isKnown = (type: string): type is NewEvent['type'] => Object.hasOwn(EVENT_SCHEMAS, type);

/**
 * Reads the events of one run in their order.
 * @param hasBegun the reader knows the beginning of the run: a message that it takes up now joins it
 */
export function createEventReader(hasBegun: boolean): (event: NewEvent, seq: number) => LoggedUpdate[] {
  let begun = hasBegun;
  return (event, seq) => {
    if (event.type === 'step:started') begun = true;
    if (event.type === 'message:created' && (!begun || !joins(event.data))) return [];
    const update = toUpdate(event, seq);
    return update === null ? [] : [update];
  };
}

type Created = Extract<NewEvent, { type: 'message:created' }>['data'];

/** Said by the user, and not written by a compaction. */
const joins = ({ role, isSummary }: Created): boolean => role === 'user' && isSummary !== true;

function toUpdate(event: NewEvent, seq: number): LoggedUpdate | null {
  switch (event.type) {
    case 'step:started':
      return { kind: 'step-started', step: event.data.step };
    case 'step:reset':
      return { kind: 'step-reset' };
    case 'llm:response':
      return { kind: 'answer-ended' };
    case 'llm:tool-call':
      return { kind: 'tool-call', id: event.data.id, toolName: event.data.toolName, args: event.data.args };
    case 'llm:file': {
      const { messageId: _, ...file } = event.data;
      return { kind: 'file', file: { type: 'file', ...file } };
    }
    case 'llm:source': {
      const { messageId: _, ...source } = event.data;
      return { kind: 'source', source: { type: 'source', ...source } };
    }
    case 'llm:tool-result':
      return { kind: 'tool-result', id: event.data.id };
    case 'run:requires-action':
      return { kind: 'asked', seq, calls: event.data.calls };
    case 'run:answered':
      return { kind: 'answered', id: event.data.id, answer: event.data.answer };
    case 'message:created':
      return { kind: 'joined', messageId: event.data.messageId, parts: saidParts(event.data) };
    case 'step:completed':
      return { kind: 'step-completed', finishReason: event.data.finishReason, usage: event.data.usage };
    case 'compaction:start':
      return { kind: 'compacting', tokensBefore: event.data.tokensBefore };
    case 'compaction:complete':
      return { kind: 'compacted', tokensBefore: event.data.tokensBefore, tokensAfter: event.data.tokensAfter };
    case 'compaction:failed':
      return { kind: 'compaction-failed' };
    case 'prune:complete':
      return { kind: 'pruned', prunedCount: event.data.prunedCount, savedTokens: event.data.savedTokens };
    default:
      return endOf(event);
  }
}

const saidParts = ({ parts }: Created): readonly UserPart[] | undefined =>
  parts?.filter((part) => part.type !== 'compaction');

function endOf(event: NewEvent): LoggedUpdate | null {
  const end = runEndOf(event);
  return end === null ? null : { kind: 'ended', end };
}

/** How this event ends its run; null: it does not. */
export function runEndOf(event: NewEvent): RunEnd | null {
  switch (event.type) {
    case 'run:completed':
      return { status: 'completed', finishReason: event.data.finishReason };
    case 'run:failed':
      return { status: 'failed', error: event.data.error };
    case 'run:cancelled':
      return { status: 'cancelled' };
    case 'run:incomplete':
      return { status: 'incomplete', reason: event.data.reason, error: event.data.error };
    default:
      return null;
  }
}
