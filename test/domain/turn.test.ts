import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { planContinuation, planRepetition, type TurnState } from '../../src/domain/run/turn.ts';
import {
  beginsAnswer,
  type ConversationMessage,
  continuationsOf,
  splitConversation,
} from '../../src/domain/transcript/conversation.ts';
import { NO_USAGE } from '../../src/domain/usage.ts';

const user = (text: string): ConversationMessage => ({ role: 'user', text });
const assistant = (text: string, id?: string): ConversationMessage => ({
  role: 'assistant',
  text,
  calls: id === undefined ? [] : [{ id, name: 'look', args: '{}' }],
});
const tool = (callId: string): ConversationMessage => ({ role: 'tool', text: 'seen', callId });
const pointsOf = (messages: readonly ConversationMessage[]) =>
  continuationsOf(splitConversation(messages)).map(({ known, partial, said }) => [known.length, partial, said.length]);

describe('where a conversation goes on', () => {
  test('is after the answer, after a part of it, or after a question without one', () => {
    expect(pointsOf([user('a')])).toEqual([]);
    expect(pointsOf([user('a'), assistant('b'), user('c')])).toEqual([
      [2, null, 1],
      [1, 'b', 1],
    ]);
    expect(pointsOf([user('a'), user('b')])).toEqual([[1, '', 1]]);
    expect(pointsOf([user('a'), assistant('', 'call'), tool('call'), user('c')])).toEqual([[3, '', 1]]);
    expect(pointsOf([user('a'), assistant('', 'call'), user('c')])).toEqual([[2, null, 1]]);
    expect(pointsOf([user('a'), assistant('', 'call'), tool('call')])).toEqual([]);
    expect(pointsOf(['a', 'b', 'c', 'd', 'e'].map(user))).toEqual([
      [4, '', 1],
      [3, '', 2],
      [2, '', 3],
    ]);
  });

  test('is in the session whose answer begins with what the client has of it', () => {
    const texts = ['Let me look.', 'It is sunny.'];
    expect(['', 'Let me', 'Let me look.\n\nIt is', 'It is sunny. '].map((part) => beginsAnswer(part, texts))).toEqual(
      Array(4).fill(true),
    );
    expect(beginsAnswer('⚙️ Compacting…\n\n✅ Compacted: 9 → 3 tokens\n\nLet', texts)).toBe(true);
    expect(
      ['sunny', 'Let me look. It was', 'Let me look. It is sunny. And'].map((part) => beginsAnswer(part, texts)),
    ).toEqual(Array(3).fill(false));
    expect(beginsAnswer('Let', [])).toBe(false);
  });

  test('is there in whatever step that answer begins', () => {
    const bare = (text: string) =>
      text.replaceAll(/⚙️ Compacting…|✅ Compacted: \d+ → \d+ tokens/g, '').replaceAll(/\s+/g, '');
    const piece = fc.constantFrom('a', 'b', 'ab', ' ', '\n', '⚙️ Compacting…', '✅ Compacted: 9 → 3 tokens');
    const text = fc.array(piece, { maxLength: 6 }).map((pieces) => pieces.join(''));
    let held = 0;
    fc.assert(
      fc.property(text, fc.array(text, { maxLength: 6 }), (partial, texts) => {
        const tails = texts.map((_, from) => bare(texts.slice(from).join('')));
        const isBegun = bare(partial) === '' || tails.some((tail) => tail.startsWith(bare(partial)));
        if (isBegun && bare(partial) !== '') held++;
        expect(beginsAnswer(partial, texts)).toBe(isBegun);
      }),
    );
    expect(held).toBeGreaterThan(0);
  });
});

const state = (given: Partial<TurnState> = {}): TurnState => ({
  turn: { runId: 'r', messageId: null, afterSeq: null, usedBefore: NO_USAGE, key: null },
  status: 'running',
  endedMsAgo: null,
  isAnswered: false,
  hasReader: true,
  isIdle: false,
  ...given,
});
const idle = { isIdle: true, endedMsAgo: 100 } as const;
const AGAIN = { key: null, isRetry: true };
const ANOTHER = { key: null, isRetry: false };

describe('a request that asks what was asked last', () => {
  test.each([
    ['joins the run when it says so', state(), AGAIN, 'join'],
    ['is somebody else’s when it does not', state(), ANOTHER, null],
    ['joins a run that nobody listens to', state({ hasReader: false }), ANOTHER, 'join'],
    ['joins one that has not begun', state({ status: null, hasReader: false }), ANOTHER, 'join'],
    [
      'goes on where its message was left waiting',
      state({ status: null, hasReader: false, ...idle }),
      ANOTHER,
      'resume',
    ],
    ['goes on likewise when it says so', state({ status: null, ...idle }), AGAIN, 'resume'],
    ['is somebody else’s while another one is told of it', state({ status: null, ...idle }), ANOTHER, null],
    ['is told the answer once more', state({ status: 'completed', isAnswered: true, ...idle }), AGAIN, 'join'],
    ['is told the failure once more', state({ status: 'failed', ...idle }), AGAIN, 'join'],
    ['is not told an old answer', state({ status: 'completed', ...idle, endedMsAgo: 90_000 }), AGAIN, null],
    ['begins anew after an answer', state({ status: 'completed', isAnswered: true, ...idle }), ANOTHER, null],
    ['goes on after a failure', state({ status: 'failed', ...idle }), ANOTHER, 'resume'],
    ['goes on where a limit ended it', state({ status: 'incomplete', ...idle, hasReader: false }), ANOTHER, 'resume'],
    ['does not where that is being told as the answer', state({ status: 'incomplete', ...idle }), ANOTHER, null],
    ['is told what a limit left once more', state({ status: 'incomplete', ...idle }), AGAIN, 'join'],
    ['goes on after a cancel', state({ status: 'cancelled', ...idle }), AGAIN, 'resume'],
    ['waits for a cancel', state({ status: 'cancelling' }), AGAIN, 'wait'],
    ['does not resume a session that is at work', state({ status: 'cancelled' }), AGAIN, null],
    ['has the same key, or is another one', state(), { key: 'k', isRetry: true }, null],
  ] as const)('%s', (_, given, repetition, plan) => {
    expect(planRepetition(given, repetition)).toBe(plan);
  });

  test('with the same key is the same, however old', () => {
    const keyed = state({ status: 'completed', ...idle, endedMsAgo: 9e6, isAnswered: true });
    const given = { ...keyed, turn: { ...keyed.turn, key: 'k' } };
    expect([planRepetition(given, { key: 'k', isRetry: false }), planRepetition(given, AGAIN)]).toEqual(['join', null]);
  });
});

describe('a message that goes on', () => {
  test.each([
    ['is taken by an idle session', state(idle), null, 'take'],
    ['is not taken where the client leaves out a whole answer', state({ ...idle, isAnswered: true }), '', null],
    ['is taken where it has a part of a whole one', state({ ...idle, isAnswered: true }), 'part', 'take'],
    ['is taken where nobody listens', state({ hasReader: false }), '', 'take'],
    ['waits for what was told to be kept', state({ hasReader: false }), 'part', 'wait'],
    ['waits for who may be going away', state(), '', 'wait'],
    ['waits for a cancel', state({ status: 'cancelling', hasReader: false }), '', 'wait'],
    ['leaves a session alone that does something else', state({ status: 'failed', hasReader: false }), '', null],
  ] as const)('%s', (_, given, partial, plan) => {
    expect(planContinuation(given, partial)).toBe(plan);
  });
});
