import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FREE_PIECE_CHARS, MAX_PIECE_CHARS } from '../../../src/domain/tunables.ts';
import { createEventTexts } from '../../../src/model/wire/event-texts.ts';
import { createPieceRooms, piecesBudget } from '../../../src/model/wire/piece-room.ts';

const MIB = 1_048_576;

describe('the texts of events', () => {
  it('are those of a split of the whole, wherever the pieces of the stream end', () => {
    const letter = fc.constantFrom('\r', '\n', '\r\n', '\n\n', 'a', 'data: b');
    fc.assert(
      fc.property(fc.array(letter), fc.array(fc.nat({ max: 40 })), (letters, cuts) => {
        const whole = letters.join('');
        const places = [0, ...cuts.filter((at) => at < whole.length).toSorted((a, b) => a - b), whole.length];
        using room = createPieceRooms(MIB).open();
        const texts = createEventTexts(room);
        const found = places.slice(1).flatMap((upto, no) => texts.push(whole.slice(places[no], upto)));
        const shown = [...found, texts.rest()]
          .map((text) => text.replace(/[\r\n]+/g, ''))
          .filter((text) => text !== '');
        const expected = whole.split(/\r?\n\r?\n/).map((text) => text.replace(/[\r\n]+/g, ''));
        expect(shown).toEqual(expected.filter((text) => text !== ''));
      }),
    );
  });

  it('are found in one search of each piece, also in an event of many pieces', () => {
    using room = createPieceRooms(256 * MIB).open();
    const texts = createEventTexts(room);
    const piece = 'x'.repeat(16_384);
    // A search of all that is held with each piece would look at 64 GB.
    for (let no = 0; no < 4_000; no++) expect(texts.push(piece)).toEqual([]);
    expect(texts.push('\n\n').map(({ length }) => length)).toEqual([4_000 * 16_384]);
  });
});

describe('the room for what is not whole yet', () => {
  it.each([
    ['a small heap', 0, 64],
    ['a heap of 1 GiB', 1_024 * MIB, 128],
    ['a large heap', 16_384 * MIB, 256],
  ])('of %s is enough for the largest answer', (_what, heap, mib) => {
    expect(piecesBudget(heap)).toBe(mib * MIB);
    expect(mib * MIB).toBeGreaterThanOrEqual(MAX_PIECE_CHARS);
  });

  it('is not needed by small pieces, has a bound for one answer and one for all, and is given back', () => {
    const rooms = createPieceRooms(100 * MIB);
    using large = rooms.open();
    using other = rooms.open();
    large.hold(FREE_PIECE_CHARS);
    expect(rooms.heldChars()).toBe(0);
    large.hold(MAX_PIECE_CHARS);
    expect(() => large.hold(MAX_PIECE_CHARS + 1)).toThrow(/more than 64 MiB/);
    other.hold(30 * MIB);
    expect(() => other.hold(40 * MIB)).toThrow(/no room for the answer beside/);
    // It holds what it held, until it is told of.
    expect(rooms.heldChars()).toBe(MAX_PIECE_CHARS + 30 * MIB);
    large.hold(0);
    other.hold(40 * MIB);
    expect(rooms.heldChars()).toBe(40 * MIB);
    other[Symbol.dispose]();
    expect(rooms.heldChars()).toBe(0);
  });
});
