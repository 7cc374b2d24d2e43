import type { Fault } from '../fault.ts';
import { checkAnswers, type GivenAnswer } from './answers.ts';
import { type AcceptedCancel, checkCancels } from './cancels.ts';
import { checkChildren } from './children.ts';
import { checkContext } from './context.ts';
import { checkEdges, type EdgeFindings, type Edges } from './deliveries.ts';
import { checkResumed, checkTakenBack, type Resumption } from './edits.ts';
import { checkEvents, type ReadEvent } from './events.ts';
import { checkGhosts } from './ghosts.ts';
import { checkLimits } from './limits.ts';
import type { Loss } from './losses.ts';
import { type AcceptedMessage, checkMessages, type ModelRequest } from './messages.ts';
import { checkReasked, type MadeResponse } from './reasked.ts';
import { checkShown } from './shown.ts';
import { ENDED, type Snapshot } from './snapshot.ts';
import { checkTools } from './tools.ts';
import { checkTranscripts } from './transcript.ts';
import { checkVersions, type SeenClaim } from './versions.ts';

export type Observed = Readonly<{
  snapshot: Snapshot;
  accepted: readonly AcceptedMessage[];
  /** Tokens of messages and of changes that were refused. */
  refused: readonly string[];
  /** Repetitions under one key that were not answered like the first request. */
  wrongReplays: readonly string[];
  resumptions: readonly Resumption[];
  requests: readonly ModelRequest[];
  cancels: readonly AcceptedCancel[];
  claims: readonly SeenClaim[];
  read: ReadonlyMap<string, readonly ReadEvent[]>;
  /** Times whose commits Postgres has lost. */
  losses: readonly Loss[];
  /** Runs that still stood where they were, long after a store had gone back in time. */
  standing: readonly string[];
  /** Messages of steps that began although the queue was paused. */
  begunWhilePaused: readonly string[];
  /** Recoveries although there was nothing to recover. */
  needlessRecoveries: readonly string[];
  /** Processes that were not ready although the harm was over. */
  unready: readonly string[];
  /** Ends of processes that the suite had neither killed nor told to end. */
  ownEnds: readonly string[];
  /** Set if runs may only take so many steps and then give a final answer, which has these words in it. */
  limit?: Readonly<{ maxSteps: number; final: string }>;
  /** Set if calls of these tools wait for people, with the answers that people gave. */
  asked?: Readonly<{ tools: readonly string[]; answers: readonly GivenAnswer[] }>;
  /** Number of strikes at each place where the row was to strike, by the name of the place. */
  hits: Readonly<Record<string, number>>;
  /** Other things that the row was to do and has not done. */
  missed: readonly string[];
  edges: Edges;
  /** Answers in the background, with the ids that are in the database. */
  background?: Readonly<{ made: readonly MadeResponse[]; noted: ReadonlySet<string> }>;
  /** Time for which a child may go on after the end of its parent's run. */
  stopsWithinMs: number;
}>;

/**
 * Those of the recoveries that nothing called for: all of them if the fault loses nothing, and those of workers that
 * were taken for dead if the fault kills no worker and none has died.
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

/** Problems by kind; each entry describes one. All kinds but `unknownTools` must be empty. */
export type Findings = EdgeFindings &
  Readonly<{
    lostMessages: readonly string[];
    doubledMessages: readonly string[];
    /** Contents that were taken back, changed or refused, and are still there or were shown to the model. */
    ghostMessages: readonly string[];
    /** Requests to the model that show what no transcript has. */
    ghostRequests: readonly string[];
    /** Readers that were not told that the events which they keep are void. */
    unreset: readonly string[];
    /** Runs that went no further after a store had gone back in time. */
    standing: readonly string[];
    lateSteers: readonly string[];
    repeatedTools: readonly string[];
    /** Model calls that were asked again although the provider could give the answer again. */
    reasked: readonly string[];
    /** Tasks that were begun more than once, or whose result counts twice. */
    doubledChildren: readonly string[];
    /** Children that went on, or are still due, after their parent's run; runs that wait without an open child. */
    orphans: readonly string[];
    lostResults: readonly string[];
    unknownTools: readonly string[];
    outOfOrder: readonly string[];
    eventGaps: readonly string[];
    invalidTranscripts: readonly string[];
    /** Runs that never ended, sessions that are not at rest. */
    stuck: readonly string[];
    /** Runs that ended as failed or incomplete, or not as their limit demands: no fault is meant to cost a run. */
    failedRuns: readonly string[];
    needlessRecoveries: readonly string[];
    /** Calls whose outcome differs from a person's answer, or that ran without an answer. */
    ignoredAnswers: readonly string[];
    /** Work that went on or began in spite of a cancel of its run. */
    unheardCancels: readonly string[];
    /** Runs that were taken by a worker of an older version than they ask for. */
    olderVersions: readonly string[];
    /** Steps that began although an operator had paused their queue. */
    pausedWork: readonly string[];
    /** Processes that could not work although the harm was over. */
    unready: readonly string[];
    /** Processes that ended by themselves: no fault is meant to bring one down. */
    crashes: readonly string[];
    /** Harm, or acts of people, that the row was to have and has missed: it has proven nothing about them. */
    missed: readonly string[];
  }>;

/**
 * Judges by the database, the ledger, the provider's log and the events that readers got, and by nothing that the
 * product says of itself.
 */
export function judge(observed: Observed): Findings {
  const { snapshot, accepted, requests, read, needlessRecoveries, ownEnds, limit, asked, hits, losses } = observed;
  const messages = checkMessages(snapshot, accepted, requests, limit?.maxSteps ?? Number.POSITIVE_INFINITY, losses);
  const failed = limit === undefined ? ['failed', 'incomplete'] : ['failed'];
  const tools = checkTools(snapshot, losses);
  const events = checkEvents(snapshot, read);
  const context = checkContext(snapshot);
  const children = checkChildren(snapshot, observed.stopsWithinMs);
  const { runs, sessions } = snapshot;
  return {
    lostMessages: [...messages.lost, ...checkResumed(snapshot, accepted, observed.resumptions)],
    doubledMessages: [...messages.doubled, ...observed.wrongReplays],
    ghostMessages: checkTakenBack(snapshot, accepted, observed.refused, requests),
    ghostRequests: checkGhosts(snapshot, requests, losses),
    unreset: events.unreset,
    standing: observed.standing,
    lateSteers: [...messages.late, ...checkShown(snapshot, requests)],
    repeatedTools: tools.repeated,
    reasked: checkReasked(observed.background?.made ?? [], observed.background?.noted ?? new Set()),
    doubledChildren: children.doubled,
    orphans: children.orphans,
    lostResults: [...tools.lost, ...children.lost],
    unknownTools: tools.unknown,
    outOfOrder: [...messages.outOfOrder, ...events.outOfOrder, ...context.outOfOrder],
    eventGaps: events.gaps,
    invalidTranscripts: [...checkTranscripts(snapshot, requests), ...context.invalid],
    stuck: [
      ...runs.flatMap(({ id, status }) => (ENDED.includes(status) ? [] : [`run ${id} is ${status}`])),
      ...sessions.flatMap(({ id, status }) => (status === 'idle' ? [] : [`session ${id} is ${status}`])),
      ...context.unsettled,
    ],
    failedRuns: [
      ...runs.flatMap(({ id, status, error }) =>
        failed.includes(status) ? [`run ${id} is ${status}: ${JSON.stringify(error)}`] : [],
      ),
      ...(limit === undefined ? [] : checkLimits(snapshot, limit.maxSteps, limit.final)),
    ],
    needlessRecoveries,
    ignoredAnswers: asked === undefined ? [] : checkAnswers(snapshot, asked.answers, asked.tools),
    unheardCancels: checkCancels(snapshot, observed.cancels),
    olderVersions: checkVersions(snapshot, observed.claims),
    pausedWork: observed.begunWhilePaused.map((id) => `message ${id} was begun while the queue was paused`),
    ...checkEdges(snapshot, observed.edges),
    unready: observed.unready,
    crashes: ownEnds,
    missed: [...observed.missed, ...Object.entries(hits).flatMap(([what, count]) => (count === 0 ? [what] : []))],
  };
}

/** Kinds of findings that no fault may bring about. */
export function broken(findings: Findings): string[] {
  return Object.entries(findings).flatMap(([kind, all]) => (kind === 'unknownTools' || all.length === 0 ? [] : [kind]));
}
