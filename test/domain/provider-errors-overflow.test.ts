import { describe, expect, it } from 'vitest';
import { readOverflowText } from '../../src/domain/model/overflow-limit.ts';
import { judgeProviderError, type ProviderErrorSignals } from '../../src/domain/model/provider-errors.ts';
import { OVERFLOW_RULES } from '../../src/domain/model/provider-overflow-rules.ts';
import { OVERFLOW_ROWS, type OverflowRow } from './provider-overflow-rows.ts';

const none: ProviderErrorSignals = { status: null, codes: [], texts: [], host: '', isEmpty: false };
const judge = (signals: Partial<ProviderErrorSignals>) => judgeProviderError({ ...none, ...signals });

const signalsOf = ({ status, code, text }: OverflowRow): Partial<ProviderErrorSignals> => ({
  status,
  codes: code === undefined ? [] : [code.toLowerCase()],
  texts: [text],
});

describe('an overflow', () => {
  it.each(OVERFLOW_ROWS)('of $provider with status $status is $class: $text', (row) => {
    const verdict = judge(signalsOf(row));
    expect(verdict.class).toBe(row.class);
    if (row.limit === undefined && row.room === undefined) {
      expect(verdict.overflow).toBeNull();
      return;
    }
    expect(verdict.overflow).toMatchObject({
      limitTokens: row.limit ?? null,
      scope: row.scope ?? 'window',
      requestedTokens: row.requested ?? null,
      outputRoomTokens: row.room ?? null,
    });
  });

  it('has a row for every rule', () => {
    const covered = OVERFLOW_RULES.filter((rule) => OVERFLOW_ROWS.some(({ text }) => rule.text.test(text)));
    expect(OVERFLOW_RULES.filter((rule) => !covered.includes(rule)).map(({ text }) => text.source)).toEqual([]);
  });

  it('is never one for a row whose text an account’s rate could have, unless the request exceeds that rate', () => {
    for (const row of OVERFLOW_ROWS.filter(({ provider }) => !provider.includes('a rate below'))) {
      const verdict = judge({ ...signalsOf(row), status: 429 });
      if (row.code === undefined) expect(verdict.class, row.text).toBe('rate_limited');
    }
  });

  it('is remembered for the model, but the rate of an account is not', () => {
    const ofRate = OVERFLOW_ROWS.filter(({ provider }) => provider.includes('a rate below'));
    expect(ofRate).toHaveLength(2);
    for (const row of OVERFLOW_ROWS) {
      const { overflow } = judge(signalsOf(row));
      if (overflow !== null) expect(overflow.isLasting, row.text).toBe(!ofRate.includes(row));
    }
  });

  it.each([
    ['api.cerebras.ai', 400, 'input_overflow'],
    ['api.cerebras.ai', 413, 'input_overflow'],
    ['api.mistral.ai', 422, 'input_overflow'],
    ['api.cerebras.ai', 401, 'auth'],
    ['api.cerebras.ai', 500, 'transport'],
    // An empty refusal by another provider is no input overflow (RooCode#10017: 19k tokens judged too long, and a
    // loop).
    ['api.openai.com', 400, 'invalid_request'],
    ['notcerebras.ai', 400, 'invalid_request'],
    ['', 400, 'invalid_request'],
    ['api.openai.com', 413, 'byte_overflow'],
  ] as const)('is an empty refusal only where its provider refuses so: %s with %s is %s', (host, status, expected) => {
    expect(judge({ host, status, isEmpty: true }).class).toBe(expected);
  });

  it('of Cerebras is one with the empty body only, not with every status 400', () => {
    expect(judge({ host: 'api.cerebras.ai', status: 400, texts: ['Unknown parameter.'] }).class).toBe(
      'invalid_request',
    );
  });

  it('is told by whichever text has the numbers', () => {
    const texts = [
      'Your input exceeds the context window of this model.',
      'prompt is too long: 9000 tokens > 8000 maximum',
    ];
    expect(judge({ status: 400, texts }).overflow).toMatchObject({ limitTokens: 8_000, requestedTokens: 9_000 });
  });
});

describe('what looks like an overflow and is none', () => {
  it.each([
    [
      'a rate that passes: the request is below it',
      429,
      'rate_limit_exceeded',
      'Rate limit reached for gpt-4o in organization org-1 on tokens per min (TPM): Limit 30000, Used 14567, Requested 24754. Please try again in 18.642s.',
      'rate_limited',
    ],
    [
      'the same within a stream',
      null,
      'rate_limit_exceeded',
      'Rate limit reached for gpt-4o on tokens per min (TPM): Limit 250000, Used 250000, Requested 143071. Please try again in 34.337s.',
      'rate_limited',
    ],
    [
      'a rate of Anthropic that asks for a shorter prompt',
      429,
      'rate_limit_error',
      'This request would exceed the rate limit for your organization of 20,000 input tokens per minute. Please reduce the prompt length or the maximum tokens requested, or try again later.',
      'rate_limited',
    ],
    [
      'throttling of Bedrock',
      400,
      'ThrottlingException',
      'Too many tokens, please wait before trying again.',
      'rate_limited',
    ],
    [
      'throttling of Bedrock without a code',
      400,
      '',
      'Too many tokens, please wait before trying again.',
      'rate_limited',
    ],
    ['tokens a day', 400, '', 'Too many tokens per day, please wait before trying again.', 'rate_limited'],
    [
      'a quota of Google',
      null,
      'RESOURCE_EXHAUSTED',
      'You exceeded your current quota. Quota exceeded for metric: input_token_count, limit: 250000. Please retry in 32s.',
      'rate_limited',
    ],
    [
      'an account of Anthropic that is empty',
      400,
      'invalid_request_error',
      'Your credit balance is too low to access the Anthropic API.',
      'quota',
    ],
    ['a quota in tokens', 400, '', 'Token quota: 100 tokens exceeds the limit of 50', 'quota'],
    ['a broad limit', 400, '', 'The number of tools exceeds the limit of 128', 'invalid_request'],
    ['another broad limit', 400, '', 'Request count of 60 exceeds the limit of 50', 'invalid_request'],
    [
      'one string that is too long',
      400,
      'string_above_max_length',
      "Invalid 'messages[3].content': string too long. Expected a string with maximum length 1048576, but got a string with length 1100000 instead.",
      'invalid_request',
    ],
    [
      'a tool list that is too long',
      400,
      'array_above_max_length',
      "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 140 instead.",
      'invalid_request',
    ],
    [
      'the minimum of a cache of Vertex',
      400,
      'INVALID_ARGUMENT',
      'The cached content is of 1024 tokens. The minimum token count to start caching is 4096.',
      'invalid_request',
    ],
    [
      'the minimum of a cache of Google',
      400,
      'INVALID_ARGUMENT',
      'Cached content is too small. total_token_count=416, min_total_token_count=4096',
      'invalid_request',
    ],
    [
      'a value that is quoted',
      400,
      'unsupported_value',
      "Unsupported value: 'prompt is too long: 9000 tokens > 8000 maximum'",
      'invalid_request',
    ],
    ['a refused key', 401, '', 'Incorrect API key; the prompt was: "prompt is too long"', 'auth'],
    ['a failing server', 500, '', 'prompt is too long: 9000 tokens > 8000 maximum', 'transport'],
    ['an overloaded server', 503, '', 'Please reduce the length of the messages or come back later', 'overloaded'],
  ] as const)('%s', (_what, status, code, text, expected) => {
    const verdict = judge({ status, codes: code === '' ? [] : [code.toLowerCase()], texts: [text] });
    expect(verdict).toEqual({ class: expected, overflow: null });
  });
});

describe('the limit in a text', () => {
  it('is looked for in bounded time, also in a text made to be slow', () => {
    const hostile = `${'maximum context length is 1 tokens requested '.repeat(2_000)}${'9,'.repeat(100_000)}`;
    expect(readOverflowText(hostile, () => true)?.numbers).toBeNull();
  });
});
