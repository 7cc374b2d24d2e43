import type { Fault } from '../fault.ts';
import { checkEvents } from './events.ts';
import { checkLimits } from './limits.ts';
import { type AcceptedMessage, checkMessages, type ModelRequest } from './messages.ts';
import type { Snapshot } from './snapshot.ts';
import { checkTools } from './tools.ts';
import { checkTranscripts } from './transcript.ts';

export type Observed = Readonly<{
  snapshot: Snapshot;
  accepted: readonly AcceptedMessage[];
  requests: readonly ModelRequest[];
  read: ReadonlyMap<string, readonly Readonly<{ seq: number; type: string }>[]>;
  /** Recoveries where there was nothing to recover. */
  needlessRecoveries: readonly string[];
  /** How processes ended that nobody had killed or told to end. */
  ownEnds: readonly string[];
  /** Set where runs may take so many steps and give a final answer then, which has these words in it. */
  limit?: Readonly<{ maxSteps: number; final: string }>;
}>;

/**
 * Those of the recoveries that nothing called for: all where nothing is lost, and those of workers that were taken for dead
 * where nobody has died.
 * @param recoveries the reason of each
 */
export function needless(
  recoveries: readonly string[],
  { isHarmless, killsNobody }: Pick<Fault, 'isHarmless' | 'killsNobody'>,
  deaths: number,
): string[] {
  if (isHarmless === true) return [...recoveries];
  return killsNobody === true && deaths === 0 ? recoveries.filter((reason) => reason === 'worker_dead') : [];
}

/** What was found wrong, by kind; each entry says what. All but `unknownTools` must be empty. */
export type Findings = Readonly<{
  lostMessages: readonly string[];
  doubledMessages: readonly string[];
  lateSteers: readonly string[];
  repeatedTools: readonly string[];
  lostResults: readonly string[];
  unknownTools: readonly string[];
  outOfOrder: readonly string[];
  eventGaps: readonly string[];
  invalidTranscripts: readonly string[];
  /** Runs that never ended, sessions that are not at rest. */
  stuck: readonly string[];
  /** Runs that ended as failed or incomplete, or otherwise than their limit says: no fault is meant to cost a run. */
  failedRuns: readonly string[];
  needlessRecoveries: readonly string[];
  /** Processes that ended by themselves: no fault is meant to bring one down. */
  crashes: readonly string[];
}>;

const ENDED = ['completed', 'cancelled', 'failed', 'incomplete'];
/** Judges by the database, the ledger, the provider's log and what readers got: by nothing that the product says of itself. */
export function judge({ snapshot, accepted, requests, read, needlessRecoveries, ownEnds, limit }: Observed): Findings {
  const messages = checkMessages(snapshot, accepted, requests, limit?.maxSteps ?? Number.POSITIVE_INFINITY);
  const failed = limit === undefined ? ['failed', 'incomplete'] : ['failed'];
  const tools = checkTools(snapshot);
  const events = checkEvents(snapshot, read);
  const { runs, sessions } = snapshot;
  return {
    lostMessages: messages.lost,
    doubledMessages: messages.doubled,
    lateSteers: messages.late,
    repeatedTools: tools.repeated,
    lostResults: tools.lost,
    unknownTools: tools.unknown,
    outOfOrder: [...messages.outOfOrder, ...events.outOfOrder],
    eventGaps: events.gaps,
    invalidTranscripts: checkTranscripts(snapshot, requests),
    stuck: [
      ...runs.flatMap(({ id, status }) => (ENDED.includes(status) ? [] : [`run ${id} is ${status}`])),
      ...sessions.flatMap(({ id, status }) => (status === 'idle' ? [] : [`session ${id} is ${status}`])),
    ],
    failedRuns: [
      ...runs.flatMap(({ id, status, error }) =>
        failed.includes(status) ? [`run ${id} is ${status}: ${JSON.stringify(error)}`] : [],
      ),
      ...(limit === undefined ? [] : checkLimits(snapshot, limit.maxSteps, limit.final)),
    ],
    needlessRecoveries,
    crashes: ownEnds,
  };
}

/** Kinds of findings that no fault may bring about. */
export function broken(findings: Findings): string[] {
  return Object.entries(findings).flatMap(([kind, all]) => (kind === 'unknownTools' || all.length === 0 ? [] : [kind]));
}
