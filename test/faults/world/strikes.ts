/** Counts of the harm that was done to a world, by name. */
export type Strikes = Readonly<{
  /** Counts a harm once, or `times` times. 0 notes that the harm is still to be done. */
  add: (what: string, times?: number) => void;
  of: (what: string) => number;
  counts: () => Readonly<Record<string, number>>;
}>;

/** The name under which every kill of a worker is counted. */
export const KILLS_OF_WORKERS = 'kills';

export function createStrikes(): Strikes {
  const counts = new Map<string, number>();
  const of = (what: string): number => counts.get(what) ?? 0;
  return {
    add: (what, times = 1) => void counts.set(what, of(what) + times),
    of,
    counts: () => Object.fromEntries(counts),
  };
}
