import type { RequestOutcome, RequestRecord } from './request.ts';

/** `none` keeps no bodies, `all` keeps every one, `small` those up to 1 MB, newest first, 64 MB together. */
export type RawBodies = 'none' | 'small' | 'all';

const SMALL_BODY_CHARS = 1_000_000;
const SMALL_BODIES_TOTAL_CHARS = 64_000_000;
const KEPT_RECORDS = 10_000;

export type OpenRecord = { -readonly [K in keyof RequestRecord]: RequestRecord[K] };

/** The log of requests: the newest 10 000. */
export type Journal = Readonly<{
  records: readonly RequestRecord[];
  /** Logs and numbers an arrived request, and wakes its waiters. */
  open: (record: OpenRecord) => void;
  /** Sets the outcome and wakes the waiters for it. */
  close: (record: OpenRecord, outcome: Exclude<RequestOutcome, 'in-progress'>) => void;
  /** Resolves with the first record, past or future, that matches. Checked when a request arrives and when it ends. */
  waitFor: (predicate: (record: RequestRecord) => boolean) => Promise<RequestRecord>;
  clear: () => void;
  dispose: () => void;
}>;

type Waiter = { predicate: (record: RequestRecord) => boolean; settle: PromiseWithResolvers<RequestRecord> };

export function createJournal(rawBodies: RawBodies): Journal {
  const records: OpenRecord[] = [];
  const waiters = new Set<Waiter>();
  const dropBody = createBodyBudget(rawBodies);
  let count = 0;
  const wake = (record: RequestRecord) => {
    for (const waiter of waiters) {
      if (!waiter.predicate(record)) continue;
      waiters.delete(waiter);
      waiter.settle.resolve(record);
    }
  };
  return {
    records,
    open: (record) => {
      record.no = count;
      count += 1;
      dropBody(record);
      records.push(record);
      if (records.length > KEPT_RECORDS) records.shift();
      wake(record);
    },
    close: (record, outcome) => {
      record.outcome = outcome;
      record.endedAtMs = performance.now();
      wake(record);
    },
    waitFor: async (predicate) => {
      const match = records.find(predicate);
      if (match !== undefined) return match;
      const settle = Promise.withResolvers<RequestRecord>();
      waiters.add({ predicate, settle });
      return settle.promise;
    },
    clear: () => {
      records.length = 0;
    },
    dispose: () => {
      for (const { settle } of waiters)
        settle.reject(new Error('The simulator was stopped while waiting for a request.'));
      waiters.clear();
    },
  };
}

function createBodyBudget(rawBodies: RawBodies): (record: OpenRecord) => void {
  const kept: OpenRecord[] = [];
  let keptChars = 0;
  return (record) => {
    const chars = record.rawBody?.length ?? 0;
    if (rawBodies === 'all') return;
    if (rawBodies === 'none' || chars > SMALL_BODY_CHARS) {
      record.rawBody = undefined;
      return;
    }
    kept.push(record);
    keptChars += chars;
    while (keptChars > SMALL_BODIES_TOTAL_CHARS) {
      const oldest = kept.shift();
      if (oldest === undefined) break;
      keptChars -= oldest.rawBody?.length ?? 0;
      oldest.rawBody = undefined;
    }
  };
}
