type Line<Answer> = { readonly underWay: Promise<Answer>; next: Promise<Answer> | null };

/**
 * Shares a read among callers that ask for the same. One runs at a time, and callers that come meanwhile share the next
 * one: it begins after all of them asked, so each sees all that was committed when it asked. Nothing is cached.
 *
 * Without it, the readers of a busy session would hold up the queries of other sessions.
 * @param keyOf tells apart reads that must not be shared
 */
export function shareReads<Db extends object, Asked, Answer>(
  read: (db: Db, request: Asked) => Promise<Answer>,
  keyOf: (request: Asked) => string,
): (db: Db, request: Asked) => Promise<Answer> {
  const byDatabase = new WeakMap<Db, Map<string, Line<Answer>>>();
  return (db, request) => {
    const lines = byDatabase.get(db) ?? new Map<string, Line<Answer>>();
    byDatabase.set(db, lines);
    const key = keyOf(request);
    const begin = (): Promise<Answer> => {
      const line: Line<Answer> = { underWay: read(db, request), next: null };
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
