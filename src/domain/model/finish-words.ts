/** How a provider ended its answer. `broken`: its own word says that the answer failed or stopped in the middle. */
export type FinishKind = 'stop' | 'tool-calls' | 'length' | 'content-filter' | 'broken';

/**
 * The words with which providers end an answer, by their meaning: lower case, with `_` between words. Gateways mix the
 * words of all protocols.
 */
export const FINISH_WORDS: Readonly<Record<FinishKind, readonly string[]>> = {
  stop: [
    'stop',
    'stopped',
    'end',
    'ended',
    'eos',
    'eos_token',
    'end_turn',
    'end_of_turn',
    'end_of_text',
    'stop_sequence',
    'stop_word',
    'stop_words',
    'stop_token',
    'complete',
    'completed',
    'completion',
    'done',
    'finish',
    'finished',
    'normal',
    'success',
    'succeeded',
  ],
  'tool-calls': [
    'tool_calls',
    'tool_call',
    'tool_use',
    'tool_uses',
    'tools',
    'tool',
    'function_call',
    'function_calls',
    'function',
  ],
  length: [
    'length',
    'max_tokens',
    'max_token',
    'max_length',
    'max_output_tokens',
    'max_completion_tokens',
    'max_new_tokens',
    'max_tokens_reached',
    'model_length',
    'token_limit',
    'token_limit_reached',
    'output_limit',
    'context_length',
    'context_length_exceeded',
    'context_window_exceeded',
    'model_context_window_exceeded',
    'incomplete',
    'truncated',
  ],
  'content-filter': [
    'content_filter',
    'content_filtered',
    'content_filter_results',
    'safety',
    'image_safety',
    'recitation',
    'image_recitation',
    'blocklist',
    'blocked',
    'prohibited_content',
    'image_prohibited_content',
    'spii',
    'refusal',
    'refused',
    'sensitive',
    'guardrail_intervened',
    'policy_violation',
    'error_toxic',
  ],
  broken: [
    'error',
    'errored',
    'failed',
    'failure',
    'abort',
    'aborted',
    'cancel',
    'cancelled',
    'canceled',
    'interrupted',
    'timeout',
    'timed_out',
    'network_error',
    'server_error',
    'internal_error',
    'overloaded',
    'insufficient_system_resource',
    'malformed_function_call',
    'malformed_response',
    'unexpected_tool_call',
    'too_many_tool_calls',
    'missing_thought_signature',
  ],
};

const KINDS = new Map(
  (Object.keys(FINISH_WORDS) as FinishKind[]).flatMap((kind) =>
    FINISH_WORDS[kind].map((word) => [word, kind] as const),
  ),
);

/** The end of a stream of chat completions, which is its reason where no chunk has given one. */
export const DONE = '[DONE]';

/** The meaning of a finish word in any spelling (`MAX_TOKENS`, `FinishReason.STOP`, `endTurn`). Null: unknown. */
function finishKindOf(word: string): FinishKind | null {
  const spelled = word
    .trim()
    .replaceAll(/([a-z])([A-Z])/g, '$1_$2')
    .toLowerCase()
    .replaceAll(/[\s.:-]+/g, '_')
    .replace(/^(?:(?:finish|stop)_?reason_)+/, '');
  return KINDS.get(spelled) ?? null;
}

/** What a stream has said until its end. */
export type HeardAnswer = Readonly<{
  /** The provider's word. Null: none, or an empty one. */
  word: string | null;
  /** The meaning that the provider's package gives to the word. Null: it knows none. */
  mapped: FinishKind | null;
  hasText: boolean;
  calls: number;
  /** The arguments of all calls are JSON. */
  areCallsWhole: boolean;
}>;

export type Finish = Readonly<
  | { kind: 'whole'; reason: 'stop' | 'tool-calls' | 'length' | 'content-filter' | 'other' }
  | { kind: 'broken'; why: string }
>;

/**
 * Whether an answer that reached the protocol's own end is whole, and why it ended. A word decides if it is known. An
 * unknown word, or an end without a word, is an end of what is there: calls, or else text.
 */
export function judgeFinish({ word, mapped, hasText, calls, areCallsWhole }: HeardAnswer): Finish {
  const isDone = word === DONE;
  const kind = (word === null || isDone ? null : finishKindOf(word)) ?? mapped;
  if (kind === 'broken') return { kind: 'broken', why: `the provider ended its answer with \`${word}\`` };
  if (kind === 'length' || kind === 'content-filter') return { kind: 'whole', reason: kind };
  if (kind === null && calls > 0 && !areCallsWhole) {
    return { kind: 'broken', why: `the answer ended (${word ?? 'no finish reason'}) within the arguments of a call` };
  }
  if (calls > 0) return { kind: 'whole', reason: 'tool-calls' };
  if (kind !== null) return { kind: 'whole', reason: 'stop' };
  if (isDone && !hasText)
    return { kind: 'broken', why: 'the answer ended without content and without a finish reason' };
  return { kind: 'whole', reason: word === null || isDone ? 'stop' : 'other' };
}

/** The beginnings of calls that models write as text where their server does not read them. */
const WRITTEN_CALLS =
  /^\s*(?:<tool_calls?>|<\|?tool[_▁]calls?(?:[_▁](?:section[_▁])?begin)?\|?>|<function(?:=|_calls?>)|\[TOOL_CALLS\]|<\|python_tag\|>|<｜tool▁calls▁begin｜>)/u;

/**
 * Whether a whole text is a call of one of the tools in a model's own markup, which its server should have read. An
 * answer that only speaks of such markup begins with words.
 */
export function isWrittenCall(text: string, tools: readonly string[]): boolean {
  return WRITTEN_CALLS.test(text) && tools.some((name) => text.includes(name));
}
