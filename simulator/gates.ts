/** A named hold. `reached` settles when a reply first arrives at it; `release` lets it and all later ones pass. */
export type Gate = Readonly<{ reached: Promise<void>; release: () => void }>;

type GateState = Readonly<{ name: string; reached: boolean; released: boolean }>;

export type Gates = Readonly<{
  /** The gate of that name, created on first use. */
  gate: (name: string) => Gate;
  /** Arrives at a gate and waits for its release. Rejects with the signal's reason on abort. */
  pass: (name: string, signal: AbortSignal) => Promise<void>;
  states: () => GateState[];
  clear: () => void;
}>;

type Entry = Gate & { arrive: () => void; released: Promise<void>; isReached: boolean; isReleased: boolean };

/** An empty set of gates. `clear` releases every gate before it removes it. */
export function createGates(): Gates {
  const entries = new Map<string, Entry>();
  const entryOf = (name: string): Entry => {
    const existing = entries.get(name);
    if (existing !== undefined) return existing;
    const created = createEntry();
    entries.set(name, created);
    return created;
  };
  return {
    gate: entryOf,
    pass: async (name, signal) => {
      const entry = entryOf(name);
      entry.arrive();
      await untilAborted(entry.released, signal);
    },
    states: () => [...entries].map(([name, entry]) => ({ name, reached: entry.isReached, released: entry.isReleased })),
    clear: () => {
      for (const entry of entries.values()) entry.release();
      entries.clear();
    },
  };
}

function createEntry(): Entry {
  const reached = Promise.withResolvers<void>();
  const released = Promise.withResolvers<void>();
  const entry: Entry = {
    reached: reached.promise,
    released: released.promise,
    isReached: false,
    isReleased: false,
    arrive: () => {
      entry.isReached = true;
      reached.resolve();
    },
    release: () => {
      entry.isReleased = true;
      released.resolve();
    },
  };
  return entry;
}

/** Waits for a promise or the abort. Rejects with the signal's reason if that comes first. */
export async function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  const aborted = Promise.withResolvers<never>();
  const onAbort = () => aborted.reject(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await Promise.race([promise, aborted.promise]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}
