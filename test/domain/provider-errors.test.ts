import { describe, expect, it } from 'vitest';
import {
  type ProviderErrorClass,
  type ProviderErrorRule,
  RULES_AFTER_OVERFLOW,
  RULES_BEFORE_OVERFLOW,
} from '../../src/domain/model/provider-error-rules.ts';
import {
  judgeProviderError,
  PROVIDER_ERROR_MESSAGES,
  providerErrorMessage,
} from '../../src/domain/model/provider-errors.ts';

type Shown = Readonly<{ status?: number | null; code?: string; text?: string }>;

const classify = ({ status = null, code = '', text = '' }: Shown): ProviderErrorClass => {
  const [codes, texts] = [[code], [text]].map((all) => all.filter((one) => one !== ''));
  return judgeProviderError({ status, codes: codes ?? [], texts: texts ?? [], host: '', isEmpty: false }).class;
};

const ROWS: readonly (readonly [ProviderErrorClass, string, Shown])[] = [
  ['quota', 'an empty account', { status: 429, code: 'insufficient_quota', text: 'You exceeded your current quota' }],
  ['quota', 'a plan without this use', { status: 429, code: 'usage_not_included' }],
  ['quota', 'an unpaid account', { status: 402, text: 'Insufficient Balance' }],
  [
    'transport',
    'Groq, a call that is none',
    { status: 400, code: 'tool_use_failed', text: 'Failed to call a function.' },
  ],
  ['input_overflow', 'a code', { status: 400, code: 'context_length_exceeded', text: '' }],
  ['input_overflow', 'a code', { code: 'model_context_window_exceeded' }],
  ['input_overflow', 'a code of llama.cpp', { status: 400, code: 'exceed_context_size_error' }],
  ['input_overflow', 'a code of Copilot', { status: 400, code: 'model_max_prompt_tokens_exceeded' }],
  ['rate_limited', 'a status', { status: 429 }],
  ['rate_limited', 'a code in the stream', { code: 'rate_limit_error' }],
  ['rate_limited', 'a text in the stream', { text: 'Too Many Requests' }],
  ['rate_limited', 'a throttling code', { status: 400, code: 'throttlingexception' }],
  ['malformed_history', 'OpenAI', { status: 400, text: 'No tool output found for function call call_abc.' }],
  ['malformed_history', 'OpenAI', { status: 400, text: 'No tool call found for function call output with call_id x.' }],
  [
    'invalid_request',
    'a package that makes no request',
    { code: 'ai_unsupportedfunctionalityerror', text: "'propertyNames: true' functionality not supported." },
  ],
  [
    'malformed_history',
    'OpenAI chat and Kimi',
    {
      status: 400,
      text: "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.",
    },
  ],
  [
    'malformed_history',
    'Anthropic',
    {
      status: 400,
      code: 'invalid_request_error',
      text: 'messages.2: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1',
    },
  ],
  [
    'malformed_history',
    'Anthropic, the other way round',
    { status: 400, text: 'messages.0.content.1: unexpected `tool_use_id` found in `tool_result` blocks: toolu_1.' },
  ],
  [
    'malformed_history',
    'Anthropic, an answer at the end',
    { status: 400, text: 'This model does not support assistant message prefill.' },
  ],
  [
    'malformed_history',
    'Anthropic, nothing in a message',
    { status: 400, text: 'messages.3: all messages must have non-empty content except for the optional final one' },
  ],
  [
    'malformed_history',
    'OpenAI chat, a result without a call',
    {
      status: 400,
      text: "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
    },
  ],
  [
    'malformed_history',
    'OpenAI, reasoning that lost its call',
    {
      status: 400,
      text: "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
    },
  ],
  [
    'malformed_history',
    'Bedrock',
    { status: 400, text: 'Expected toolResult blocks at messages.2.content for the following Ids: tooluse_1' },
  ],
  [
    'malformed_history',
    'Bedrock, too many results',
    {
      status: 400,
      text: 'The number of toolResult blocks at messages.2.content exceeds the number of toolUse blocks of previous turn.',
    },
  ],
  [
    'malformed_history',
    'Google',
    {
      status: 400,
      text: 'Please ensure that function call turn comes immediately after a user turn or after a function response turn.',
    },
  ],
  ['malformed_history', 'Mistral', { status: 400, text: "Unexpected role 'user' after role 'tool'" }],
  ['malformed_history', 'the SDK itself', { text: 'Tool result is missing for tool call call_1.' }],
  ['content_policy', 'a code', { status: 400, code: 'content_policy_violation' }],
  ['content_policy', 'Azure', { status: 400, code: 'content_filter' }],
  ['auth', 'a status', { status: 401, text: 'Incorrect API key provided' }],
  ['auth', 'a status', { status: 403 }],
  ['auth', 'a code in the stream', { code: 'authentication_error' }],
  ['model_unavailable', 'a code', { status: 400, code: 'model_not_found' }],
  ['model_unavailable', 'Anthropic', { status: 404, code: 'not_found_error', text: 'model: claude-none' }],
  ['byte_overflow', 'a status', { status: 413 }],
  ['byte_overflow', 'Anthropic', { code: 'request_too_large', text: 'Request exceeds the maximum size' }],
  ['quota', 'Anthropic', { status: 400, text: 'Your credit balance is too low to access the Anthropic API.' }],
  ['invalid_request', 'a code', { status: 400, code: 'string_above_max_length', text: 'prompt is too long' }],
  ['timeout', 'a status', { status: 408 }],
  ['timeout', 'a gateway', { status: 504, text: 'upstream request timeout' }],
  ['overloaded', 'a status', { status: 503 }],
  ['overloaded', 'Anthropic', { status: 529, code: 'overloaded_error', text: 'Overloaded' }],
  ['overloaded', 'a code in the stream', { code: 'server_is_overloaded' }],
  ['transport', 'a status', { status: 500, text: 'The server had an error while processing your request.' }],
  ['transport', 'a gateway', { status: 502 }],
  ['transport', 'a code in the stream', { code: 'server_error' }],
  ['model_unavailable', 'a status', { status: 404 }],
  ['invalid_request', 'a status', { status: 400, text: 'Unsupported parameter' }],
  ['invalid_request', 'a status', { status: 422 }],
];

describe('the class of a failed model call', () => {
  it.each(ROWS)('is %s by %s', (expected, _by, signals) => {
    expect(classify(signals)).toBe(expected);
  });

  it('has a row above for every rule of the table', () => {
    const speaks = (rule: ProviderErrorRule, { status = null, code = '', text = '' }: Shown): boolean =>
      (status !== null && rule.status?.includes(status) === true) ||
      rule.code?.test(code) === true ||
      (text !== '' && rule.text?.test(text) === true);
    const silent = [...RULES_BEFORE_OVERFLOW, ...RULES_AFTER_OVERFLOW].filter(
      (rule) => !ROWS.some(([expected, , shown]) => expected === rule.class && speaks(rule, shown)),
    );
    expect(silent).toEqual([]);
  });

  it.each([
    [
      429,
      'Rate limit reached on tokens per min (TPM): Limit 30000, Used 20000, Requested 20000. Maximum context length',
    ],
    [400, 'ThrottlingException: Too many tokens, please wait before trying again.'],
    [null, 'Rate limit reached: too many tokens per minute, reduce the length of the messages'],
    [503, 'Rate-limited: prompt is too long for this minute'],
  ])('is a rate limit, not an overflow, with status %s and %j', (status, text) => {
    expect(classify({ status, text })).toBe('rate_limited');
  });

  it.each([
    [401, 'auth', 'Incorrect API key; your prompt was: "the maximum context length and the rate limit"'],
    [404, 'model_unavailable', 'No such model; prompt is too long, too many requests'],
    [409, 'transport', 'conflict: must be followed by tool messages'],
  ] as const)('follows the status %s (%s) and not what the text quotes', (status, expected, text) => {
    expect(classify({ status, text })).toBe(expected);
  });

  it.each([
    [418, 'invalid_request'],
    [451, 'invalid_request'],
    [599, 'transport'],
    [307, 'transport'],
    [null, 'transport'],
  ] as const)('of an unknown status %s is %s', (status, expected) => {
    expect(classify({ status, code: 'never_heard_of', text: 'Something.' })).toBe(expected);
  });

  it.each([
    ['a page', 404, [], ['Not Found'], /base URL is wrong/],
    ['nothing', 404, [], [], /base URL is wrong/],
    ['OpenAI, of a path', 404, ['invalid_request_error'], ['Invalid URL (POST /responses)'], /base URL is wrong/],
    ['Anthropic, of a path', 404, ['not_found_error'], ['Not Found'], /base URL is wrong/],
    ['OpenAI, of a model', 404, ['model_not_found'], ['The model `x` does not exist'], /does not offer this model\.$/],
    ['Anthropic, of a model', 404, ['not_found_error'], ['model: claude-x'], /does not offer this model\.$/],
    ['Ollama, of a model', 404, [], ["model 'x' not found"], /does not offer this model\.$/],
    ['a refused key', 401, ['invalid_api_key'], ['Not Found'], /refused the API key/],
  ])('with a 404 says of which it is, the model or the base URL: %s', (_from, status, codes, texts, expected) => {
    const signals = { status, codes, texts, host: '', isEmpty: false };
    expect(providerErrorMessage(judgeProviderError(signals).class, signals)).toMatch(expected);
  });

  it('is told to people in words of its own', () => {
    const messages = Object.values(PROVIDER_ERROR_MESSAGES);
    expect(new Set(messages).size).toBe(messages.length);
    for (const [, , { text }] of ROWS) if (text !== undefined && text !== '') expect(messages).not.toContain(text);
  });
});
