import type { ConversationCall } from '../../domain/transcript/conversation.ts';
import type { SourcePart } from '../../domain/transcript/message.ts';
import { isOfClient } from '../../domain/transcript/plan-conversation.ts';
import type { RequiredAction } from '../../domain/transcript/required-action.ts';
import { addUsage, NO_USAGE, type Usage } from '../../domain/usage.ts';
import type { EndState, RunEnd, RunUpdate } from '../run-updates.ts';

/** A page that the text between two characters is based on. */
type Citation = Readonly<{ url: string; title: string; startIndex: number; endIndex: number }>;

export type Completion = Readonly<{
  text: string;
  citations: readonly Citation[];
  calls: readonly ConversationCall[];
  /** Null if the run failed. */
  finishReason: 'stop' | 'length' | 'tool_calls' | 'content_filter' | null;
  error: Readonly<{ code: string; message: string }> | null;
  /** Usage of the steps of this answer alone. */
  usage: Usage;
  /** When the run ended, or asked for the client's results. Absent: unknown. */
  endedAt?: Date | undefined;
}>;

export type CompletionPiece = Readonly<
  | { kind: 'text'; text: string }
  | { kind: 'comment'; comment: string }
  /** The run waits for people, and says so. */
  | { kind: 'waiting'; message: string; calls: readonly RequiredAction[] }
  | { kind: 'end'; completion: Completion }
>;

/** Stands between the texts of two steps, which are one text here. */
const STEP_SEPARATOR = '\n\n';

/** The text of an answer, which is that of its steps one after the other. */
function createAnswerText() {
  let text = '';
  let isNewStep = false;
  let stepNo = 0;
  /** Position in the whole text at which the text of the step begins. */
  let stepAt = 0;
  /** Text of this attempt at the step; text of the step that was sent. */
  let attempt = '';
  let sent = '';
  const citations: Citation[] = [];

  const append = (part: string): CompletionPiece[] => {
    if (part === '') return [];
    const separator = isNewStep && text !== '' ? STEP_SEPARATOR : '';
    if (isNewStep) stepAt = text.length + separator.length;
    isNewStep = false;
    text += separator + part;
    return [{ kind: 'text', text: separator + part }];
  };
  return {
    text: () => text,
    citations: citations as readonly Citation[],
    append,
    beginAttempt(step: number): void {
      attempt = '';
      if (step === stepNo) return;
      stepNo = step;
      sent = '';
      isNewStep = true;
    },
    dropAttempt(): void {
      attempt = '';
    },
    extendAttempt(delta: string): CompletionPiece[] {
      attempt += delta;
      if (sent.startsWith(attempt)) return [];
      const isLonger = attempt.startsWith(sent);
      const rest = isLonger ? attempt.slice(sent.length) : attempt;
      isNewStep ||= !isLonger;
      sent = attempt;
      return append(rest);
    },
    // The provider's positions of a source are not known here, so it is cited for the whole text of the step.
    addCitation({ url, title }: SourcePart): void {
      if (url === undefined) return;
      const startIndex = isNewStep ? text.length : stepAt;
      citations.push({ url, title: title ?? url, startIndex, endIndex: text.length });
    },
    addNotice(notice: string): CompletionPiece[] {
      isNewStep = true;
      const pieces = append(notice);
      isNewStep = true;
      return pieces;
    },
  };
}

type CompletionWriterOptions = Readonly<{
  /** Compactions appear in the text. */
  showsCompaction: boolean;
  /** Required actions that the run has already. */
  openActions: readonly RequiredAction[];
  /** The client asked for JSON: the text is only the result, at the end, without the text of earlier steps. */
  isJson: boolean;
}>;

/**
 * Turns a run's updates into one completion, without the calls that the service runs itself. Sent text cannot be taken
 * back, so a retried step sends only the text beyond its last attempt's, or all of it if it begins differently.
 */
export function createCompletionWriter({
  showsCompaction,
  openActions,
  isJson,
}: CompletionWriterOptions): (update: RunUpdate) => CompletionPiece[] {
  const answer = createAnswerText();
  let openCalls = openActions.filter(isOfClient);
  let usage = NO_USAGE;

  const end = ({ end: runEnd, state }: Extract<RunUpdate, { kind: 'ended' }>): CompletionPiece[] => {
    const outcome = outcomeOf(runEnd);
    const result = isJson && outcome.error === null ? answer.append(jsonOf(state.output)) : [];
    const calls = outcome.finishReason === 'tool_calls' ? openCalls.map(toCall) : [];
    const { citations } = answer;
    const completion = { text: answer.text(), citations, calls, ...outcome, usage, endedAt: state.endedAt };
    return [...result, { kind: 'end', completion }];
  };
  return (update) => {
    switch (update.kind) {
      case 'step-started':
        answer.beginAttempt(update.step);
        return [];
      case 'step-reset':
        answer.dropAttempt();
        return [];
      case 'delta':
        return update.type === 'text' && !isJson ? answer.extendAttempt(update.text) : [];
      case 'usage':
        usage = addUsage(usage, update.usage);
        return [];
      case 'source':
        answer.addCitation(update.source);
        return [];
      case 'asked':
        if (update.childRunId === null) openCalls = update.calls.filter(isOfClient);
        return [];
      case 'waiting':
        return [{ kind: 'waiting', message: wordsOf(update.calls), calls: update.calls }];
      case 'answered':
        openCalls = openCalls.filter(({ id }) => id !== update.id);
        return [];
      case 'compacting':
      case 'compacted':
        return showsCompaction ? answer.addNotice(noticeOf(update)) : commentOn(update);
      case 'ended':
        return end(update);
      default:
        return commentOn(update);
    }
  };
}

type Compacting = Extract<RunUpdate, { kind: 'compacting' | 'compacted' }>;

const noticeOf = (update: Compacting): string =>
  update.kind === 'compacting'
    ? '⚙️ Compacting…'
    : `✅ Compacted: ${update.tokensBefore} → ${update.tokensAfter} tokens`;

/** At most this many calls are named. */
const NAMED_CALLS = 5;

function wordsOf(calls: readonly RequiredAction[]): string {
  const named = calls.slice(0, NAMED_CALLS).map(({ toolName, id }) => `${toolName} (${id})`);
  const more = calls.length > NAMED_CALLS ? ` and ${calls.length - NAMED_CALLS} more` : '';
  return `The run waits for a person to answer its calls: ${named.join(', ')}${more}. GET /v1/inbox lists them; the console answers them, and so does POST /v1/runs/{run}/tool-calls/{call}`;
}

/** An update for which the protocol has no field, as a comment of the stream. */
function commentOn(update: RunUpdate): CompletionPiece[] {
  const comment = (text: string): CompletionPiece[] => [{ kind: 'comment', comment: text }];
  switch (update.kind) {
    case 'alive':
      return comment('keep-alive');
    case 'queued':
      return comment(`queued position=${update.position}`);
    case 'compacting':
      return comment(`compacting tokensBefore=${update.tokensBefore}`);
    case 'compacted':
      return comment(`compacted tokensBefore=${update.tokensBefore} tokensAfter=${update.tokensAfter}`);
    case 'pruned':
      return comment(`pruned count=${update.prunedCount} savedTokens=${update.savedTokens}`);
    default:
      return [];
  }
}

/** The result as the model wrote it, if its text is JSON alone. A run without a result gives its text. */
function jsonOf(output: EndState['output']): string {
  if (output === null) return '';
  return output.value === undefined || isJsonText(output.text) ? output.text : JSON.stringify(output.value);
}

function isJsonText(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

const toCall = ({ id, toolName: name, args }: RequiredAction): ConversationCall => ({
  id,
  name,
  args: JSON.stringify(args),
});

function outcomeOf(end: RunEnd): Pick<Completion, 'finishReason' | 'error'> {
  switch (end.status) {
    case 'requires_action':
      return { finishReason: 'tool_calls', error: null };
    case 'completed': {
      const { finishReason } = end;
      if (finishReason === 'content-filter') return { finishReason: 'content_filter', error: null };
      return { finishReason: finishReason === 'length' ? 'length' : 'stop', error: null };
    }
    case 'incomplete':
      if (end.error !== undefined) return { finishReason: null, error: end.error };
      return { finishReason: 'length', error: null };
    case 'failed':
      return { finishReason: null, error: end.error };
    case 'cancelled':
      return { finishReason: null, error: { code: 'cancelled', message: 'The run was cancelled' } };
    case 'parked':
      return {
        finishReason: null,
        error: { code: 'parked', message: 'The message waits in the queue of its session' },
      };
  }
}
