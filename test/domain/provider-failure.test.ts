import { STATUS_CODES } from 'node:http';
import { APICallError, JSONParseError, TypeValidationError } from 'ai';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { withoutEchoes } from '../../src/domain/model/echoes.ts';
import {
  describeProviderFailure,
  type FailedCall,
  providerFailureOf,
} from '../../src/domain/model/provider-failure.ts';
import { CONNECTION_ROWS, ENDPOINT, ENDPOINT_HOST, REFUSED_ROWS } from './shown-failure-rows.ts';

const CALL: FailedCall = { endpoint: ENDPOINT, headers: null, sent: () => [], secrets: [] };

/** As the SDK throws it where it does not know the form of the body. */
function refusal(status: number, body: string | object, headers: Readonly<Record<string, string>> = {}): APICallError {
  return new APICallError({
    message: STATUS_CODES[status] ?? '',
    url: `${ENDPOINT}/chat/completions?key=none`,
    requestBodyValues: { messages: ['never shown'] },
    statusCode: status,
    responseHeaders: { ...headers },
    responseBody: typeof body === 'string' ? body : JSON.stringify(body),
  });
}

const saying = (message: string, call: Partial<FailedCall> = {}): string | undefined =>
  providerFailureOf(refusal(400, { error: { message } }), { ...CALL, ...call }).message;

describe('what is kept of a provider’s refusal', () => {
  it.each(REFUSED_ROWS)('is what it says: $from', ({ status, body, headers, expected }) => {
    expect(providerFailureOf(refusal(status, body, headers), CALL)).toEqual({ ...expected, host: ENDPOINT_HOST });
  });

  it.each(REFUSED_ROWS)('is the same where the SDK has read the body itself: $from', (row) => {
    const { status, body, headers, expected } = row;
    const error = refusal(status, body, headers);
    const read = Object.assign(error, { data: typeof body === 'string' ? undefined : body });
    expect(providerFailureOf(read, CALL)).toEqual({ ...expected, host: ENDPOINT_HOST });
  });

  it.each(CONNECTION_ROWS)('tells why there was no response: %s', (_from, cause, expected) => {
    const message = `Cannot connect to API: ${cause.message}`;
    const url = `${ENDPOINT}/messages`;
    const error = new APICallError({ message, cause, url, requestBodyValues: {}, isRetryable: true });
    expect(providerFailureOf(error, CALL)).toEqual({ ...expected, host: ENDPOINT_HOST });
  });

  it.each([undefined, null, 7n, {}, [], Symbol('x')])('is where it was asked, if nothing else: %s', (thrown) => {
    expect(providerFailureOf(thrown, CALL)).toEqual({ host: ENDPOINT_HOST });
    expect(providerFailureOf(thrown, { ...CALL, endpoint: 'default' })).toEqual({});
  });

  it('is told of a response that began well by its status, its request and what it is instead of an answer', () => {
    const headers = { 'content-type': 'text/html; charset=utf-8', 'x-request-id': 'req_7' };
    expect(providerFailureOf(new Error('the answer broke off'), { ...CALL, headers })).toEqual({
      status: 200,
      host: ENDPOINT_HOST,
      requestId: 'req_7',
      message: 'the answer is text/html, no stream of events: the answer broke off',
    });
  });

  it('has nothing of an answer that could not be read, but an error that is in it', () => {
    const text = 'data: the secret answer';
    const unread = new JSONParseError({ text, cause: new SyntaxError(`"${text}" is not valid JSON`) });
    const host = ENDPOINT_HOST;
    expect(providerFailureOf(unread, CALL)).toEqual({
      message: 'the answer is not the JSON that the protocol has',
      host,
    });
    const cause = new Error('Invalid input: expected "response.created"');
    const unknown = (value: unknown) => providerFailureOf(new TypeValidationError({ value, cause }), CALL);
    expect(unknown({ error: { message: 'The engine is dead', code: 'E7' } })).toEqual({
      code: 'E7',
      message: 'The engine is dead',
      host,
    });
    expect(unknown({ choices: [{ delta: { content: 'the secret answer' } }] })).toEqual({ host });
  });

  it('is bounded, on one line, and nothing that a database refuses', () => {
    const message = saying(`begin\u0000\n\t\ud800 ${'word '.repeat(2_000)}`) ?? '';
    expect(message).toMatch(/^begin � word word/);
    expect(message.length).toBeLessThanOrEqual(1_000);
    expect(message.endsWith('…')).toBe(true);
    const huge = providerFailureOf(refusal(400, `{"error":{"message":"${'x '.repeat(100_000)}`), CALL);
    expect(JSON.stringify(huge).length).toBeLessThan(1_500);
  });
});

describe('what is kept of a refusal has no credential', () => {
  it.each([
    ['Bearer abcdef123456789', 'The header was: Bearer abcdef123456789'],
    ['hunter2:pass@word', 'GET https://hunter2:pass@word@gateway.example/v1 failed'],
    ['sig-value-1', 'POST https://gateway.example/v1?version=2&sig=sig-value-1 failed'],
    ['AIzaSyA1234567890abcdefg', 'API key not valid: AIzaSyA1234567890abcdefg'],
    ['sk-ant-api03-xyz', 'invalid x-api-key sk-ant-api03-xyz'],
    ['gsk_12ab34cd', 'The key gsk_12ab34cd is blocked'],
    ['AKIA1234567890ABCDEF', 'The security token AKIA1234567890ABCDEF is expired'],
    ['eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln', 'JWT eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln has expired'],
    ['dXNlcjpwYXNz0123', 'authorization: Basic dXNlcjpwYXNz0123'],
    ['c0rrect-horse', `{'api_key': 'c0rrect-horse'} is wrong`],
    ['s3cret', 'password=s3cret was refused'],
  ])('%s', (secret, message) => {
    const said = saying(message);
    expect(said).toContain('[removed]');
    expect(said).not.toContain(secret);
  });

  it('that was sent with the request, whatever it looks like', () => {
    const said = saying('The pass phrase open sesame is of another tenant', { secrets: ['open sesame', 'The'] });
    expect(said).toBe('The pass phrase [removed] is of another tenant');
  });

  it('and says all else', () => {
    const said =
      'Unknown key: messages. Unexpected token in JSON. Basic authentication is off; max_tokens: 4096, see https://a.example/?page=2';
    expect(saying(said)).toBe(said);
  });
});

const PROMPT =
  'Please tell my lawyer, Ms. Grey, that I will not sign:\n"the settlement" is <too> low & late.\nRegards, J.';

describe('what is kept of a refusal has nothing of the prompt', () => {
  it.each([
    ['as it is', `Invalid input: ${PROMPT}`],
    ['as JSON', `Invalid input: ${JSON.stringify({ role: 'user', content: PROMPT })}`],
    ['as JSON in JSON', `Invalid input: ${JSON.stringify(JSON.stringify({ content: PROMPT }))}`],
    ['as Python writes it', `Invalid input: {'content': '${PROMPT.replaceAll('\n', '\\n').replaceAll("'", "\\'")}'}`],
    ['as HTML', `Invalid input: ${PROMPT.replaceAll('<', '&lt;').replaceAll('"', '&quot;').replaceAll('&', '&amp;')}`],
    ['in capitals', `Invalid input: ${PROMPT.toUpperCase()}`],
    ['its middle', `Invalid input: …${PROMPT.slice(20, 90)}…`],
    ['cut into lines', `Invalid input: ${PROMPT.replace(/(.{10})/gs, '$1\n    ')}`],
  ])('%s', (_how, message) => {
    const said = saying(message, { sent: () => ['Be brief.', PROMPT] }) ?? '';
    expect(said).toContain('Invalid input');
    expect(said).not.toMatch(/lawyer|settlement|grey|regards/i);
  });

  it.each([
    ['a short text as a whole', 'I am Bob Smith', 'Cannot answer I am Bob Smith here', 'Cannot answer […] here'],
    [
      'a few words that are quoted',
      'Write to Bob Smith today, please, and say that I am ill',
      "The content 'bob smith' is refused",
      "The content '[…]' is refused",
    ],
    [
      'a script in which a character is a word',
      '我不会签署这份和解协议，请告诉我的律师',
      'Invalid: 这份和解协议请告诉我的律师.',
      'Invalid: […].',
    ],
  ])('%s', (_what, prompt, message, expected) => {
    expect(saying(message, { sent: () => [prompt] })).toBe(expected);
  });

  it('but all that is the provider’s own, though the prompt has the same words', () => {
    const said =
      "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.";
    const sent = ['Set max_tokens to 5 with this model, and temperature, too. Use what is supported instead.'];
    expect(saying(said, { sent: () => sent })).toBe(said);
  });

  it('where nothing is left', () => {
    expect(saying(PROMPT, { sent: () => [PROMPT] })).toBeUndefined();
    const bytes = `data:image/png;base64,${'iVBORw0KGgo'.repeat(40)}`;
    expect(saying(`Invalid image ${bytes}`)).toMatch(/^Invalid image data:image\/png;base64,iVBORw0K\[…\]$/);
  });

  it('wherever it is quoted, and however much of it', () => {
    const letters = fc.string({ minLength: 24, maxLength: 200, unit: fc.constantFrom(...'abcxyz019 .,"\'\n\\é') });
    fc.assert(
      fc.property(letters, fc.string(), fc.string(), (prompt, before, after) => {
        const bare = (text: string): string => text.replaceAll(/[^a-z0-9é]/g, '');
        fc.pre(bare(prompt).length >= 24);
        const said = withoutEchoes(`${before} ${JSON.stringify(prompt)} ${after}`, ['Be brief.', prompt]);
        return !bare(said).includes(bare(prompt).slice(0, 24));
      }),
    );
  });

  it('in a prompt of a million words, in a moment', () => {
    const words = Array.from({ length: 1_000_000 }, (_, index) => `word${(index * 7_919) % 100_003}`).join(' ');
    const said = saying(`${'a word of the provider '.repeat(30)}${words.slice(4_000_000, 4_000_300)}`, {
      sent: () => [words],
    });
    expect(said).toMatch(/^(a word of the provider ){30}\[…\]/);
  });
});

describe('a provider’s failure in words', () => {
  it.each([
    [{}, ''],
    [{ host: 'a.example' }, 'a.example.'],
    [{ host: 'a.example', status: 400 }, 'a.example answered 400.'],
    [
      { host: 'a.example', status: 400, code: 'bad', message: 'No.', requestId: 'r1' },
      'a.example answered 400 (bad): No [request r1].',
    ],
    [{ message: 'connect ECONNREFUSED', errno: 'ECONNREFUSED' }, 'The provider: connect ECONNREFUSED.'],
    [{ host: 'a.example', errno: 'EPROTO' }, 'a.example (EPROTO).'],
  ])('%j', (failure, expected) => {
    expect(describeProviderFailure(failure)).toBe(expected);
  });
});
