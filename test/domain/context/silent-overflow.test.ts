import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { lessonOfNumbers } from '../../../src/domain/context/meter/learned-limits.ts';
import { type AnsweredRequest, certainOf, silentOverflow } from '../../../src/domain/context/meter/silent-overflow.ts';
import { FINISH_REASONS, type Part, type ViewMessage } from '../../../src/domain/transcript/message.ts';
import { NO_USAGE, type Usage } from '../../../src/domain/usage.ts';

const WINDOW = 32_768;
const usage = (inputTokens: number, outputTokens = 100, rest: Partial<Usage> = {}): Usage => ({
  ...NO_USAGE,
  inputTokens,
  outputTokens,
  totalTokens: inputTokens + outputTokens,
  ...rest,
});
/** An answer to a request of `expectedInputTokens` that are certain; half of them went through before. */
const answer = (given: Partial<AnsweredRequest>): AnsweredRequest => {
  const { expectedInputTokens = 20_000 } = given;
  const acceptedTokens = Math.floor(expectedInputTokens / 2);
  return {
    usage: usage(20_000),
    finishReason: 'stop',
    rawFinishReason: 'stop',
    contextWindow: WINDOW,
    expectedInputTokens,
    certain: { acceptedTokens, leastTokens: expectedInputTokens },
    ...given,
  };
};

describe('an overflow that no error tells of', () => {
  test.each([
    ['model_context_window_exceeded', 'Anthropic, Bedrock, z.ai'],
    ['model_length', 'Mistral'],
    ['MODEL_LENGTH', 'whoever shouts'],
  ])('is told by the stop reason %s of %s', (rawFinishReason) => {
    expect(silentOverflow(answer({ finishReason: 'length', rawFinishReason }))).toEqual({
      class: 'input_overflow',
      sign: 'window_full',
      overflow: null,
    });
  });

  test.each(['max_tokens', 'length', 'end_turn', null])('is not told by the stop reason %s', (rawFinishReason) => {
    expect(silentOverflow(answer({ finishReason: 'length', rawFinishReason }))).toBeNull();
  });

  test('is a request above the window that z.ai took nevertheless', () => {
    const given = { usage: usage(WINDOW + 1), expectedInputTokens: WINDOW };
    expect(silentOverflow(answer(given))).toMatchObject({ class: 'input_overflow', sign: 'above_window' });
    expect(silentOverflow(answer({ ...given, usage: usage(WINDOW) }))).toBeNull();
    expect(silentOverflow(answer({ ...given, contextWindow: null })), 'a window that nobody knows').toBeNull();
  });

  // Field bug: goose#11318 took it for an answer.
  test('is an answer of MiMo or LM Studio that ended before it began, the window being full', () => {
    const given = { usage: usage(32_500, 0), expectedInputTokens: 32_500, finishReason: 'length' } as const;
    expect(silentOverflow(answer(given))).toMatchObject({ class: 'input_overflow', sign: 'no_answer' });
    expect(silentOverflow(answer({ ...given, usage: usage(32_500, 1) })), 'an answer').toBeNull();
    expect(silentOverflow(answer({ ...given, finishReason: 'stop' })), 'another end').toBeNull();
    expect(silentOverflow(answer({ ...given, usage: usage(32_000, 0) })), 'below 99 %').toBeNull();
    expect(silentOverflow(answer({ ...given, contextWindow: null })), 'no window').toBeNull();
  });

  // Field bugs: ollama#17427, ollama#3839, ollama#17889.
  test('is a request that Ollama cut to half of its window and two: the limit is what it let through', () => {
    const found = silentOverflow(answer({ usage: usage(2_050), contextWindow: null, expectedInputTokens: 6_000 }));
    expect(found).toMatchObject({
      class: 'silent_truncation',
      sign: 'cut_request',
      overflow: { limitTokens: 2_050, scope: 'input', requestedTokens: 6_000 },
    });
    expect(lessonOfNumbers(found?.overflow ?? null)?.limits).toEqual({ inputLimit: 2_050 });
  });

  test.each([
    ['the measure is an estimate only', { usage: usage(10_000), certain: null }],
    ['it is within what a measure may be off', { usage: usage(14_000) }],
    ['no usage was reported', { usage: NO_USAGE }],
    ['only what was not cached was reported', { usage: usage(6_000, 100, { cacheReadTokens: 14_000 }) }],
    ['only what was written to the cache is missing', { usage: usage(6_000, 100, { cacheWriteTokens: 14_000 }) }],
    ['nobody runs so small a window', { usage: usage(300), certain: { acceptedTokens: 300, leastTokens: 900 } }],
    [
      'the text since then is one that nobody can estimate',
      { usage: usage(10_000), certain: { acceptedTokens: 9_000, leastTokens: 9_100 } },
    ],
    [
      'much more went through before',
      { usage: usage(8_000), certain: { acceptedTokens: 19_000, leastTokens: 20_000 } },
    ],
  ] as const)('is no cut where %s', (_why, given) => {
    expect(silentOverflow(answer(given))).toBeNull();
  });

  test('is never seen in a call that was billed as measured, within its window, whatever its end', () => {
    const tokens = fc.integer({ min: 0, max: 2_000_000 });
    fc.assert(
      fc.property(
        tokens,
        fc.integer({ min: 1, max: 100_000 }),
        fc.constantFrom(...FINISH_REASONS),
        (input, output, end) => {
          const given = { usage: usage(input, output), expectedInputTokens: input, contextWindow: input + output };
          expect(silentOverflow(answer({ ...given, finishReason: end }))).toBeNull();
        },
      ),
    );
  });

  test('is always seen in an anchored request that lost a third or more', () => {
    const sent = fc.integer({ min: 4_096, max: 1_000_000 });
    fc.assert(
      fc.property(sent, fc.double({ min: 0.3, max: 0.69, noNaN: true }), (expectedInputTokens, share) => {
        const seen = Math.floor(expectedInputTokens * share);
        const found = silentOverflow(answer({ usage: usage(seen), expectedInputTokens, contextWindow: null }));
        expect(found?.class).toBe('silent_truncation');
        expect(found?.overflow?.limitTokens).toBe(seen);
      }),
    );
  });
});

describe('what is certain of a request', () => {
  const MODEL = 'ollama/llama';
  const anchor = { usage: usage(5_000, 100), messageSeq: 2 };
  const asked: ViewMessage = { id: 'm1', seq: 1, role: 'user', model: null, parts: [{ type: 'text', text: 'hello' }] };
  const answered: ViewMessage = {
    id: 'm2',
    seq: 2,
    role: 'assistant',
    model: MODEL,
    parts: [{ type: 'text', text: 'hi' }],
  };
  const later = (...parts: Part[]): ViewMessage => ({ id: 'm3', seq: 3, role: 'user', model: null, parts });

  test('is what was billed, the answer, and a token for every word since', () => {
    const few = certainOf([asked, answered, later({ type: 'text', text: 'a'.repeat(90_000) })], anchor, MODEL);
    const many = certainOf([asked, answered, later({ type: 'text', text: 'a '.repeat(45_000) })], anchor, MODEL);
    expect(few).toEqual({ acceptedTokens: 5_000, leastTokens: expect.any(Number) });
    expect(few?.leastTokens).toBeGreaterThan(5_100);
    expect(few?.leastTokens).toBeLessThan(5_150);
    expect((many?.leastTokens ?? 0) - (few?.leastTokens ?? 0)).toBe(45_000 - 1);
  });

  test('is nothing without a call that it continues, and where an image came since', () => {
    const image: Part = { type: 'file', mediaType: 'image/png', url: 'https://example.com/a.png' };
    expect(certainOf([asked, answered], null, MODEL)).toBeNull();
    expect(certainOf([asked, answered], anchor, 'ollama/other')).toBeNull();
    expect(certainOf([asked, answered, later(image)], anchor, MODEL)).toBeNull();
  });
});
