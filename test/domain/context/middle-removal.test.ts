import { describe, expect, it } from 'vitest';
import { MIN_REMOVAL_TOKENS, removalBody } from '../../../src/domain/context/compaction/middle-removal.ts';
import { countText } from './compaction-view.ts';
import { assistantOf, textOf, userOf } from './measure-view.ts';

const head = [
  userOf(1, textOf('First wish.')),
  assistantOf(2, textOf('On it.')),
  userOf(3, textOf('Second\n  wish.')),
  assistantOf(4, textOf('Done.')),
];

describe('a middle that is removed without a model', () => {
  it('says how much went, and that nobody knows what it did', () => {
    const body = removalBody(head, '', 500, countText);
    expect(body).toContain('4 messages were removed');
    expect(body).toContain('look before repeating work');
  });

  it('quotes the user, the newest first, each on a line', () => {
    const body = removalBody(head, '', 500, countText);
    expect(body.split('\n').slice(-2)).toEqual(['- msg_3: Second wish.', '- msg_1: First wish.']);
    expect(body).not.toContain('On it.');
  });

  it('quotes as much as there is room for', () => {
    const many = Array.from({ length: 50 }, (_, at) => userOf(at + 1, textOf(`Wish ${at}: ${'w'.repeat(100)}`)));
    const body = removalBody(many, '', 300, countText);
    expect(countText(body)).toBeLessThanOrEqual(300);
    expect(body).toContain('Wish 49:');
    expect(body).not.toContain('Wish 0:');
  });

  it('quotes a long message by its head and tail', () => {
    const body = removalBody([userOf(1, textOf(`BEGIN ${'w'.repeat(5_000)} END`))], '', 500, countText);
    expect(body).toMatch(/- msg_1: BEGIN .* END$/);
    expect(body.length).toBeLessThan(700);
  });

  it('keeps what the summary before it said, whole', () => {
    const body = removalBody(head, '## Goal\nPort the parser.', 500, countText);
    expect(body.startsWith('## Goal\nPort the parser.\n\n')).toBe(true);
  });

  it('tells once what went, and carries the quotes of the removal before', () => {
    const body = removalBody(
      [userOf(9, textOf('Third wish.'))],
      removalBody(head, 'S.', 500, countText),
      500,
      countText,
    );
    expect(body.match(/Removed without a summary/g)).toHaveLength(1);
    expect(body.split('\n').slice(-3)).toEqual([
      '- msg_9: Third wish.',
      '- msg_3: Second wish.',
      '- msg_1: First wish.',
    ]);
    expect(body.startsWith('S.\n\n')).toBe(true);
  });

  it('fits the least room that a removal asks for', () => {
    expect(countText(removalBody(head.slice(1, 2), '', 0, countText))).toBeLessThanOrEqual(MIN_REMOVAL_TOKENS);
  });
});
