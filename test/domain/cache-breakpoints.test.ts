import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CACHE_BREAKPOINT, withCacheBreakpoints } from '../../src/domain/model/cache-breakpoints.ts';
import { frameSummary } from '../../src/domain/model/model-frames.ts';
import type { ModelMessage } from '../../src/domain/model/model-message.ts';
import { toModelMessages } from '../../src/domain/model/model-messages.ts';
import { anyModel, anyView } from './view-arbitrary.ts';

const text = (content: string) => ({ type: 'text' as const, text: content });
const user = (...texts: string[]): ModelMessage => ({ role: 'user', content: texts.map(text) });
const step = (id: string): ModelMessage[] => [
  { role: 'assistant', content: [{ type: 'tool-call', toolCallId: id, toolName: 'look', input: {} }] },
  {
    role: 'tool',
    content: [{ type: 'tool-result', toolCallId: id, toolName: 'look', output: { type: 'text', value: 'seen' } }],
  },
];

/** The marked places, as `message.part`. */
function marks(messages: readonly ModelMessage[]): string[] {
  return messages.flatMap(({ content }, index) =>
    content.flatMap(({ providerOptions }, at) =>
      providerOptions?.['anthropic']?.['cacheControl'] === undefined ? [] : [`${index}.${at}`],
    ),
  );
}

/** The messages without the empty options that a removed mark leaves behind. */
function unmarked(messages: readonly ModelMessage[]): unknown {
  return JSON.parse(JSON.stringify(messages).replaceAll(/,?"cacheControl":\{"type":"ephemeral"\}/g, ''));
}

describe('the cache marks of a prompt', () => {
  it('stand on the last message alone at the start', () => {
    expect(marks(withCacheBreakpoints([user('Go.', 'Now!')]))).toEqual(['0.1']);
    expect(withCacheBreakpoints([])).toEqual([]);
  });

  it('stand on the last message and where the request before had its last one', () => {
    const first = [user('Go.'), ...step('a')];
    const second = [...first, ...step('b'), user('Faster!')];
    expect(marks(withCacheBreakpoints(first))).toEqual(['0.0', '2.0']);
    expect(marks(withCacheBreakpoints(second))).toEqual(['2.0', '5.0']);
  });

  it('stand on the summary, not on what follows it in the same message', () => {
    const summary = [user(frameSummary('So far.'), 'Go.'), ...step('a'), ...step('b')];
    expect(marks(withCacheBreakpoints(summary))).toEqual(['0.0', '2.0', '4.0']);
    const elsewhere = [user('Go.'), ...step('a'), user(frameSummary('So far.')), ...step('b')];
    expect(marks(withCacheBreakpoints(elsewhere))).toEqual(['3.0', '5.0']);
  });

  it('are never more than three, so that the instructions can have the fourth, and stand where they may', () => {
    fc.assert(
      fc.property(anyView, anyModel, (view, model) => {
        const messages = withCacheBreakpoints(toModelMessages(view, { model }));
        const marked = messages.flatMap(({ role, content }) =>
          content.filter(({ providerOptions }) => providerOptions?.['anthropic']?.['cacheControl']).map(() => role),
        );
        expect(marked.length).toBeGreaterThanOrEqual(1);
        expect(marked.length).toBeLessThanOrEqual(3);
        expect(marked).not.toContain('assistant');
        expect(marks(messages).at(-1)).toBe(`${messages.length - 1}.${(messages.at(-1)?.content.length ?? 0) - 1}`);
      }),
    );
  });

  it('change nothing else, and are the same on a prompt that has them', () => {
    fc.assert(
      fc.property(anyView, anyModel, (view, model) => {
        const messages = toModelMessages(view, { model });
        const before = JSON.stringify(messages);
        const marked = withCacheBreakpoints(messages);
        expect(JSON.stringify(messages)).toBe(before);
        expect(marked.map(({ role, content }) => [role, content.map(({ type }) => type)])).toEqual(
          messages.map(({ role, content }) => [role, content.map(({ type }) => type)]),
        );
        expect(unmarked(withCacheBreakpoints(marked))).toEqual(unmarked(marked));
        expect(marks(withCacheBreakpoints(marked))).toEqual(marks(marked));
      }),
    );
  });

  it('replace those that a message came with, in either spelling, and keep its other options', () => {
    const { anthropic } = CACHE_BREAKPOINT;
    const messages: ModelMessage[] = [
      { role: 'user', content: [{ ...text('A'), providerOptions: { anthropic: { ...anthropic, other: 1 } } }] },
      { role: 'assistant', content: [{ ...text('B'), providerOptions: { anthropic: { cache_control: 'x' } } }] },
      user('C'),
      { role: 'assistant', content: [text('D')] },
      user('E'),
    ];
    const result = withCacheBreakpoints(messages);
    expect(marks(result)).toEqual(['2.0', '4.0']);
    expect(result[0]?.content[0]?.providerOptions).toEqual({ anthropic: { other: 1 } });
    expect(JSON.stringify(result)).not.toContain('cache_control');
  });
});
