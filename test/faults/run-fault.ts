import { setTimeout as delay } from 'node:timers/promises';
import type { ProfileName } from '../../simulator/profiles.ts';
import type { Random } from '../support/random.ts';
import type { AcceptedCancel } from './check/cancels.ts';
import { NO_EDGES } from './check/deliveries.ts';
import { gone } from './check/gone.ts';
import type { ModelRequest } from './check/messages.ts';
import { rawId, readSnapshot } from './check/snapshot.ts';
import { broken, type Findings, judge, needless } from './check/verdict.ts';
import type { Backend, Fault } from './fault.ts';
import { createApi } from './world/api.ts';
import { childrenSettled, treeCancelTimes } from './world/children.ts';
import { CROWD_MODEL } from './world/crowd.ts';
import { answerTo, FINAL, type ModelManners, TOOLS } from './world/model.ts';
import type { OwnPostgres, OwnRedis } from './world/services.ts';
import { cancelTimes, recoveryTimes } from './world/timeline.ts';
import { type OpenAnswer, QUIET_TRAFFIC, startTraffic, type Traffic } from './world/traffic.ts';
import { startWorld, type World } from './world/world.ts';

export type FaultRun = Readonly<{
  fault: Fault;
  backend: Backend;
  runs: number;
  sessions: number;
  random: Random;
  postgres: OwnPostgres;
  redis: OwnRedis | null;
  signal: AbortSignal;
  logFile: string | undefined;
  profile?: ProfileName | undefined;
}>;

/** Result of one kind of harm. Times in milliseconds. */
export type FaultResult = Readonly<{
  fault: string;
  backend: Backend;
  /** Runs in the database at the end. */
  runs: number;
  /** Runs that gave tasks to other agents. */
  parents: number;
  findings: Findings;
  broken: readonly string[];
  deaths: number;
  /** Messages that went with commits which Postgres has lost, and how many of them were answered after that. */
  wentWithCommits: Readonly<{ n: number; answeredLater: number }>;
  /** Number of strikes at each place where the row was to strike. */
  hits: Readonly<Record<string, number>>;
  recoveryMs: readonly number[];
  cancelMs: readonly number[];
  /** From the cancel of a run to the moment at which each run below it stopped. */
  treeCancelMs: readonly number[];
  durationMs: number;
}>;

const MANNERS: ModelManners = { maxRounds: 3, maxCalls: 3, toolMs: 15, chunkDelayMs: 3, maxChunks: 12, tools: TOOLS };

/** Within this time every worker hears of a cancel, and every process looks for children that it is to stop. */
const STOPS_WITHIN_MS = 3_000;

/** The suite waits no longer than this: work that has not ended by then is stuck. */
const STUCK_AFTER_MS = 60_000;

/** Runs traffic through the product while the fault harms it, and judges the result. */
export async function runFault(options: FaultRun): Promise<FaultResult> {
  const { fault, backend, random } = options;
  const startedAtMs = performance.now();
  await using stack = new AsyncDisposableStack();
  const manners = { ...MANNERS, ...fault.manners };
  const world = await startWorld({ ...options, manners }, stack);
  const hangUp = new AbortController();
  const signal = AbortSignal.any([options.signal, hangUp.signal]);
  const url = (): string => world.api.url();
  const harm = new AbortController();
  const harming = fault.strike?.(world, random.fork('strike'), AbortSignal.any([harm.signal, signal]));
  const trafficOptions = { ...QUIET_TRAFFIC, sessions: options.sessions, ...fault.traffic };
  const traffic = startTraffic(
    {
      api: createApi(url, signal),
      url,
      model: world.model,
      people: world.people,
      openAnswers: (id) => openAnswers(world, id),
    },
    Math.ceil(Math.max(options.runs, fault.fewestRuns ?? 0) / (fault.runsPerMessage ?? 1)),
    trafficOptions,
    random.fork('traffic'),
    signal,
  );
  const brokenOff: string[] = [];
  traffic.done.catch((error: unknown) => brokenOff.push(`the traffic broke off: ${error}`));
  // The harm goes on while the runs make progress. Work that is still open long after the harm is stuck.
  await overOrStill(world, traffic);
  harm.abort();
  await harming;
  await overOrStill(world, traffic);
  // What is lost with commits may have been the end of a run.
  if (world.losses.length > 0) await overOrStill(world, { done: runsEnded(world) });
  await world.edges?.settled();
  if (fault.agent?.helpers !== undefined) await childrenSettled(world);
  await caughtUp(world, traffic);
  const unready = fault.endsReady === true ? await unreadyAtEnd(world) : [];
  const requests = world.simulator.requests
    .filter(({ model }) => model !== CROWD_MODEL)
    .map(
      ({ request, violations, summary, startedAtMs: sentAtMs }): ModelRequest => ({
        text: request?.messages.map(({ text }) => text).join('\n') ?? '',
        violations,
        answer: answerTo(request),
        isSummary: summary,
        startedAtMs: sentAtMs,
      }),
    );
  const snapshot = await readSnapshot(world.database, world.ledgerFile);
  const edges = (await world.edges?.observe()) ?? NO_EDGES;
  hangUp.abort();
  const deaths = world.fleet.deaths();
  const hits = { ...world.strikes.counts(), ...fault.hits?.(world, traffic, edges) };
  const missed = [...brokenOff];
  if (fault.strikesNothing !== true && Object.keys(hits).length === 0) missed.push('nothing was struck');
  const { approvals = [], clientTool } = fault.agent ?? {};
  const waitFor = [...approvals, ...(clientTool === undefined ? [] : [clientTool])];
  const findings = judge({
    snapshot,
    accepted: traffic.messages,
    ...traffic.edits,
    requests,
    claims: world.timeline.claims,
    cancels: traffic.cancels.map((cancel) => spokenOn(cancel, manners)),
    read: new Map([...traffic.readers].map(([id, reader]) => [id, reader.events])),
    begunWhilePaused: world.begunWhilePaused,
    losses: world.losses,
    standing: world.standing,
    needlessRecoveries: needless(world.timeline.recoveries(), fault, deaths),
    unready,
    ownEnds: [...world.fleet.ownEnds(), ...world.api.ownEnds()],
    hits,
    missed,
    edges,
    background: await answersInBackground(world),
    // The process that is to stop a child may be dead, and so may the worker that has the child.
    stopsWithinMs: deaths === 0 ? STOPS_WITHIN_MS : STUCK_AFTER_MS,
    ...(waitFor.length > 0 && { asked: { tools: waitFor, answers: traffic.answers } }),
    ...(fault.maxSteps !== undefined && { limit: { maxSteps: fault.maxSteps, final: FINAL } }),
  });
  return {
    fault: fault.name,
    backend,
    runs: snapshot.runs.length,
    parents: new Set(snapshot.children.map(({ parentRunId }) => parentRunId)).size,
    findings,
    broken: broken(findings),
    deaths,
    wentWithCommits: gone(snapshot, traffic.messages, world.losses),
    hits,
    recoveryMs: recoveryTimes(world.timeline),
    cancelMs: cancelTimes(world, traffic),
    treeCancelMs: await treeCancelTimes(world),
    durationMs: performance.now() - startedAtMs,
  };
}

const LOOK_EVERY_MS = 250;

/** Waits until the traffic is over, or until no event has been written for so long that none will be. */
async function overOrStill({ database }: World, traffic: Pick<Traffic, 'done'>): Promise<void> {
  let over = false;
  void traffic.done.then(
    () => {
      over = true;
    },
    () => {
      over = true;
    },
  );
  let last = '';
  let changedAtMs = performance.now();
  while (!over && performance.now() - changedAtMs < STUCK_AFTER_MS) {
    await delay(LOOK_EVERY_MS);
    const written = await database.query('select sum(event_seq)::text as sum from sessions').then(
      ({ rows }) => String(rows[0]?.sum),
      () => last,
    );
    if (written !== last) changedAtMs = performance.now();
    last = written;
  }
}

/** Resolves when every run has ended, or after `STUCK_AFTER_MS`. */
async function runsEnded({ database }: World): Promise<void> {
  for (const since = performance.now(); performance.now() - since < STUCK_AFTER_MS; ) {
    const { rowCount } = await database.query('select from runs where finished_at is null');
    if (rowCount === 0) return;
    await delay(LOOK_EVERY_MS);
  }
}

/**
 * Waits until the readers have all events; an event that is still missing after `STUCK_AFTER_MS` is missed for good.
 * The last strike may have stopped the API, and on a busy machine its next process takes many seconds to start.
 */
async function caughtUp({ database }: World, traffic: Traffic): Promise<void> {
  const { rows } = await database.query<{ id: string; seq: number }>('select id, event_seq::int as seq from sessions');
  const seqs = new Map(rows.map(({ id, seq }) => [id, seq]));
  const isBehind = (): boolean =>
    [...traffic.readers].some(([id, { events }]) => events.length < (seqs.get(rawId(id)) ?? 0));
  for (const since = performance.now(); isBehind() && performance.now() - since < STUCK_AFTER_MS; ) {
    await delay(LOOK_EVERY_MS);
  }
}

/** The processes that are still not ready when all should be, with what each says. */
async function unreadyAtEnd({ api, fleet }: World): Promise<string[]> {
  const urls = [api.url(), ...fleet.members().map(({ child }) => String(child.started['monitorUrl']))];
  const says = (url: string): Promise<string | null> =>
    fetch(`${url}/readyz`).then(
      async (response) => (response.ok ? null : `${url} is not ready: ${await response.text()}`),
      (error: unknown) => `${url} does not answer: ${error}`,
    );
  const settled = async (url: string): Promise<string | null> => {
    for (const since = performance.now(); ; ) {
      const words = await says(url);
      if (words === null || performance.now() - since > READY_WITHIN_MS) return words;
      await delay(LOOK_EVERY_MS);
    }
  };
  return (await Promise.all(urls.map(settled))).filter((words) => words !== null);
}

/** A process finds its stores again within seconds; a busy machine takes its time. */
const READY_WITHIN_MS = 20_000;

/** Answers that the model is giving in the session, with the number of pieces sent so far. */
function openAnswers({ simulator }: World, sessionId: string): OpenAnswer[] {
  return simulator.requests
    .filter(({ cacheKey, outcome }) => cacheKey === rawId(sessionId) && outcome === 'in-progress')
    .map((request) => ({ request, chunksBefore: request.chunksSent }));
}

/** Answers that the provider goes on making when their connection is gone, and the ids that the database has. */
async function answersInBackground({ simulator, database }: World) {
  const { rows } = await database.query<{ id: string }>(
    `select provider_response ->> 'id' as id from messages where provider_response is not null`,
  );
  return { made: simulator.backgrounds(), noted: new Set(rows.map(({ id }) => id)) };
}

function spokenOn({ runId, open }: Traffic['cancels'][number], { chunkDelayMs }: ModelManners): AcceptedCancel {
  const spoken = open.flatMap(({ request, chunksBefore }) => {
    const answer = answerTo(request.request);
    return answer === undefined ? [] : [{ answer, wentOnMs: (request.chunksSent - chunksBefore) * chunkDelayMs }];
  });
  return { runId, spoken };
}
