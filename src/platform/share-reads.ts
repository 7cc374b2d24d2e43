type Line<Answer> = { readonly underWay: Promise<Answer>; next: Promise<Answer> | null };

/**
 * A read for many callers that ask for the same: one of a kind is under way at a time, and callers that ask meanwhile
 * share the one after it. That one begins after all of them have asked, so each caller sees what was committed when it
 * asked. Nothing is kept. Without it the readers of one busy session are so many queries, and the queries of other
 * sessions wait behind them for a connection.
 * @param keyOf tells apart what must not be shared
 */
export function shareReads<Db extends object, Asked, Answer>(
  read: (db: Db, asked: Asked) => Promise<Answer>,
  keyOf: (asked: Asked) => string,
): (db: Db, asked: Asked) => Promise<Answer> {
  const byDatabase = new WeakMap<Db, Map<string, Line<Answer>>>();
  return (db, asked) => {
    const lines = byDatabase.get(db) ?? new Map<string, Line<Answer>>();
    byDatabase.set(db, lines);
    const key = keyOf(asked);
    const begin = (): Promise<Answer> => {
      const line: Line<Answer> = { underWay: read(db, asked), next: null };
      lines.set(key, line);
      const end = (): void => {
        if (line.next === null) lines.delete(key);
      };
      line.underWay.then(end, end);
      return line.underWay;
    };
    const line = lines.get(key);
    if (line === undefined) return begin();
    line.next ??= line.underWay.then(begin, begin);
    return line.next;
  };
}
