/** A reproducible source of chance: the same seed gives the same numbers. */
export type Random = Readonly<{
  /** In [0, 1). */
  next: () => number;
  /** A whole number from `low` to `high`, both included. */
  between: (low: number, high: number) => number;
  chance: (probability: number) => boolean;
  /** @throws when there is nothing to pick from */
  pick: <T>(items: readonly T[]) => T;
  /** An independent source: the same for the same seed and name, after any earlier draws. */
  fork: (name: string) => Random;
}>;

/** mulberry32 over a hash of the seed: enough for schedules, not for secrets. */
export function createRandom(seed: string | number): Random {
  let state = hash(String(seed));
  const next = (): number => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const between = (low: number, high: number): number => low + Math.floor(next() * (high - low + 1));
  return {
    next,
    between,
    chance: (probability) => next() < probability,
    pick(items) {
      const item = items[between(0, items.length - 1)];
      if (item === undefined) throw new Error('nothing to pick from');
      return item;
    },
    fork: (name) => createRandom(`${seed}/${name}`),
  };
}

/** FNV-1a. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (const character of text) value = Math.imul(value ^ (character.codePointAt(0) ?? 0), 0x01000193);
  return value;
}
