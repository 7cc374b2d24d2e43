import type { ErrorCode } from '../errors.ts';

export type ProviderErrorClass = Extract<
  ErrorCode,
  | 'auth'
  | 'byte_overflow'
  | 'content_policy'
  | 'input_overflow'
  | 'invalid_request'
  | 'malformed_history'
  | 'model_unavailable'
  | 'output_reserve_overflow'
  | 'overloaded'
  | 'quota'
  | 'rate_limited'
  | 'silent_truncation'
  | 'timeout'
  | 'tools_unsupported'
  | 'transport'
>;

export type ProviderErrorRule = Readonly<{
  class: ProviderErrorClass;
  status?: readonly number[];
  /** Any of the error's codes, lower case. */
  code?: RegExp;
  text?: RegExp;
  /** The text counts only with one of these statuses; null: an error without one, as inside a stream. */
  textWithin?: readonly (number | null)[];
}>;

/** Statuses of a request that was refused for its content. Only with these does a text name the fault. */
export const REFUSALS: readonly (number | null)[] = [400, 413, 422, null];

/**
 * Rules that come before the texts of overflows: codes, which no prompt quotes by accident, and rates and quotas, whose
 * texts speak of tokens too. The first match wins; within a rule any of its patterns is enough.
 */
export const RULES_BEFORE_OVERFLOW: readonly ProviderErrorRule[] = [
  // OpenAI: 429 with this code means an empty account, so that waiting does not help.
  { class: 'quota', status: [402], code: /^(?:insufficient_quota|usage_not_included|billing_error)$/ },
  {
    class: 'input_overflow',
    // 1261 is Zhipu's; LiteLLM names the class of its exception.
    code: /^(?:context_length_exceeded|model_context_window_exceeded|exceed_context_size_error|model_max_prompt_tokens_exceeded|contextwindowexceedederror|1261)$/,
  },
  // Bedrock throttles with "Too many tokens, please wait", which is no overflow.
  {
    class: 'rate_limited',
    status: [429],
    code: /^(?:rate_?limit|throttl|too_?many_?requests|resource_?exhausted)/,
    text: /\brate[\s_-]?limit|too many requests|\bper[\s_-]?(?:sec(?:ond)?|min(?:ute)?|hour|day)\b|throttl|too many tokens, please wait/i,
    textWithin: [...REFUSALS, 503, 529],
  },
  {
    class: 'quota',
    text: /insufficient (?:quota|balance|credits?|funds)|credit balance is too low|used all available credits|\bquota\b/i,
    textWithin: [...REFUSALS, 403],
  },
  // Groq: the model wrote a call that is none. It may write the next one right.
  { class: 'transport', code: /^tool_use_failed$/ },
  { class: 'byte_overflow', code: /^(?:request_too_large|payload_too_large)$/ },
  { class: 'content_policy', code: /^(?:content_policy_violation|content_filter|invalid_prompt)$/ },
  { class: 'auth', code: /^(?:invalid_api_key|authentication_error|permission_error)$/ },
  { class: 'model_unavailable', code: /^(?:model_not_found|not_found_error)$/ },
  // A wrong parameter, for which a shorter history is no help. The text quotes the parameter's value.
  {
    class: 'invalid_request',
    code: /^(?:string_above_max_length|(?:unsupported|unknown|missing_required)_parameter|unsupported_value|invalid_type|invalid_function_parameters)$/,
  },
];

/** Names of errors with which a provider's package refuses to make a request. */
export const NO_REQUEST_NAMES: readonly string[] = [
  'AI_UnsupportedFunctionalityError',
  'AI_InvalidArgumentError',
  'AI_InvalidPromptError',
  'AI_InvalidDataContentError',
  'AI_InvalidMessageRoleError',
  'AI_MessageConversionError',
  'AI_LoadAPIKeyError',
  'AI_LoadSettingError',
  'AI_NoSuchModelError',
  'AI_NoSuchProviderReferenceError',
];

const NO_REQUEST_CODES = NO_REQUEST_NAMES.map((name) => name.toLowerCase());

/** Whether no request was made. The same one would be refused again. */
export const isBeforeRequest = (codes: readonly string[]): boolean =>
  codes.some((code) => NO_REQUEST_CODES.includes(code));

/** Rules that come after the texts of overflows: faults of the history, and last the status alone. */
export const RULES_AFTER_OVERFLOW: readonly ProviderErrorRule[] = [
  {
    class: 'malformed_history',
    text: new RegExp(
      [
        // OpenAI Responses, OpenAI chat and its likes
        'no tool output found|no tool call found|must be followed by tool messages|must be a response to a prec\\w+ message',
        'without its required (?:\\W?reasoning\\W? item|following item)',
        // Anthropic
        'tool_use.{0,80}without.{0,80}tool_result|unexpected `tool_use_id`|must have a corresponding `tool_use`',
        'first message must use the .?user|roles must alternate|must have non-empty content|content blocks must be non-empty',
        'does not support assistant message prefill|invalid `signature` in `thinking`|expected `thinking` or `redacted_thinking`',
        // Bedrock, Google, Mistral
        'expected toolresult blocks|number of toolresult blocks',
        'function call turn comes immediately after|number of function response parts|missing a thought_signature',
        'unexpected role .{1,20} after role|not the same number of function calls and responses',
        // The SDK refuses the request before it is sent.
        'tool results? (?:is|are) missing for tool calls?',
      ].join('|'),
      'i',
    ),
    textWithin: [400, 422, null],
  },
  { class: 'invalid_request', code: new RegExp(`^(?:${NO_REQUEST_CODES.join('|')})$`) },
  { class: 'auth', status: [401, 403] },
  // The request has too many bytes, unless a text has named tokens.
  { class: 'byte_overflow', status: [413] },
  { class: 'timeout', status: [408, 504] },
  { class: 'overloaded', status: [503, 529], code: /^(?:overloaded_error|server_is_overloaded|slow_down)$/ },
  { class: 'transport', status: [409, 500, 502], code: /^(?:server_error|api_error|internal_error)$/ },
  { class: 'model_unavailable', status: [404] },
  { class: 'invalid_request', status: [400, 405, 415, 422] },
];
