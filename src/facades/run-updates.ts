import type { ErrorRecord } from '../domain/errors.ts';
import { EVENT_SCHEMAS, type NewEvent, type SessionEvent } from '../domain/run/events.ts';
import type { IncompleteReason } from '../domain/run/run.ts';
import type { RunOutput } from '../domain/run/run-output.ts';
import type { FilePart, FinishReason, SourcePart, ToolPart, UserPart } from '../domain/transcript/message.ts';
import type { RequiredAction } from '../domain/transcript/required-action.ts';
import type { Usage } from '../domain/usage.ts';

/** The end of a run, or the reason of its pause. */
export type RunEnd = Readonly<
  | { status: 'completed'; finishReason: FinishReason }
  | { status: 'failed'; error: ErrorRecord }
  | { status: 'cancelled' }
  | { status: 'incomplete'; reason: IncompleteReason; error?: ErrorRecord | undefined }
  | { status: 'requires_action' }
  /** The message is queued, and no active run will take it up. */
  | { status: 'parked'; after: 'cancelled' | 'failed' }
>;

/** The error of a run that a limit ended. */
export const limitReached = (reason: string): Readonly<{ code: string; message: string }> => ({
  code: reason,
  message: `The run ended before it was done: ${reason}`,
});

/** Fill of the context, in tokens of the next request. */
export type ContextMeter = Readonly<{ used: number; usable: number }>;

export type EndState = Readonly<{
  usage: Usage;
  context: ContextMeter | null;
  waiting: number;
  /** The answer of the run. Null: it has not ended, or has none. */
  output: RunOutput | null;
  /** Absent: the run has not ended. */
  endedAt?: Date | undefined;
}>;

/** An update of one run, independent of any client's protocol. Updates come in order and each once; ids are public. */
export type RunUpdate = Readonly<
  /** A sign of life while nothing else happens. */
  | { kind: 'alive' }
  /** The message is queued behind an active run. */
  | { kind: 'queued'; position: number }
  | { kind: 'step-started'; step: number }
  /** The output of the step so far is void: the step is taken again. */
  | { kind: 'step-reset' }
  | { kind: 'delta'; type: 'text' | 'reasoning'; text: string }
  | { kind: 'answer-ended' }
  /**
   * A piece of a call's input as the model writes it. `tool-call` has the whole input, unless the answer breaks off.
   */
  | { kind: 'tool-input'; id: string; toolName: string; offset: number; text: string }
  | { kind: 'tool-call'; id: string; toolName: string; args: unknown }
  /** A file in the answer that has just ended. */
  | { kind: 'file'; file: FilePart }
  | { kind: 'source'; source: SourcePart }
  /** `part`: the call with its output; null: the call is gone. */
  | { kind: 'tool-result'; id: string; part: ToolPart | null }
  /**
   * `seq`: number of the event. It tells a question about a call from a later one. `childRunId`: the calls are those of a
   * run below this one, all that wait now; null: they are the run's own. `wasAnswered`: every call of the run had its
   * answer before the reader came.
   */
  | { kind: 'asked'; seq: number; calls: readonly RequiredAction[]; childRunId: string | null; wasAnswered?: boolean }
  /** The run waits for people to answer these calls, and the reader waits with it. */
  | { kind: 'waiting'; calls: readonly RequiredAction[] }
  | { kind: 'answered'; id: string; answer: 'approve' | 'deny' | 'output' | 'expired' }
  /** A message that the run took up after its beginning. */
  | { kind: 'joined'; messageId: string; parts: readonly UserPart[] }
  | { kind: 'step-completed'; finishReason: FinishReason; usage: Usage; context: ContextMeter | null }
  /** Tokens of a step, which come before its questions. */
  | { kind: 'usage'; usage: Usage }
  | { kind: 'compacting'; tokensBefore: number }
  | { kind: 'compacted'; tokensBefore: number; tokensAfter: number }
  | { kind: 'compaction-failed' }
  | { kind: 'pruned'; prunedCount: number; savedTokens: number }
  | { kind: 'ended'; end: RunEnd; state: EndState }
>;

/** An update as the event log has it, without the details that `readMore` adds. */
export type LoggedUpdate =
  | Exclude<RunUpdate, Readonly<{ kind: 'tool-result' | 'joined' | 'step-completed' | 'ended' }>>
  | Readonly<{ kind: 'tool-result'; id: string }>
  /** `parts` is left out if they are large. */
  | Readonly<{ kind: 'joined'; messageId: string; parts?: readonly UserPart[] | undefined }>
  | Omit<Extract<RunUpdate, { kind: 'step-completed' }>, 'context'>
  | Readonly<{ kind: 'ended'; end: RunEnd }>;

/** The event with its data validated; null: an event of a newer version. */
export function readEvent({ type, data }: SessionEvent): NewEvent | null {
  if (!isKnown(type)) return null;
  const parsed = EVENT_SCHEMAS[type].safeParse(data);
  return parsed.success ? ({ type, data: parsed.data } as NewEvent) : null;
}

const isKnown = (type: string): type is NewEvent['type'] => Object.hasOwn(EVENT_SCHEMAS, type);

/**
 * Reads the events of one run in their order.
 * @param hasBegun the reader has the beginning of the run, so a message taken up now is a `joined` one
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

/** Whether the message is the user's and not a summary. */
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
      return { kind: 'asked', seq, calls: event.data.calls, childRunId: null };
    case 'child:requires-action':
      return { kind: 'asked', seq, calls: event.data.calls, childRunId: event.data.childRunId };
    case 'run:answered':
      return { kind: 'answered', id: event.data.id, answer: event.data.answer };
    case 'message:created':
      return { kind: 'joined', messageId: event.data.messageId, parts: saidParts(event.data) };
    case 'step:completed':
      return { kind: 'step-completed', finishReason: event.data.finishReason, usage: event.data.usage };
    case 'usage:updated':
      return { kind: 'usage', usage: event.data.usage };
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

/** The end of the run that this event tells; null: the event ends no run. */
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
