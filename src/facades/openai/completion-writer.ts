import type { ConversationCall } from '../../domain/transcript/conversation.ts';
import type { SourcePart } from '../../domain/transcript/message.ts';
import { isOfClient } from '../../domain/transcript/plan-conversation.ts';
import type { RequiredAction } from '../../domain/transcript/required-action.ts';
import { NO_USAGE, type Usage } from '../../domain/usage.ts';
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
  /** Usage of the whole run so far. */
  usage: Usage;
}>;

export type CompletionPiece = Readonly<
  { kind: 'text'; text: string } | { kind: 'comment'; comment: string } | { kind: 'end'; completion: Completion }
>;

/** Stands between the texts of two steps, which are one text here. */
const STEP_SEPARATOR = '\n\n';

/**
 * Turns a run's updates into one completion, without the calls that the service runs itself. Sent text cannot be taken
 * back, so a retried step sends only the text beyond its last attempt's, or all of it if it begins differently.
 * @param showsCompaction whether compactions appear in the text
 * @param open required actions that the run has already
 * @param isJson the client asked for JSON: the text is only the result, at the end, without the text of earlier steps
 */
export function createCompletionWriter(
  showsCompaction: boolean,
  open: readonly RequiredAction[] = [],
  isJson = false,
): (update: RunUpdate) => CompletionPiece[] {
  let asked = open.filter(isOfClient);
  let told = '';
  let stepNo = 0;
  let isNewStep = false;
  const citations: Citation[] = [];
  /** Position in the whole text at which the text of the step begins. */
  let stepAt = 0;
  /** Text of this attempt at the step; text of the step that was sent. */
  let attempt = '';
  let shown = '';

  const tell = (text: string): CompletionPiece[] => {
    if (text === '') return [];
    const separator = isNewStep && told !== '' ? STEP_SEPARATOR : '';
    if (isNewStep) stepAt = told.length + separator.length;
    isNewStep = false;
    told += separator + text;
    return [{ kind: 'text', text: separator + text }];
  };
  const grow = (text: string): CompletionPiece[] => {
    attempt += text;
    if (shown.startsWith(attempt)) return [];
    const isLonger = attempt.startsWith(shown);
    const news = isLonger ? attempt.slice(shown.length) : attempt;
    isNewStep ||= !isLonger;
    shown = attempt;
    return tell(news);
  };
  // The provider's positions of a source are not known here, so it is cited for the whole text of the step.
  const cite = ({ url, title }: SourcePart): void => {
    if (url === undefined) return;
    const startIndex = isNewStep ? told.length : stepAt;
    citations.push({ url, title: title ?? url, startIndex, endIndex: told.length });
  };
  const notice = (text: string): CompletionPiece[] => {
    isNewStep = true;
    const pieces = tell(text);
    isNewStep = true;
    return pieces;
  };

  const end = ({ end: how, state }: Extract<RunUpdate, { kind: 'ended' }>): CompletionPiece[] => {
    const ended = outcomeOf(how);
    const result = isJson && ended.error === null ? tell(jsonOf(state.output)) : [];
    const calls = ended.finishReason === 'tool_calls' ? asked.map(toCall) : [];
    return [...result, { kind: 'end', completion: { text: told, citations, calls, ...ended, usage: state.usage } }];
  };
  const say = ({ type, text }: Extract<RunUpdate, { kind: 'delta' }>): CompletionPiece[] =>
    type === 'text' && !isJson ? grow(text) : [];

  return (update) => {
    switch (update.kind) {
      case 'alive':
        return [{ kind: 'comment', comment: 'keep-alive' }];
      case 'queued':
        return [{ kind: 'comment', comment: `queued position=${update.position}` }];
      case 'step-started':
        attempt = '';
        if (update.step === stepNo) return [];
        stepNo = update.step;
        shown = '';
        isNewStep = true;
        return [];
      case 'step-reset':
        attempt = '';
        return [];
      case 'delta':
        return say(update);
      case 'source':
        cite(update.source);
        return [];
      case 'asked':
        if (update.childRunId === null) asked = update.calls.filter(isOfClient);
        return [];
      case 'answered':
        asked = asked.filter(({ id }) => id !== update.id);
        return [];
      case 'compacting':
        if (showsCompaction) return notice('⚙️ Compacting…');
        return [{ kind: 'comment', comment: `compacting tokensBefore=${update.tokensBefore}` }];
      case 'compacted': {
        const { tokensBefore, tokensAfter } = update;
        if (showsCompaction) return notice(`✅ Compacted: ${tokensBefore} → ${tokensAfter} tokens`);
        return [{ kind: 'comment', comment: `compacted tokensBefore=${tokensBefore} tokensAfter=${tokensAfter}` }];
      }
      case 'pruned':
        return [{ kind: 'comment', comment: `pruned count=${update.prunedCount} savedTokens=${update.savedTokens}` }];
      case 'ended':
        return end(update);
      default:
        return [];
    }
  };
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

/** The usage of a run without the part that was reported before. */
export function usageSince(usage: Usage, before: Usage = NO_USAGE) {
  const prompt = usage.inputTokens - before.inputTokens;
  const completion = usage.outputTokens - before.outputTokens;
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: { cached_tokens: usage.cacheReadTokens - before.cacheReadTokens },
    completion_tokens_details: { reasoning_tokens: usage.reasoningTokens - before.reasoningTokens },
  };
}
