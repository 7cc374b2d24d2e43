import { APICallError, StreamProviderError } from 'ai';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Fault } from '../../simulator/fault.ts';
import { startSimulator } from '../../simulator/server.ts';
import { signalsOf } from '../../src/domain/model/error-signals.ts';
import { type ModelFailure, toModelFailure } from '../../src/model/model-error.ts';
import { createModels } from '../../src/model/providers.ts';
import { streamAnswer } from '../../src/model/stream-answer.ts';
import { OVERFLOW_ROWS, type OverflowRow } from '../domain/provider-overflow-rows.ts';

const REFUSED = OVERFLOW_ROWS.filter(({ status }) => status !== null);

/** The SDK's error for a refused response. */
function refusal(status: number, responseBody: string, message = '', url = 'https://api.example.com/v1'): APICallError {
  return new APICallError({ message, url, statusCode: status, responseBody, requestBodyValues: {} });
}

const bodyOf = ({ code, text }: OverflowRow) => ({ error: { message: text, type: 'invalid_request_error', code } });

function expectRow(failure: ModelFailure, row: OverflowRow): void {
  expect(failure.class).toBe(row.class);
  expect(failure.overflow?.limitTokens ?? null).toBe(row.limit ?? null);
  expect(failure.overflow?.requestedTokens ?? null).toBe(row.requested ?? null);
  expect(failure.overflow?.outputRoomTokens ?? null).toBe(row.room ?? null);
}

describe('an overflow as the SDK throws it', () => {
  it.each(REFUSED)('is read from a refusal of $provider: $text', (row) => {
    expectRow(toModelFailure(refusal(row.status ?? 400, JSON.stringify(bodyOf(row)), row.text)), row);
  });

  it.each(REFUSED)('is read from the body alone, $provider: $text', (row) => {
    expectRow(toModelFailure(refusal(row.status ?? 400, JSON.stringify(bodyOf(row)), 'Bad Request')), row);
  });

  it.each(OVERFLOW_ROWS)('is read from an error in the stream, $provider: $text', (row) => {
    // An error in the stream has no HTTP status of its own, unless the server wrote one into its body.
    const data = { type: 'error', ...bodyOf(row), ...(row.status === null ? {} : { status_code: row.status }) };
    const error = new StreamProviderError({ message: row.text, type: 'error', data });
    expectRow(toModelFailure(error), row);
  });

  it.each(OVERFLOW_ROWS)('is read from JSON inside the message of a gateway, $provider: $text', (row) => {
    const raw = JSON.stringify(bodyOf(row));
    const metadata = { raw, provider_name: 'Somebody' };
    const outer = { error: { message: 'Provider returned error', code: row.status ?? undefined, metadata } };
    const body = JSON.stringify({ error: { message: `upstream: ${JSON.stringify(outer)}` } });
    if (row.status === null) expectRow(toModelFailure(new Error(`500 in the stream: ${body}`)), row);
    else expectRow(toModelFailure(refusal(row.status, body, 'Provider returned error')), row);
  });
});

const PROTOCOLS = ['simulated/test', 'simulated-chat/test'];
const IN_STREAM = OVERFLOW_ROWS.filter(({ status }) => status === null);

async function failureWith(fault: Fault, name: string): Promise<ModelFailure> {
  await using simulator = await startSimulator();
  simulator.script('test', [{ text: 'A text of several chunks.', chunkChars: 4 }]);
  simulator.fault('test', fault);
  const { model, providerOptions } = createModels({ simulatorUrl: simulator.url })(name);
  const prompt = { messages: [{ role: 'user' as const, content: 'x' }] };
  const settings = { maxOutputTokens: 100, providerOptions: providerOptions('session-1') };
  const { end } = await streamAnswer(
    { model, prompt, tools: [], settings, signal: new AbortController().signal },
    { onPart: () => undefined, onEnd: () => undefined },
  );
  if (end.kind !== 'failed') throw new Error(`the call ended as ${end.kind}`);
  return toModelFailure(end.error);
}

describe.each(PROTOCOLS)('an overflow in a real call of %s', (name) => {
  it.each(IN_STREAM)('is read in mid-stream, $provider', async (row) => {
    const fault = { kind: 'error-in-stream', afterChunks: 1, code: row.code ?? 'unknown', message: row.text } as const;
    expectRow(await failureWith(fault, name), row);
  });

  it.each(IN_STREAM)('is read from a stream that begins with it, $provider', async (row) => {
    const fault = { kind: 'error-in-stream', afterChunks: 0, code: row.code ?? 'unknown', message: row.text } as const;
    expectRow(await failureWith(fault, name), row);
  });

  it('is none where the server fails while it quotes one', async () => {
    const body = { error: { message: 'prompt is too long', type: 'server_error', code: 'unknown' } };
    expect((await failureWith({ status: 500, body }, name)).class).toBe('transport');
  });

  it('is read where OpenRouter encodes the provider’s error', async () => {
    const raw = JSON.stringify({
      error: {
        message:
          "This model's maximum context length is 262144 tokens. However, your messages resulted in 262897 tokens.",
        code: 400,
      },
    });
    const body = {
      error: { message: 'Provider returned error', code: 400, metadata: { raw, provider_name: 'Nvidia' } },
    };
    const failure = await failureWith({ status: 400, body }, name);
    expect(failure).toMatchObject({
      class: 'input_overflow',
      overflow: { limitTokens: 262_144, requestedTokens: 262_897, isLasting: true },
    });
  });

  it('is one of the output where the input would leave room', async () => {
    const message = 'input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease it';
    const failure = await failureWith({ status: 400, body: { error: { message, type: 'x' } } }, name);
    expect(failure).toMatchObject({ class: 'output_reserve_overflow', overflow: { outputRoomTokens: 21_041 } });
  });
});

describe('an overflow of the Responses protocol', () => {
  it('is read from a failed response', async () => {
    const message = 'Your input exceeds the context window of this model.';
    for (const afterChunks of [0, 1]) {
      const fault = { kind: 'error-in-stream', event: 'response.failed', afterChunks, code: 'x', message } as const;
      expect(await failureWith(fault, 'simulated/test')).toMatchObject({ class: 'input_overflow', overflow: null });
    }
  });
});

describe('a refusal', () => {
  it('without a body is an overflow from Cerebras and nothing known from others', () => {
    expect(toModelFailure(refusal(400, '', 'Bad Request', 'https://api.cerebras.ai/v1/chat/completions')).class).toBe(
      'input_overflow',
    );
    expect(toModelFailure(refusal(413, ' ', '', 'https://api.cerebras.ai/v1')).class).toBe('input_overflow');
    expect(toModelFailure(refusal(400, '', 'Bad Request', 'https://api.openai.com/v1')).class).toBe('invalid_request');
    expect(toModelFailure(refusal(413, '', 'Payload Too Large')).class).toBe('byte_overflow');
  });

  it('with the HTML of a proxy and 413 is one for its bytes (qwen-code#10380)', () => {
    const html = '<html>\r\n<head><title>413 Request Entity Too Large</title></head>\r\n<body></body>\r\n</html>';
    expect(toModelFailure(refusal(413, html, 'Request Entity Too Large'))).toMatchObject({ class: 'byte_overflow' });
    expect(toModelFailure(new Error(`Unexpected response: ${html}`)).class).toBe('byte_overflow');
  });

  it('is not judged by the request that it repeats', () => {
    const prompt = 'prompt is too long: 9000 tokens > 8000 maximum, rate limit, quota';
    const input = { messages: [{ role: 'user', content: prompt }] };
    const fastApi = { detail: [{ type: 'missing', loc: ['body', 'model'], msg: 'Field required', input }] };
    const moderated = { error: { message: 'Refused', code: 400, metadata: { reasons: ['x'], flagged_input: prompt } } };
    for (const body of [fastApi, moderated, { error: { message: 'No.', param: prompt, value: prompt } }]) {
      expect(toModelFailure(refusal(400, JSON.stringify(body), 'Bad Request')).class).toBe('invalid_request');
    }
    const withRequest = new APICallError({
      message: 'No.',
      url: 'https://api.example.com',
      statusCode: 400,
      requestBodyValues: input,
    });
    expect(toModelFailure(withRequest).class).toBe('invalid_request');
  });

  it('is not judged by what stands far behind in a message or a body', () => {
    const far = `Refused. ${'x '.repeat(1_000)} prompt is too long: 9000 tokens > 8000 maximum`;
    expect(toModelFailure(refusal(400, JSON.stringify({ error: { message: far } }), far)).class).toBe(
      'invalid_request',
    );
    expect(toModelFailure(refusal(400, far)).class).toBe('invalid_request');
    expect(signalsOf(new Error(far)).texts[0]).toHaveLength(1_000);
    const huge = JSON.stringify({ pad: 'x'.repeat(100_000), error: { message: 'prompt is too long' } });
    expect(toModelFailure(refusal(400, huge)).class).toBe('invalid_request');
  });

  it('is read behind a gateway’s own failure, and a rate limit behind anything', () => {
    const inner = (code: number, message: string) => JSON.stringify({ error: { message, code } });
    expect(toModelFailure(refusal(502, inner(400, 'prompt is too long'))).class).toBe('input_overflow');
    expect(toModelFailure(refusal(502, inner(503, 'prompt is too long'))).class).toBe('transport');
    expect(toModelFailure(refusal(400, inner(429, 'prompt is too long'))).class).toBe('rate_limited');
  });

  it('is judged by the type in a header of Bedrock', () => {
    const error = new APICallError({
      message: 'Too many tokens',
      url: 'https://bedrock-runtime.us-east-1.amazonaws.com',
      statusCode: 400,
      responseHeaders: { 'x-amzn-errortype': 'ThrottlingException:http://internal.amazon.com/' },
      requestBodyValues: {},
    });
    expect(toModelFailure(error).class).toBe('rate_limited');
  });

  it('of Anthropic at the beginning of a stream is none of a failing server', () => {
    const message = 'prompt is too long: 9000 tokens > 8000 maximum';
    const early = (mediaType: string) =>
      new APICallError({
        message,
        url: 'https://api.anthropic.com/v1/messages',
        statusCode: 500,
        responseHeaders: { 'content-type': mediaType },
        responseBody: JSON.stringify({ type: 'unheard_of', message }),
        requestBodyValues: {},
      });
    expect(toModelFailure(early('text/event-stream; charset=utf-8'))).toMatchObject({
      class: 'input_overflow',
      overflow: { limitTokens: 8_000, requestedTokens: 9_000 },
    });
    expect(toModelFailure(early('application/json')).class).toBe('transport');
  });

  it('of the SDK itself, for a call without its result, is no matter of the transport', () => {
    const error = Object.assign(new Error('Tool result is missing for tool call call_1.'), {
      name: 'AI_MissingToolResultsError',
    });
    expect(toModelFailure(error).class).toBe('malformed_history');
  });

  it('of llama.cpp tells its numbers beside the message', () => {
    const error = {
      code: 400,
      message: 'too long',
      type: 'exceed_context_size_error',
      n_prompt_tokens: 9412,
      n_ctx: 8192,
    };
    expect(toModelFailure(refusal(400, JSON.stringify({ error })))).toMatchObject({
      class: 'input_overflow',
      overflow: { limitTokens: 8_192, requestedTokens: 9_412 },
    });
  });
});

/** Nests an error in others, one level for each of the ways. */
function wrap(value: unknown, ways: readonly string[]): unknown {
  return ways.reduce<unknown>((inner, way) => {
    if (way === 'json') return { message: `failed: ${JSON.stringify(inner)} (see log)` };
    if (way === 'cause') return Object.assign(new Error('wrapped'), { cause: inner });
    if (way === 'list') return { errors: [inner] };
    return { [way]: inner };
  }, value);
}

describe('the signals of a nested error', () => {
  const message = 'prompt is too long: 9000 tokens > 8000 maximum';

  it.each(['error', 'cause', 'data', 'responseBody', 'json', 'list', 'lastError', 'response', 'metadata', 'detail'])(
    'are found within %s',
    (way) => {
      expect(signalsOf(wrap({ message, code: 'Some_Code' }, [way]))).toMatchObject({
        codes: expect.arrayContaining(['some_code']),
      });
      expect(signalsOf(wrap({ message }, [way])).texts).toContain(message);
    },
  );

  it('are found six levels down and not for ever', () => {
    const deep = (levels: number) =>
      wrap(
        { message },
        Array.from({ length: levels }, () => 'error'),
      );
    expect(signalsOf(deep(6)).texts).toEqual([message]);
    expect(signalsOf(deep(20)).texts).toEqual([]);
  });

  it('are few and short, whatever the error holds', () => {
    const ways = fc.array(fc.constantFrom('error', 'cause', 'data', 'json', 'list'), { maxLength: 5 });
    fc.assert(
      fc.property(fc.anything({ maxDepth: 4 }), ways, (thrown, nesting) => {
        let wrapped: unknown = thrown;
        try {
          wrapped = wrap(thrown, nesting);
        } catch {
          // A value without JSON text stays as it is.
        }
        const { texts, codes } = signalsOf(wrapped);
        expect(texts.length).toBeLessThanOrEqual(16);
        for (const text of texts) expect(text.length).toBeLessThanOrEqual(1_000);
        for (const code of codes) expect(code.length).toBeLessThanOrEqual(100);
        expect(toModelFailure(wrapped).class).toBeTypeOf('string');
      }),
    );
  });

  it('are found whatever getters throw and whoever holds whom', () => {
    const circle: Record<string, unknown> = { message: 'first' };
    circle['cause'] = { error: circle, message };
    expect(signalsOf(circle).texts).toEqual(['first', message]);
    const guarded = {
      message,
      get cause(): unknown {
        throw new Error('no');
      },
    };
    expect(signalsOf(guarded).texts).toEqual([message]);
  });
});
