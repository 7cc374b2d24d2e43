import { within } from './within.ts';

export type Store = 'queue' | 'postgres';

/** What became of one kind of work, try by try. */
export type WorkReport = Readonly<{ succeeded: () => void; failed: (error: unknown) => void }>;

export type WorkWatch = Readonly<{
  /** @param what for people, as in "adds jobs to steps" */
  of: (what: string, store: Store) => WorkReport;
  /** Why this process cannot work although its stores answer others. Null: it works, or a store is away. */
  whyStuck: () => Promise<string | null>;
}>;

/** Work that has failed for this long without a success in between counts as impossible for this process. */
const STUCK_AFTER_MS = 30_000;

const ANSWER_WITHIN_MS = 5_000;

type Failing = Readonly<{ what: string; store: Store; sinceMs: number; lastMs: number; error: unknown }>;

/**
 * Watches the work that a process repeats for ever, and so would fail at for ever. A store that is away for everybody is
 * no fault of the process, so it is asked over a new connection.
 * @param asksAnew asks a store over a connection of its own; rejects if it does not do its work
 * @param nowMs a monotonic clock
 */
export function createWorkWatch(
  asksAnew: Readonly<Record<Store, () => Promise<unknown>>>,
  nowMs: () => number = () => performance.now(),
): WorkWatch {
  const failing = new Map<string, Failing>();
  /** Work that was given up is not asked about again. */
  const isStuck = ({ sinceMs, lastMs }: Failing): boolean =>
    nowMs() - sinceMs >= STUCK_AFTER_MS && nowMs() - lastMs < STUCK_AFTER_MS;
  const answersOthers = (store: Store): Promise<boolean> =>
    within(ANSWER_WITHIN_MS, asksAnew[store]()).then(
      () => true,
      () => false,
    );
  return {
    of: (what, store) => ({
      succeeded: () => void failing.delete(what),
      failed(error) {
        const { sinceMs = nowMs() } = failing.get(what) ?? {};
        failing.set(what, { what, store, sinceMs, lastMs: nowMs(), error });
      },
    }),
    async whyStuck() {
      for (const each of [...failing.values()].filter(isStuck)) {
        if (!(await answersOthers(each.store))) continue;
        const seconds = Math.floor((nowMs() - each.sinceMs) / 1_000);
        const words = each.error instanceof Error ? each.error.message : String(each.error);
        return `this process has failed for ${seconds} s to ${each.what} (${words}), and a new connection works: start it again`;
      }
      return null;
    },
  };
}
