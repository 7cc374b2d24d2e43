import { textOf } from './messages.ts';
import { ENDED, type Snapshot } from './snapshot.ts';

/** How receivers of webhooks behave. `comes`: in the end all deliveries arrive there. */
export const DELIVERY_MANNERS = {
  well: { path: 'well', comes: true },
  slow: { path: 'slow', comes: true },
  dead: { path: 'dead', comes: true },
  hangs: { path: 'hangs', comes: false },
  redirects: { path: 'redirects', comes: false },
  gone: { path: 'gone', comes: false },
} as const satisfies Readonly<Record<string, Readonly<{ path: string; comes: boolean }>>>;
export type DeliveryManner = keyof typeof DELIVERY_MANNERS;

/** A request that a receiver got. `status`: null, it got no answer. */
export type Receipt = Readonly<{ path: string; id: string; body: string; status: number | null }>;

export type StoredDelivery = Readonly<{
  /** As the receiver reads it. */
  id: string;
  path: string;
  runId: string;
  state: string;
  attempts: number;
}>;

/** A schedule that was due once, with the words of its message. */
export type StoredSchedule = Readonly<{ id: string; content: string; fires: number; runs: number }>;

/** What is told to others and what comes by the clock, where a row has that. */
export type Edges = Readonly<{
  manners: readonly DeliveryManner[];
  receipts: readonly Receipt[];
  deliveries: readonly StoredDelivery[];
  schedules: readonly StoredSchedule[];
}>;

export type EdgeFindings = Readonly<{
  /** One end of a run told as two deliveries, a delivery with two bodies, or a request that no attempt was counted for. */
  doubledDeliveries: readonly string[];
  /** The end of a run that was not told where it could be, or was told where nothing may be sent. */
  lostDeliveries: readonly string[];
  doubledFires: readonly string[];
  lostFires: readonly string[];
}>;

export const NO_EDGES: Edges = { manners: [], receipts: [], deliveries: [], schedules: [] };

/** Compares what receivers got and what fires began with the runs that ended and the schedules that were due. */
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
  };
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
    // One answer takes it off the list: what ends later is told to it no more.
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
