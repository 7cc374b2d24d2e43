/** Short texts by the id of a session. A text differs when a list has to show its session anew. */
export type ActivityView = Readonly<{
  /** All sessions at work, and whether there are more than were read. */
  active: ReadonlyMap<string, SeenSession>;
  hasMore: boolean;
  /** The newest sessions, at work or not. */
  newest: ReadonlyMap<string, SeenSession>;
}>;

export type SeenSession = Readonly<{ runId: string | null; signature: string }>;

export type ActivityChange = Readonly<
  /** So many have changed that lists are read again as a whole. */
  { kind: 'overflow' } | { kind: 'changed'; sessionIds: readonly string[]; runIds: readonly string[] }
>;

const MOST_CHANGED = 200;

/** The changes between two views. Null: none. */
export function changesBetween(before: ActivityView, after: ActivityView): ActivityChange | null {
  const sessions = new Map<string, Set<string>>();
  const note = (id: string, ...seen: readonly (SeenSession | undefined)[]): void => {
    const runs = sessions.get(id) ?? new Set<string>();
    for (const each of seen) if (typeof each?.runId === 'string') runs.add(each.runId);
    sessions.set(id, runs);
  };
  for (const [id, seen] of after.active) {
    const known = before.active.get(id);
    if (known?.signature !== seen.signature) note(id, known, seen);
  }
  // A session that is not at work any more; with more than were read it may only have been pushed out.
  for (const [id, earlier] of before.active) if (!after.active.has(id)) note(id, earlier, after.newest.get(id));
  for (const [id, seen] of after.newest) {
    const previous = before.newest.get(id);
    if (previous !== undefined ? previous.signature !== seen.signature : !before.active.has(id))
      note(id, previous, seen);
  }
  if (sessions.size === 0) return null;
  if (sessions.size > MOST_CHANGED || after.hasMore) return { kind: 'overflow' };
  const runIds = new Set([...sessions.values()].flatMap((runs) => [...runs]));
  return { kind: 'changed', sessionIds: [...sessions.keys()], runIds: [...runIds] };
}
