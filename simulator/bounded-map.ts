export type BoundedMap<K, V> = Readonly<{
  get: (key: K) => V | undefined;
  set: (key: K, value: V) => void;
  clear: () => void;
}>;

/** Evicts the least recently used entry beyond `limit`. */
export function createBoundedMap<K, V>(limit: number): BoundedMap<K, V> {
  const entries = new Map<K, V>();
  return {
    get: (key) => {
      const value = entries.get(key);
      if (value === undefined) return undefined;
      entries.delete(key);
      entries.set(key, value);
      return value;
    },
    set: (key, value) => {
      entries.delete(key);
      entries.set(key, value);
      if (entries.size <= limit) return;
      const oldest = entries.keys().next();
      if (!oldest.done) entries.delete(oldest.value);
    },
    clear: () => entries.clear(),
  };
}
