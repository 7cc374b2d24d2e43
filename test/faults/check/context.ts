import type { Snapshot } from './snapshot.ts';

export type ContextFindings = Readonly<{
  /** Rounds of compaction that were never closed. */
  unsettled: readonly string[];
  /** Steps, answers and ends of runs in the middle of a round; starts and ends of rounds that do not alternate. */
  outOfOrder: readonly string[];
  /** Events that do not match the rounds; summaries without a round, or rounds without their summary. */
  invalid: readonly string[];
}>;

const CLOSES = ['compaction:complete', 'compaction:failed'];
const NOT_MEANWHILE = [
  'step:started',
  'llm:response',
  'run:completed',
  'run:failed',
  'run:cancelled',
  'run:incomplete',
];

/** Judges every round of compaction. */
export function checkContext({ compactions, sessions, messages, events }: Snapshot): ContextFindings {
  const unsettled = [
    ...compactions.flatMap(({ id, state }) => (state === 'running' ? [`compaction ${id} is open`] : [])),
    ...sessions.flatMap(({ id, isCompacting }) => (isCompacting ? [`session ${id} says that it is compacting`] : [])),
  ];
  const eventsOf = Map.groupBy(events, ({ sessionId }) => sessionId);
  const roundsOf = Map.groupBy(compactions, ({ sessionId }) => sessionId);
  const summariesOf = Map.groupBy(
    messages.filter(({ isSummary }) => isSummary),
    ({ sessionId }) => sessionId,
  );
  const outOfOrder: string[] = [];
  const invalid: string[] = [];
  for (const { id } of sessions) {
    const own = eventsOf.get(id) ?? [];
    outOfOrder.push(...misplacedRounds(own).map((what) => `${what} of ${id}`));
    const rounds = roundsOf.get(id) ?? [];
    const told = (types: readonly string[]): number => own.filter(({ type }) => types.includes(type)).length;
    const completed = rounds.filter(({ state }) => state === 'completed').length;
    const counts: readonly (readonly [what: string, is: number, of: number])[] = [
      ['rounds begun', told(['compaction:start']), rounds.length],
      ['rounds completed', told(['compaction:complete']), completed],
      ['rounds failed', told(['compaction:failed']), rounds.length - completed],
      ['summaries', summariesOf.get(id)?.length ?? 0, completed],
    ];
    invalid.push(...counts.flatMap(([what, is, of]) => (is === of ? [] : [`${what} of ${id}: ${is} of ${of}`])));
  }
  return { unsettled, outOfOrder, invalid };
}

function misplacedRounds(events: Snapshot['events']): string[] {
  let isOpen = false;
  return events.flatMap(({ type, seq }) => {
    const wasOpen = isOpen;
    if (type === 'compaction:start') isOpen = true;
    else if (CLOSES.includes(type)) isOpen = false;
    else return wasOpen && NOT_MEANWHILE.includes(type) ? [`${type} in the middle of a compaction (${seq})`] : [];
    return wasOpen === isOpen ? [`${type} after another one (${seq})`] : [];
  });
}
