import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  type Anchor,
  coveredTokens,
  estimateAfter,
  estimateMessages,
  estimateOverhead,
  type MeasureInput,
  measure,
  TOKEN_KINDS,
} from '../../../src/domain/context/meter/measure.ts';
import { totalOf } from '../../../src/domain/context/meter/message-tokens.ts';
import { estimateText } from '../../../src/domain/context/meter/tokens.ts';
import { anyModel, anyView } from '../view-arbitrary.ts';
import { assistantOf, callOf, MODEL, signedReasoning, textOf, usageOf, userOf } from './measure-view.ts';

const overheadTokens = { instructions: 700, tools: 1_300 };
const view = [
  userOf(1, textOf('Please look at the file and tell me what it does. '.repeat(5))),
  assistantOf(2, textOf('I will read it.'), callOf({ path: 'src/main.ts' }, 'export const a = 1;\n'.repeat(300))),
  assistantOf(3, textOf('It exports a constant. '.repeat(20))),
  userOf(4, textOf('Thank you. And the other one? '.repeat(10))),
];
const input: MeasureInput = { view, model: MODEL, overheadTokens, anchor: null, ratio: 1.25, count: estimateText };
const anchorAt = (messageSeq: number, usage: Parameters<typeof usageOf>[0]): Anchor => ({
  messageSeq,
  usage: usageOf(usage),
});

describe('a measurement without an anchor', () => {
  test('is the ratio times the estimate of everything, instructions and tools included', () => {
    const estimated = 2_000 + totalOf(estimateMessages(view, estimateText, MODEL));
    expect(measure(input)).toMatchObject({ total: Math.ceil(1.25 * estimated), isAnchored: false });
  });

  test('of nothing but instructions and tools is their size', () => {
    expect(measure({ ...input, view: [], ratio: 1 })).toMatchObject({
      total: 2_000,
      byKind: { instructions: 700, tools: 1_300, user: 0 },
    });
  });
});

describe('a measurement with an anchor', () => {
  const anchor = anchorAt(3, { inputTokens: 9_000, outputTokens: 400 });

  test('is what was billed plus the ratio times the estimate of what came after', () => {
    const after = totalOf(estimateMessages(view.slice(3), estimateText, MODEL));
    expect(measure({ ...input, anchor })).toMatchObject({ total: 9_400 + Math.ceil(1.25 * after), isAnchored: true });
  });

  test('reads nothing of what was billed: a step costs as much in a long view as in a short one', () => {
    const unreadable = view.slice(0, 2).map(({ id, seq, role, model }): (typeof view)[number] => ({
      id,
      seq,
      role,
      model,
      get parts(): never {
        throw new Error(`message ${seq} was billed already`);
      },
    }));
    const { total } = measure({ ...input, view: [...unreadable, ...view.slice(2)], anchor });
    expect(total).toBe(measure({ ...input, anchor }).total);
  });

  test('counts the results of the calls that the anchor made: no call was billed for them yet', () => {
    const atCall = anchorAt(2, { inputTokens: 5_000, outputTokens: 100 });
    const untilCall = view.slice(0, 2);
    const after = estimateAfter(untilCall, atCall, estimateText, MODEL);
    expect(after).toBeGreaterThan(estimateText('export const a = 1;\n'.repeat(300)));
    expect(measure({ ...input, view: untilCall, anchor: atCall }).total).toBe(5_100 + Math.ceil(1.25 * after));
  });

  test('never adds the cached tokens: they are part of the input', () => {
    const cached = anchorAt(3, {
      inputTokens: 9_000,
      outputTokens: 400,
      cacheReadTokens: 8_000,
      cacheWriteTokens: 900,
      totalTokens: 9_400,
    });
    expect(measure({ ...input, anchor: cached })).toEqual(measure({ ...input, anchor }));
  });

  test('leaves out the reasoning that is not sent again', () => {
    const thought = anchorAt(3, { inputTokens: 9_000, outputTokens: 400, reasoningTokens: 350 });
    expect(coveredTokens(view, thought, MODEL)).toBe(9_050);
  });

  test('keeps the reasoning that is sent again', () => {
    const thought = anchorAt(3, { inputTokens: 9_000, outputTokens: 400, reasoningTokens: 350 });
    const signed = view.with(2, assistantOf(3, signedReasoning('hm'), textOf('It exports a constant.')));
    expect(coveredTokens(signed, thought, MODEL)).toBe(9_400);
  });

  test('survives a provider that counts more reasoning than output', () => {
    expect(
      coveredTokens(view, anchorAt(3, { inputTokens: 9_000, outputTokens: 10, reasoningTokens: 350 }), MODEL),
    ).toBe(9_000);
  });

  test.each([
    ['its message is not in the view any more', { anchor: anchorAt(99, { inputTokens: 9_000 }) }],
    ['its message is the user’s', { anchor: anchorAt(4, { inputTokens: 9_000 }) }],
    ['another model wrote it', { anchor, model: 'openai/gpt-5.4' }],
    ['the provider billed nothing', { anchor: anchorAt(3, { outputTokens: 400 }) }],
  ])('estimates everything when %s', (_, change) => {
    expect(measure({ ...input, ...change })).toEqual(measure({ ...input, ...change, anchor: null }));
  });

  test('never runs the tokenizer over what was billed', () => {
    const counted: string[] = [];
    measure({
      ...input,
      anchor,
      count: (text) => {
        counted.push(text);
        return estimateText(text);
      },
    });
    expect(counted).toEqual(['Thank you. And the other one? '.repeat(10)]);
  });
});

describe('the kinds', () => {
  test('tell what the tokens are spent on', () => {
    const { byKind } = measure({ ...input, anchor: anchorAt(3, { inputTokens: 9_000, outputTokens: 400 }) });
    expect(byKind.toolResults).toBeGreaterThan(byKind.tools);
    expect(byKind.tools).toBeGreaterThan(byKind.instructions);
    expect(byKind).toMatchObject({ reasoning: 0, files: 0, summary: 0 });
  });
});

test('the overhead counts instructions, and tools with names, descriptions and schemas', () => {
  const tool = { name: 'read', description: 'Reads a file.', inputSchema: { type: 'object', properties: {} } };
  const one = estimateOverhead('You are helpful.', [tool], estimateText);
  const two = estimateOverhead('You are helpful.', [tool, { name: 'list', inputSchema: {} }], estimateText);
  expect(one.instructions).toBe(estimateText('You are helpful.'));
  expect(one.tools).toBeGreaterThan(estimateText('Reads a file.') + estimateText(JSON.stringify(tool.inputSchema)));
  expect(two.tools).toBeGreaterThan(one.tools);
  expect(estimateOverhead('', [], estimateText)).toEqual({ instructions: 0, tools: 0 });
});

describe('whatever the view', () => {
  const tokens = fc.nat(200_000);
  const anyInput = fc.record({
    view: anyView,
    model: anyModel,
    overheadTokens: fc.record({ instructions: tokens, tools: tokens }),
    ratio: fc.double({ min: 0.5, max: 4, noNaN: true }),
    anchor: fc.option(
      fc.record({
        messageSeq: fc.integer({ min: 1, max: 8 }),
        usage: fc
          .record({ inputTokens: tokens, outputTokens: tokens, reasoningTokens: tokens })
          .map((usage) => usageOf(usage)),
      }),
    ),
    count: fc.constant(estimateText),
  });

  test('a measurement is a whole number, never negative, and the sum of its kinds', () => {
    fc.assert(
      fc.property(anyInput, (any) => {
        const { total, byKind } = measure(any);
        expect(Number.isInteger(total) && total >= 0).toBe(true);
        expect(TOKEN_KINDS.every((kind) => Number.isInteger(byKind[kind]) && byKind[kind] >= 0)).toBe(true);
        expect(TOKEN_KINDS.reduce((sum, kind) => sum + byKind[kind], 0)).toBe(total);
      }),
    );
  });

  test('appending to a view never lowers it, anchored or not', () => {
    fc.assert(
      fc.property(anyInput, anyView, fc.nat(8), (any, more, kept) => {
        const anchor = any.anchor;
        const head = any.view.slice(0, Math.max(kept, anchor?.messageSeq ?? 0));
        const appended = [...head, ...more.map((message, index) => ({ ...message, seq: head.length + index + 1 }))];
        // An anchor that only the longer view holds belongs to a later call.
        const input = { ...any, anchor: head.some(({ seq }) => seq === anchor?.messageSeq) ? anchor : null };
        expect(measure({ ...input, view: appended }).total).toBeGreaterThanOrEqual(
          measure({ ...input, view: head }).total,
        );
      }),
    );
  });

  test('a higher ratio never measures less', () => {
    fc.assert(
      fc.property(anyInput, fc.double({ min: 1, max: 4, noNaN: true }), (any, factor) => {
        expect(measure({ ...any, ratio: any.ratio * factor }).total).toBeGreaterThanOrEqual(measure(any).total);
      }),
    );
  });
});
