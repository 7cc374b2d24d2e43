import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Part } from '../../src/domain/transcript/message.ts';
import { toPart } from '../../src/store/transcript/messages.ts';
import { anyView } from '../domain/view-arbitrary.ts';

/** A part as its columns hold it. */
function stored(part: Part): { content: unknown; state: string | null } {
  const { state, ...content } = { state: undefined, ...part };
  return { content: JSON.parse(JSON.stringify(content)), state: state ?? null };
}

const call = { type: 'tool', toolCallId: 'c1', toolName: 'read', input: { path: 'a.ts' } };

describe('a part out of the database', () => {
  it('is the part that was stored', () => {
    fc.assert(
      fc.property(anyView, (view) => {
        for (const { marks: _marks, ...part } of view.flatMap((message) => message.parts)) {
          const { content, state } = stored(part);
          expect(toPart(content, state)).toEqual(JSON.parse(JSON.stringify(part)));
        }
      }),
    );
  });

  it.each<[string, unknown, string | null]>([
    ['no object', 'text', null],
    ['no object, with a state', 'text', 'completed'],
    ['nothing', null, 'completed'],
    ['a list', [call], 'completed'],
    ['of no known type', { ...call, type: 'spell' }, 'completed'],
    ['a call without an input', { ...call, input: undefined }, 'completed'],
    ['a call without a state', call, null],
    ['a call in no known state', call, 'gone'],
    ['a call with a key that nobody knows', { ...call, surprise: 1 }, 'completed'],
    ['a call with an output of no known kind', { ...call, output: { type: 'sound', value: 'x' } }, 'completed'],
    ['a text with metadata that no provider gave', { type: 'text', text: 'a', providerMetadata: { a: 'b' } }, null],
    ['a call with an empty output', { ...call, output: { type: 'json' } }, 'completed'],
  ])('is refused when it is %s', (_name, content, state) => {
    expect(() => toPart(content, state)).toThrow();
  });
});
