/** What was done to a world, by its name. */
export type Strikes = Readonly<{
  /** It was done once, or so many times; 0 says that it is to be done. */
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
