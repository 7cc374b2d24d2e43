import fc from 'fast-check';
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base';
import { describe, expect, test } from 'vitest';
import {
  estimateText,
  guardCounter,
  isSafeToTokenize,
  MAX_TOKENIZED_CHARS,
  MAX_TOKENIZED_RUN_CHARS,
} from '../../../src/domain/context/meter/tokens.ts';

/** The same on every run: a linear congruential generator. */
function bytesOf(length: number): Buffer {
  let state = 7;
  return Buffer.from(
    Array.from({ length }, () => {
      state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
      return Math.floor(state / 65_536) % 256;
    }),
  );
}

const prose =
  'The reviewer asked for smaller commits, and the author split the change into three parts: one for the storage, one ' +
  'for the queue and one that removes what nobody used any more. None of them changed the public interface. ';
const code = `export async function readTail(path: string, maxLines = 200): Promise<readonly string[]> {
  const handle = await open(path, 'r');
  try {
    const { size } = await handle.stat();
    return size === 0 ? [] : await collectLines(handle, { from: Math.max(0, size - CHUNK_BYTES), maxLines });
  } finally {
    await handle.close();
  }
}
`;
const rows = Array.from({ length: 40 }, (_, index) => ({
  flight_number: `HAT${100 + index * 7}`,
  origin: 'SFO',
  scheduled_departure_time_est: `0${index % 9}:3${index % 6}:00`,
  prices: { basic_economy: 50 + index * 3, economy: 130 + index, business: 350.75 + index },
}));
const log = Array.from(
  { length: 60 },
  (_, index) =>
    `2026-07-02T10:${10 + (index % 49)}:12.${100 + index}Z INFO [worker-${index}] request ${bytesOf(40 + index).toString('hex', 30, 36)} done in ${index * 13}ms status=200`,
).join('\n');

describe('an estimated text', () => {
  test.each([
    ['prose', prose.repeat(10), 0.9, 1.15],
    ['code', code.repeat(10), 0.9, 1.2],
    ['JSON', JSON.stringify(rows), 0.85, 1.2],
    ['indented JSON', JSON.stringify(rows, null, 2), 0.85, 1.2],
    ['a log', log, 0.85, 1.25],
    ['base64', bytesOf(30_000).toString('base64'), 0.85, 1.25],
    ['base64url', bytesOf(3_000).toString('base64url'), 0.85, 1.25],
    ['hex', bytesOf(20_000).toString('hex'), 0.85, 1.3],
    ['Chinese', '上下文管理是一个困难的问题，因为模型的窗口是有限的。我们需要压缩对话历史。', 0.9, 1.6],
    ['Japanese', 'これは長い会話の要約です。古いツール出力を削除し、重要な事実を保持します。', 0.9, 1.6],
    ['Russian', 'Окно модели ограничено, поэтому старые результаты инструментов удаляются.', 0.9, 2],
    ['German', 'Das Fenster des Modells ist begrenzt, deshalb werden ältere Werkzeugausgaben gelöscht.', 0.85, 1.3],
  ])('comes close to the o200k tokenizer on %s', (_, text, low, high) => {
    const share = estimateText(text) / countTokens(text);
    expect(share).toBeGreaterThanOrEqual(low);
    expect(share).toBeLessThanOrEqual(high);
  });

  test.each([
    ['JSON', JSON.stringify(rows)],
    ['base64', bytesOf(30_000).toString('base64')],
    ['hex', bytesOf(20_000).toString('hex')],
    ['Chinese', '上下文管理是一个困难的问题'],
  ])('sees what a quarter of the length misses on %s', (_, text) => {
    expect(text.length / 4).toBeLessThan(0.85 * countTokens(text));
    expect(estimateText(text)).toBeGreaterThan(text.length / 4);
  });

  test('counts 1.5 characters a token in a long word that is none', () => {
    expect(estimateText('a'.repeat(3_000))).toBe(2_000);
  });

  test('is nothing for an empty text', () => {
    expect(estimateText('')).toBe(0);
  });

  const anyText = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 200 }),
    fc.string({ unit: fc.constantFrom(...'aZ09 /+=_-\n\t.,{"ü上я🎉'), maxLength: 200 }),
  );

  test('is a whole number, never negative, and never more than a token and a third per character', () => {
    fc.assert(
      fc.property(anyText, (text) => {
        const tokens = estimateText(text);
        expect(Number.isInteger(tokens)).toBe(true);
        expect(tokens).toBeGreaterThanOrEqual(0);
        expect(tokens).toBeLessThanOrEqual(Math.ceil(text.length * 1.34));
      }),
    );
  });

  test('never counts a longer text less than its beginning', () => {
    fc.assert(
      fc.property(anyText, anyText, (head, tail) => {
        expect(estimateText(head + tail)).toBeGreaterThanOrEqual(estimateText(head));
      }),
    );
  });

  test('takes megabytes of what tokenizers choke on', () => {
    const megabyte = 1_000_000;
    for (const text of [
      'a'.repeat(megabyte),
      '-'.repeat(megabyte),
      ' '.repeat(megabyte),
      'aB3/'.repeat(megabyte / 4),
    ]) {
      expect(estimateText(text)).toBeLessThanOrEqual(1.01 * megabyte);
    }
  });
});

describe('a text is safe to tokenize', () => {
  test.each([
    ['prose', prose.repeat(20)],
    ['code', code.repeat(20)],
    ['JSON without spaces', JSON.stringify(rows)],
    ['Chinese with punctuation', '上下文管理是一个困难的问题，'.repeat(100)],
    ['nothing', ''],
  ])('when it is %s', (_, text) => {
    expect(isSafeToTokenize(text)).toBe(true);
  });

  test.each([
    ['longer than the bound', 'word '.repeat(MAX_TOKENIZED_CHARS / 5 + 1)],
    ['one repeated letter', 'a'.repeat(MAX_TOKENIZED_RUN_CHARS + 1)],
    ['base64', bytesOf(1_000).toString('base64')],
    ['hex inside prose', `${prose}${bytesOf(1_000).toString('hex')}${prose}`],
    ['a line of equal signs', '='.repeat(MAX_TOKENIZED_RUN_CHARS + 1)],
    ['a line of dots', '.'.repeat(MAX_TOKENIZED_RUN_CHARS + 1)],
    ['blank lines', '\n \t'.repeat(MAX_TOKENIZED_RUN_CHARS)],
    ['Chinese without any punctuation', '上'.repeat(MAX_TOKENIZED_RUN_CHARS + 1)],
  ])('but not when it is %s', (_, text) => {
    expect(isSafeToTokenize(text)).toBe(false);
  });

  test('up to the bound itself', () => {
    expect(isSafeToTokenize('word '.repeat(MAX_TOKENIZED_CHARS / 5))).toBe(true);
    expect(isSafeToTokenize('a'.repeat(MAX_TOKENIZED_RUN_CHARS))).toBe(true);
  });
});

describe('a guarded counter', () => {
  test('tokenizes what is safe and estimates what is not', () => {
    const asked: string[] = [];
    const count = guardCounter((text) => {
      asked.push(text);
      return countTokens(text);
    });
    const unsafe = 'a'.repeat(20_000);
    expect(count(prose)).toBe(countTokens(prose));
    expect(count(unsafe)).toBe(estimateText(unsafe));
    expect(asked).toEqual([prose]);
  });
});
