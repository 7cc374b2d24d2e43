import { RetryError } from 'ai';
import { describe, expect, it } from 'vitest';
import type { Fault } from '../../simulator/fault.ts';
import { startSimulator } from '../../simulator/server.ts';
import { toErrorRecord } from '../../src/domain/errors.ts';
import type { ProviderErrorClass } from '../../src/domain/model/provider-error-rules.ts';
import { PROVIDER_ERROR_MESSAGES } from '../../src/domain/model/provider-errors.ts';
import { failedCallOf, type ModelFailure, toModelFailure } from '../../src/model/model-error.ts';
import { createModels } from '../../src/model/providers.ts';
import { streamAnswer } from '../../src/model/stream-answer.ts';
import { failureFields } from '../../src/platform/log.ts';

const SECRET = 'the prompt that nobody may read';
/** The provider's text: its own words, the prompt and the key. */
const SAID = `Not like this: ${SECRET} (key simulated)`;
const PROTOCOLS = ['simulated/test', 'simulated-chat/test'];

/** The failure of a real call through the SDK. */
async function failureOf(url: string, name: string): Promise<ModelFailure> {
  const resolved = createModels({ simulatorUrl: url })(name);
  const { model, providerOptions } = resolved;
  const prompt = { messages: [{ role: 'user' as const, content: SECRET }] };
  const settings = { maxOutputTokens: 100, providerOptions: providerOptions('session-1') };
  const { end } = await streamAnswer(
    { model, prompt, tools: [], settings, signal: new AbortController().signal },
    { onPart: () => undefined, onEnd: () => undefined },
  );
  if (end.kind !== 'failed') throw new Error(`the call ended as ${end.kind}`);
  return toModelFailure(end.error, failedCallOf(resolved, prompt, null));
}

async function failureWith(fault: Fault, name: string): Promise<ModelFailure> {
  await using simulator = await startSimulator();
  simulator.script('test', [{ text: 'A text of several chunks.', chunkChars: 4 }]);
  simulator.fault('test', fault);
  return await failureOf(simulator.url, name);
}

const body = (code: string | null, message = SAID) => ({ error: { message, code, type: 'error', param: null } });

const FAULTS: readonly (readonly [string, ProviderErrorClass, Fault])[] = [
  ['a refused key', 'auth', { status: 401, body: body('invalid_api_key') }],
  ['an empty account', 'quota', { status: 429, body: body('insufficient_quota') }],
  ['a rate limit', 'rate_limited', { kind: 'rate-limit' }],
  ['a failing server', 'transport', { kind: 'server-error' }],
  ['an overloaded server', 'overloaded', { kind: 'overloaded' }],
  ['a body that is no JSON', 'transport', { status: 502, body: `<html><p>${SAID}</p></html>` }],
  ['a history that is refused', 'malformed_history', { status: 400, body: body(null, 'No tool output found for x') }],
  ['an unknown refusal', 'invalid_request', { status: 400, body: body('unsupported_parameter') }],
  ['a context that is full', 'input_overflow', { kind: 'context-overflow' }],
  ['a cut before the first chunk', 'transport', { kind: 'cut', afterChunks: 0 }],
  ['a cut in the middle', 'transport', { kind: 'cut', afterChunks: 2 }],
  [
    'an error in the stream',
    'transport',
    { kind: 'error-in-stream', afterChunks: 1, code: 'server_error', message: SAID },
  ],
  [
    'a rate limit in the stream',
    'rate_limited',
    { kind: 'error-in-stream', afterChunks: 1, code: 'rate_limit_exceeded', message: SAID },
  ],
  [
    'an overflow in the stream',
    'input_overflow',
    { kind: 'error-in-stream', afterChunks: 0, code: 'context_length_exceeded', message: SAID },
  ],
];

describe.each(PROTOCOLS)('a failed call of %s', (name) => {
  it.each(FAULTS)('has its class: %s is %s', async (_what, expected, fault) => {
    const failure = await failureWith(fault, name);
    expect(failure.class).toBe(expected);
    const message = expect.stringContaining(PROVIDER_ERROR_MESSAGES[expected]);
    expect(failure.error).toMatchObject({ code: expected, message });
    expect(failure.error.cause).toBeDefined();
  });

  it.each(FAULTS)('tells what the provider said, but no prompt and no key: %s', async (_what, _class, fault) => {
    const { error } = await failureWith(fault, name);
    const shown = [toErrorRecord(error), failureFields(error)];
    const tells = JSON.stringify(fault).includes('Not like this');
    if (tells) expect(error.provider?.message).toContain('Not like this: […] (key [removed])');
    for (const one of shown) expect(JSON.stringify(one)).toContain(error.provider?.message ?? 'nothing');
    expect(JSON.stringify(shown)).not.toMatch(/nobody may read|simulated\)/);
  });

  it.each<[Record<string, string>, number | null]>([
    [{}, null],
    [{ 'retry-after': '7' }, 7_000],
    [{ 'retry-after': '0.5' }, 500],
    [{ 'retry-after-ms': '250', 'retry-after': '7' }, 250],
    [{ 'retry-after-ms': '', 'retry-after': '7' }, 7_000],
    [{ 'retry-after-ms': 'soon', 'retry-after': 'later' }, null],
    [{ 'retry-after': '30s' }, 30_000],
    [{ 'retry-after': '7, 7' }, 7_000],
    [{ 'retry-after': '-5' }, 0],
    [{ 'retry-after': 'Wed, 21 Oct 2015 07:28:00 GMT' }, 0],
  ])('reads when to come back from %j', async (headers, retryAfterMs) => {
    const failure = await failureWith({ status: 429, headers, body: body('rate_limit_exceeded') }, name);
    expect(failure).toMatchObject({ class: 'rate_limited', retryAfterMs });
  });

  it('reads a date to come back at', async () => {
    const inAnHour = new Date(Date.now() + 3_600_000).toUTCString();
    const { retryAfterMs } = await failureWith({ status: 503, headers: { 'retry-after': inAnHour } }, name);
    expect(retryAfterMs).toBeGreaterThan(0);
    expect(retryAfterMs).toBeLessThanOrEqual(3_600_000);
  });

  it('is one of the transport when nobody answers', async () => {
    const failure = await failureOf('http://127.0.0.1:1', name);
    expect(failure).toMatchObject({ class: 'transport', retryAfterMs: null });
  });
});

describe('a failure of the model call', () => {
  it('of the Responses protocol may come as a failed response', async () => {
    const fault: Fault = {
      kind: 'error-in-stream',
      event: 'response.failed',
      afterChunks: 1,
      code: 'server_is_overloaded',
      message: SAID,
    };
    expect(await failureWith(fault, 'simulated/test')).toMatchObject({ class: 'overloaded' });
  });

  it('is the last one of the SDK’s own retries', () => {
    const lastError = Object.assign(new Error('x'), { statusCode: 401 });
    const error = new RetryError({ message: 'gave up', reason: 'maxRetriesExceeded', errors: [lastError] });
    expect(toModelFailure(error)).toMatchObject({ class: 'auth' });
    expect(toModelFailure(error).error.cause).toBe(lastError);
  });

  it('is a timeout when a watchdog of ours ended the call', () => {
    expect(toModelFailure(new DOMException('slow', 'TimeoutError')).class).toBe('timeout');
  });

  it.each([undefined, null, 'text', 7n, {}, { code: 7, type: {} }, Object.assign([], { code: 'x' })])(
    'has a class whatever was thrown: %s',
    (thrown) => {
      expect(toModelFailure(thrown)).toMatchObject({ class: 'transport', retryAfterMs: null });
    },
  );

  it('has a class also when what was thrown has no JSON form', () => {
    const circular: Record<string, unknown> = { code: 'overloaded_error' };
    circular['self'] = circular;
    expect(toModelFailure(circular).class).toBe('overloaded');
  });

  it('is not judged by what a long error quotes at its end', () => {
    const error = new Error(`Refused. ${'x'.repeat(5_000)} the maximum context length`);
    expect(toModelFailure(Object.assign(error, { statusCode: 400 })).class).toBe('invalid_request');
  });
});
