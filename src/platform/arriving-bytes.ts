import { getHeapStatistics } from 'node:v8';
import { type ArrivingBudget, arrivingBudget } from '../domain/arriving-budget.ts';
import { FREE_RESULT_BYTES } from '../domain/tunables.ts';

/**
 * Waits for the room of a result, before more of it is read.
 * @param bytes that have arrived
 * @param mostBytes that the whole may have
 * @throws NoRoom when the signal aborts first
 */
export type TakeRoom = (bytes: number, mostBytes: number, signal: AbortSignal) => Promise<void>;

/** The room of one result, which is given back when it is disposed. */
export type ResultRoom = Disposable & Readonly<{ take: TakeRoom }>;

export type ArrivingBytes = Readonly<{
  /** Of a call of this tenant. */
  open: (tenantId: string) => ResultRoom;
  heldBytes: () => number;
}>;

/** The result had no room beside others in time. */
export class NoRoom extends Error {
  override readonly name = 'NoRoom';

  constructor(cause: unknown) {
    super('this worker had no room for the answer beside those of other calls: try again in a moment', { cause });
  }
}

type Waiting = Readonly<{ tenantId: string; bytes: number; enter: () => void }>;

/**
 * Bounds the results that a process holds from when they arrive until they are stored, in sum and for each tenant. A
 * small result needs no room. Any other takes all that it may need at once, and waits for it unread: if several took it
 * by and by, each might wait for the others for ever.
 */
export function createArrivingBytes(budget: ArrivingBudget): ArrivingBytes {
  const arriving: Arriving = { budget, tenants: new Map(), allBytes: 0, waiting: [] };
  return {
    open: (tenantId) => openRoom(arriving, tenantId),
    heldBytes: () => arriving.allBytes,
  };
}

type Arriving = {
  readonly budget: ArrivingBudget;
  /** Bytes that are held for each tenant. */
  readonly tenants: Map<string, number>;
  allBytes: number;
  waiting: readonly Waiting[];
};

function openRoom(arriving: Arriving, tenantId: string): ResultRoom {
  let held = 0;
  let isOver = false;
  return {
    async take(bytes, mostBytes, signal) {
      const needed = Math.min(mostBytes, arriving.budget.tenant);
      if (bytes <= FREE_RESULT_BYTES || held >= needed || isOver) return;
      // Whoever waits while it holds room might wait for ever.
      count(arriving, tenantId, -held);
      held = 0;
      await enter(arriving, { tenantId, bytes: needed }, signal);
      if (isOver) return release(arriving, tenantId, needed);
      held = needed;
    },
    [Symbol.dispose]() {
      isOver = true;
      release(arriving, tenantId, held);
      held = 0;
    },
  };
}

async function enter(arriving: Arriving, room: Omit<Waiting, 'enter'>, signal: AbortSignal): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const mine = { ...room, enter: resolve };
  const leave = (): void => {
    arriving.waiting = arriving.waiting.filter((each) => each !== mine);
    reject(new NoRoom(signal.reason));
    letIn(arriving);
  };
  arriving.waiting = [...arriving.waiting, mine];
  letIn(arriving);
  if (signal.aborted && arriving.waiting.includes(mine)) leave();
  signal.addEventListener('abort', leave, { once: true });
  try {
    await promise;
  } finally {
    signal.removeEventListener('abort', leave);
  }
}

/** Lets in who came first. Those whose tenant has its share are passed over; no other one is, however large. */
function letIn(arriving: Arriving): void {
  const { budget, tenants } = arriving;
  for (const next of arriving.waiting) {
    if ((tenants.get(next.tenantId) ?? 0) + next.bytes > budget.tenant) continue;
    if (arriving.allBytes + next.bytes > budget.all) return;
    arriving.waiting = arriving.waiting.filter((each) => each !== next);
    count(arriving, next.tenantId, next.bytes);
    next.enter();
  }
}

function release(arriving: Arriving, tenantId: string, bytes: number): void {
  if (bytes === 0) return;
  count(arriving, tenantId, -bytes);
  letIn(arriving);
}

function count(arriving: Arriving, tenantId: string, bytes: number): void {
  const { tenants } = arriving;
  arriving.allBytes += bytes;
  const held = (tenants.get(tenantId) ?? 0) + bytes;
  if (held === 0) tenants.delete(tenantId);
  else tenants.set(tenantId, held);
}

/** That of this process, because its heap is one. */
export const arrivingBytes = createArrivingBytes(arrivingBudget(getHeapStatistics().heap_size_limit));
