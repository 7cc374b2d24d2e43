import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  type ConversationMessage,
  canonicalMessage,
  parseArgs,
  splitConversation,
} from '../../src/domain/transcript/conversation.ts';

const text = fc.oneof(fc.string(), fc.constantFrom('', 'a', 'b', '["user","a"]', 'a","b'));
const message: fc.Arbitrary<ConversationMessage> = fc.oneof(
  fc.record({ role: fc.constant('user' as const), text }),
  fc.record({ role: fc.constant('tool' as const), text, callId: text }),
  fc.record({
    role: fc.constant('assistant' as const),
    text,
    calls: fc.array(
      fc.record({
        id: text,
        name: text,
        args: fc.oneof(fc.json({ maxDepth: 2 }), text, fc.constantFrom('{"a":1}', '[["a",1]]', '{"a":1')),
      }),
      { maxLength: 2 },
    ),
  }),
);
const conversation = fc.array(message, { maxLength: 6 });

/** The same conversation as another client would send it: other white space, and another order of keys. */
function spelledOtherwise(messages: readonly ConversationMessage[]): ConversationMessage[] {
  return messages.map((each) => {
    const said = `\n ${each.text}  `;
    if (each.role !== 'assistant') return { ...each, text: said };
    const calls = each.calls.map((call) => {
      const value = parseArgs(call.args);
      return value === undefined ? call : { ...call, args: JSON.stringify(reversed(value), null, 2) };
    });
    return { ...each, text: said, calls };
  });
}

function reversed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reversed);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .toReversed()
      .map(([key, inner]) => [key, reversed(inner)]),
  );
}

const canonicalConversation = (messages: readonly ConversationMessage[]): string =>
  JSON.stringify(messages.map(canonicalMessage));

const trimmed = (messages: readonly ConversationMessage[]) =>
  messages.map((each) => ({
    ...each,
    text: each.text.trim(),
    ...(each.role === 'assistant' && {
      calls: each.calls.map((call) => ({ ...call, args: parseArgs(call.args) ?? [call.args, 'no JSON'] })),
    }),
  }));

describe('a conversation that a client sends again', () => {
  test('is split where the assistant spoke last', () => {
    fc.assert(
      fc.property(conversation, (messages) => {
        const { history, news } = splitConversation(messages);
        expect([...history, ...news]).toEqual(messages);
        if (history.length > 0) expect(history.at(-1)?.role).toBe('assistant');
      }),
    );
  });

  test('is the same however it is spelled', () => {
    fc.assert(
      fc.property(conversation, (messages) => {
        expect(canonicalConversation(spelledOtherwise(messages))).toBe(canonicalConversation(messages));
      }),
    );
  });

  test('is never the same as another one', () => {
    fc.assert(
      fc.property(conversation, conversation, (one, two) => {
        const isSame = JSON.stringify(reversedKeys(trimmed(one))) === JSON.stringify(reversedKeys(trimmed(two)));
        expect(canonicalConversation(one) === canonicalConversation(two)).toBe(isSame);
      }),
    );
  });

  test('is another one with another file', () => {
    const result = (...names: string[]): ConversationMessage[] => {
      const parts = names.map((name) => ({ type: 'file' as const, mediaType: 'image/png', url: `data:,${name}` }));
      return [{ role: 'tool', callId: 'a', text: '', ...(parts.length > 0 && { parts }) }];
    };
    const different = [result(), result('a'), result('b'), result('a', 'b'), result('b', 'a')];
    expect(new Set(different.map(canonicalConversation)).size).toBe(different.length);
    expect(canonicalConversation(result('a'))).toBe(canonicalConversation(result('a')));
  });

  test('has arguments that are JSON, or a text that is none', () => {
    const calls = (args: string): ConversationMessage[] => [
      { role: 'assistant', text: '', calls: [{ id: 'a', name: 'b', args }] },
    ];
    const different = ['{"a":1}', '[["a",1]]', '"{\\"a\\":1}"', '{"a":1', '["json",{"a":1}]', ''];
    expect(new Set(different.map((args) => canonicalConversation(calls(args)))).size).toBe(different.length);
  });
});

/** Puts the keys of all objects in one fixed order. */
function reversedKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reversedKeys);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? 1 : -1));
  return ['object', ...entries.map(([key, inner]) => [key, reversedKeys(inner)])];
}

test.each([
  ['{"a":[1,null]}', { a: [1, null] }],
  ['0', 0],
  ['', undefined],
  ['{"a":', undefined],
  ['['.repeat(100) + ']'.repeat(100), expect.any(Array)],
  ['['.repeat(102) + ']'.repeat(102), undefined],
  ['['.repeat(100_000) + ']'.repeat(100_000), undefined],
])('arguments are a value where they are JSON that is not too deep: %#', (args, value) => {
  expect(parseArgs(args)).toEqual(value);
});
