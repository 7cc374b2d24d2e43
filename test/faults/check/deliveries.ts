import { textOf } from './messages.ts';
import { ENDED, type Snapshot } from './snapshot.ts';

/** The manners of the receivers of webhooks. `comes`: in the end all deliveries arrive there. */
export const DELIVERY_MANNERS = {
  well: { path: 'well', comes: true },
  slow: { path: 'slow', comes: true },
  dead: { path: 'dead', comes: true },
  hangs: { path: 'hangs', comes: false },
  redirects: { path: 'redirects', comes: false },
  gone: { path: 'gone', comes: false },
} as const satisfies Readonly<Record<string, Readonly<{ path: string; comes: boolean }>>>;
export type DeliveryManner = keyof typeof DELIVERY_MANNERS;

/** A request that a receiver got. `status` is null if the receiver did not answer. */
export type Receipt = Readonly<{ path: string; id: string; body: string; status: number | null }>;

export type StoredDelivery = Readonly<{
  /** The public id, as the receiver reads it. */
  id: string;
  path: string;
  runId: string;
  state: string;
  attempts: number;
}>;

/** A schedule that was due once, with the words of its message. */
export type StoredSchedule = Readonly<{ id: string; content: string; fires: number; runs: number }>;

/**
 * Receivers of another tenant that never answer. `hung`: the most of their requests that were open at the same time.
 * `slots`: deliveries that all workers send at the same time.
 */
type Crowd = Readonly<{ hung: number; slots: number }>;

/** The webhooks and schedules of a row, with the requests, deliveries and fires that came of them. */
export type Edges = Readonly<{
  manners: readonly DeliveryManner[];
  receipts: readonly Receipt[];
  deliveries: readonly StoredDelivery[];
  schedules: readonly StoredSchedule[];
  crowd?: Crowd;
  /** Runs of another tenant had all slots of all workers: their requests, and how long a run of the traffic waited. */
  crowdAtWork?: Readonly<{ requests: number; longestWaitMs: number }>;
}>;

export type EdgeFindings = Readonly<{
  /** Two deliveries of one end of a run, two bodies of one delivery, or a request without a counted attempt. */
  doubledDeliveries: readonly string[];
  /** An end of a run that did not arrive at a receiver where it could, or that was sent to a private address. */
  lostDeliveries: readonly string[];
  doubledFires: readonly string[];
  lostFires: readonly string[];
  /**
   * A tenant whose receivers hang had more than half of the slots for deliveries, twice its share; or one whose models
   * take long kept another one's run waiting.
   */
  unfairShares: readonly string[];
}>;

export const NO_EDGES: Edges = { manners: [], receipts: [], deliveries: [], schedules: [] };

/** Compares the receivers' requests with the runs that ended, and the fires with the schedules that were due. */
export function checkEdges(snapshot: Snapshot, edges: Edges): EdgeFindings {
  const begun = (content: string): number =>
    snapshot.messages.filter((message) => message.role === 'user' && textOf(message).includes(content)).length;
  return {
    doubledDeliveries: [...doubledRuns(edges), ...doubledRequests(edges)],
    lostDeliveries: [...lostRuns(snapshot, edges), ...reachedInPrivate(edges)],
    doubledFires: edges.schedules.flatMap(({ id, content, fires, runs }) =>
      fires > 1 || runs > 1 || begun(content) > 1 ? [`${id} fired ${fires} times, for ${runs} runs`] : [],
    ),
    lostFires: edges.schedules.flatMap(({ id, content, fires, runs }) =>
      fires < 1 || runs < 1 || begun(content) < 1 ? [`${id} fired ${fires} times, for ${runs} runs`] : [],
    ),
    unfairShares: crowdedOut(edges),
  };
}

/** Far above the wait for an extra slot on a busy machine, and far below the time for which the crowd's models answer. */
const WAITS_AT_MOST_MS = 8_000;

function crowdedOut({ crowd, crowdAtWork }: Edges): string[] {
  const hangs = crowd !== undefined && 2 * crowd.hung > crowd.slots;
  const waits = crowdAtWork !== undefined && crowdAtWork.longestWaitMs > WAITS_AT_MOST_MS;
  return [
    ...(hangs ? [`${crowd.hung} deliveries of one tenant hung in ${crowd.slots} slots`] : []),
    ...(waits
      ? [`a run waited ${Math.round(crowdAtWork.longestWaitMs)} ms for a slot, behind those of one tenant`]
      : []),
  ];
}

function doubledRuns({ deliveries }: Edges): string[] {
  const byRun = Map.groupBy(deliveries, ({ path, runId }) => `${path} of run ${runId}`);
  return [...byRun].flatMap(([what, all]) => (all.length > 1 ? [`${all.length} deliveries to ${what}`] : []));
}

function doubledRequests({ receipts, deliveries }: Edges): string[] {
  const attempts = new Map(deliveries.map(({ id, attempts: count }) => [id, count]));
  return [...Map.groupBy(receipts, ({ id }) => id)].flatMap(([id, all]) => {
    const bodies = new Set(all.map(({ body }) => body)).size;
    const counted = attempts.get(id) ?? 0;
    return [
      ...(bodies > 1 ? [`${id} came with ${bodies} bodies`] : []),
      ...(all.length > counted ? [`${id} came ${all.length} times in ${counted} attempts`] : []),
    ];
  });
}

function lostRuns({ runs }: Snapshot, { manners, receipts, deliveries }: Edges): string[] {
  const arrived = new Set(receipts.flatMap(({ id, status }) => (status === 204 ? [id] : [])));
  const ended = runs.filter(({ kind, status }) => kind === 'task' && ENDED.includes(status));
  return manners.flatMap((manner) => {
    const { path, comes } = DELIVERY_MANNERS[manner];
    // Its first answer takes this receiver off the list: the ends of later runs are not told to it.
    if (manner === 'gone') return arrivedAt(receipts, path) === 0 ? [`nothing came to ${path}`] : [];
    const byRun = new Map(deliveries.filter((each) => each.path === path).map((each) => [each.runId, each]));
    return ended.flatMap(({ id }) => {
      const told = byRun.get(id);
      if (told === undefined) return [`the end of run ${id} is no delivery to ${path}`];
      const isWhole = !comes || (told.state === 'delivered' && arrived.has(told.id));
      return isWhole ? [] : [`${told.id} to ${path} is ${told.state} after ${told.attempts} attempts`];
    });
  });
}

const arrivedAt = (receipts: readonly Receipt[], path: string): number =>
  receipts.filter((each) => each.path === path).length;

const reachedInPrivate = ({ receipts }: Edges): string[] =>
  receipts.flatMap(({ path, id }) => (path === 'private' ? [`${id} was sent to a private address`] : []));
